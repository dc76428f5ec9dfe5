/** The node_modules of a copy: third-party packages of this checkout, and the workspace packages of the copy itself. */
import { mkdirSync, readdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";

const WORKSPACE = "@deltaloop";

/**
 * Makes `<copy>/node_modules` out of links. One link to the whole folder would not do: `@deltaloop/*` in it leads to the sources of the
 * checkout, so a copy would run those instead of its own. A copy without packages under `shared/` (an older commit) gets none.
 */
export function linkModules(root: string, copy: string): void {
  const [from, to] = [join(root, "node_modules"), join(copy, "node_modules")];
  mkdirSync(join(to, WORKSPACE), { recursive: true });
  for (const name of readdirSync(from)) if (name !== WORKSPACE) symlinkSync(join(from, name), join(to, name));
  for (const { name } of readdirSync(join(copy, "shared"), { withFileTypes: true }).filter((entry) => entry.isDirectory()))
    symlinkSync(join(copy, "shared", name), join(to, WORKSPACE, name));
}
