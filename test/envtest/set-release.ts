/**
 * `node test/envtest/set-release.ts v1.<minor>.<patch>`: sets the pins of the Go modules and `KUBERNETES_VERSION` to a release.
 * docs/internals/upstream.md has the other steps; `npx vitest run --project tooling test/tooling/release.test.ts` lists the remaining
 * references to another release.
 */
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { go } from "./go-program.ts";
import { MODULES, NAMED_IN, repinned } from "./pins.ts";

const [release = "", ...more] = process.argv.slice(2);
if (!/^v1\.\d+\.\d+$/.test(release) || more.length > 0) {
  process.stderr.write("usage: node test/envtest/set-release.ts v1.<minor>.<patch>\n");
  process.exitCode = 2;
} else await setRelease();

async function setRelease(): Promise<void> {
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", `k8s.io/kubernetes@${release}`], {
    env: { ...process.env, GOTOOLCHAIN: "local", GOWORK: "off" },
  });
  const { GoMod } = JSON.parse(stdout) as { readonly GoMod: string };
  const upstream = await readFile(GoMod, "utf8");
  for (const module of MODULES) {
    const folder = join(import.meta.dirname, module);
    const file = join(folder, "go.mod");
    await writeFile(file, repinned(await readFile(file, "utf8"), release, upstream));
    await go(folder, ["mod", "tidy"]);
  }
  await writeFile(NAMED_IN, (await readFile(NAMED_IN, "utf8")).replace(`"${KUBERNETES_VERSION}"`, `"${release}"`));
}
