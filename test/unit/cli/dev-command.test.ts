/** `deltaloop dev` as a process. Catches a Ctrl-C, which every process of a terminal gets, that is told as a failure of what had not begun. */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { createSystemClock } from "../../../shared/adapters/system/clock.ts";
import { createSystemRandom } from "../../../shared/adapters/system/random.ts";
import { createApiServer } from "../../../shared/local/api-server/api-server.ts";
import { serveHttp } from "../../../shared/local/api-server/http.ts";
import type { HttpApiServer } from "../../../shared/local/api-server/http.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

const MAIN = join(import.meta.dirname, "../../../cli/main.ts");

let api: HttpApiServer;
let folder: string;
beforeAll(async () => {
  api = await serveHttp(createApiServer({ clock: createSystemClock(), random: createSystemRandom() }));
  folder = mkdtempSync(join(tmpdir(), "deltaloop-dev-test-"));
  writeFileSync(join(folder, "kubeconfig"), kubeconfigOf({ server: api.url }));
});
afterAll(async () => {
  await api.close();
  rmSync(folder, { recursive: true });
});

it("Ctrl-C while its parts begin ends it well, with all of them", async () => {
  const parameters = [MAIN, "dev", "--kubeconfig", "kubeconfig", "--redis", "redis://127.0.0.1:9"]; // nobody gets as far
  // A group of its own, as a terminal's.
  const dev = spawn(process.execPath, parameters, { cwd: folder, detached: true, stdio: ["ignore", "ignore", "pipe"] });
  const group = -(dev.pid ?? 0);
  let said = "";
  dev.stderr.setEncoding("utf8").on("data", (text: string) => {
    if (!said.includes("queue started") && `${said}${text}`.includes("queue started")) process.kill(group, "SIGINT");
    said += text;
  });
  const code = await new Promise<number | null>((resolve) => dev.once("close", resolve));
  expect(said).not.toContain("before it was ready");
  expect(code).toBe(0);
  expect(() => process.kill(group, 0)).toThrow("ESRCH");
});
