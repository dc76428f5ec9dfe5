/** The dependency that a new project must declare to get the deltaloop version that created it. */
import { readFileSync, statSync } from "node:fs";
import { basename, dirname, join, relative, resolve } from "node:path";
import { isObject, UsageError } from "@deltaloop/base";

/**
 * A version from the registry, or the path of a tarball relative to the project as `file:…`.
 * @throws {UsageError} if neither is known
 */
export function dependencyOf(root: string, project: string, from?: string): string {
  if (from !== undefined) return tarball(project, resolve(from), `--from ${from}`);
  const modules = dirname(root);
  const [installed, folder] = [dirname(modules), basename(modules)];
  const resolved = folder === "node_modules" ? resolvedIn(modules, basename(root)) : undefined;
  if (resolved === undefined)
    throw new UsageError(
      "cannot determine the tarball that this deltaloop was installed from: pass --from with the output of `npm pack` in a checkout",
    );
  if (resolved.startsWith("file:"))
    return tarball(project, resolve(installed, resolved.slice("file:".length)), "the tarball of this deltaloop");
  const [, version] = /\/deltaloop\/-\/deltaloop-(.+)\.tgz$/.exec(resolved) ?? [];
  return version ?? resolved;
}

function tarball(project: string, path: string, what: string): string {
  if (!statSync(path, { throwIfNoEntry: false })?.isFile())
    throw new UsageError(`${what}: there is no file ${path}: pass --from with the output of \`npm pack\` in a checkout`);
  return `file:${relative(project, path).replaceAll("\\", "/")}`;
}

/**
 * Returns the place from which npm installed a package, according to its hidden lock file. Absent for other package managers and global
 * installations.
 */
function resolvedIn(modules: string, name: string): string | undefined {
  let lock: unknown;
  try {
    lock = JSON.parse(readFileSync(join(modules, ".package-lock.json"), "utf8"));
  } catch {
    return undefined;
  }
  const packages = isObject(lock) && isObject(lock["packages"]) ? lock["packages"] : {};
  const entry = packages[`node_modules/${name}`];
  return isObject(entry) && typeof entry["resolved"] === "string" ? entry["resolved"] : undefined;
}
