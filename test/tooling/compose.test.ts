/** Catches a compose file that no engine would take, another LocalStack than the one that is tested, or a port open to the world. */
import { readFile } from "node:fs/promises";

import { parseYaml } from "../../shared/adapters/system/yaml.ts";
import { expect, it } from "vitest";

interface Compose {
  readonly services: Readonly<
    Record<string, { readonly image: string; readonly ports: readonly string[]; readonly networks: readonly string[] }>
  >;
  readonly networks: Readonly<Record<string, unknown>>;
}

const text = (name: string) => readFile(new URL(`../../infra/local/${name}`, import.meta.url), "utf8");

it("infra/local/compose.yml names pinned images, loopback ports and networks that it declares", async () => {
  const { services, networks } = parseYaml(await text("compose.yml")) as Compose;
  expect(Object.keys(services).toSorted()).toEqual(["localstack", "redis"]);
  const pin = /localstack-core\[runtime\]==([\d.]+)/.exec(await text("venv.ts"))?.[1];
  expect(services["localstack"]?.image).toBe(`localstack/localstack:${pin}`);
  for (const [name, service] of Object.entries(services)) {
    expect(service.image, name).toMatch(/^[a-z/]+:\d/);
    for (const port of service.ports) expect(port, name).toMatch(/^127\.0\.0\.1:(\d+):\1$/);
    for (const network of service.networks) expect(Object.keys(networks), name).toContain(network);
  }
});
