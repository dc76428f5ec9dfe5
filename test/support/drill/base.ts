/** The base commits of upgrade tests, each in a separate checkout. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

import { linkModules } from "../copied-modules.ts";

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, "..", "..", "..");

export interface Base {
  readonly commit: string;
  /** The root folder of the checkout, which uses this checkout's third-party packages. */
  readonly root: string;
  remove(): Promise<void>;
}

/** The commit in a file of test/upgrade, or the reason why it is unavailable. @throws when it is not an ancestor of this commit */
export async function baseCheckout(
  name: "base" | "same-identity" | "same-identity-before" = "base",
): Promise<Base | { readonly missing: string }> {
  const commit = (await readFile(join(ROOT, "test", "upgrade", name), "utf8")).trim();
  if (!/^[0-9a-f]{40}$/.test(commit)) throw new Error(`test/upgrade/${name}: expected the 40 digits of a commit`);
  const git = async (...args: readonly string[]): Promise<boolean> =>
    await run("git", ["-C", ROOT, ...args]).then(
      () => true,
      () => false,
    );
  if (!(await git("cat-file", "-e", `${commit}^{commit}`)))
    return { missing: `commit ${commit.slice(0, 7)} is not in this clone: git fetch --unshallow, where git has a history` };
  if (!(await git("merge-base", "--is-ancestor", commit, "HEAD")))
    throw new Error(`test/upgrade/${name}: ${commit} is not an ancestor of HEAD`);
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-base-"));
  const root = join(folder, commit.slice(0, 7));
  await mkdir(root);
  await run("git", ["-C", ROOT, "archive", "--output", join(folder, "base.tar"), commit]);
  await run("tar", ["-xf", join(folder, "base.tar"), "-C", root]);
  linkModules(ROOT, root);
  return { commit, root, remove: () => rm(folder, { recursive: true, force: true }) };
}
