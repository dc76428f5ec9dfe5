import { homedir } from "node:os";
import { delimiter, join, resolve } from "node:path";

/**
 * The path from the flag, KUBECONFIG, or ~/.kube/config, as in kubectl. KUBECONFIG may list several files, which `readKubeconfig` merges.
 */
export function kubeconfigPath(flag: string | undefined): string {
  return flag ?? (filesIn(process.env["KUBECONFIG"] ?? "").join(delimiter) || join(homedir(), ".kube", "config"));
}

/** Splits a path list as in PATH. */
export function filesIn(list: string): readonly string[] {
  return list.split(delimiter).filter((path) => path !== "");
}

/** Returns the list with absolute paths, for a process in another folder. */
export function absolutePaths(list: string): string {
  return filesIn(list)
    .map((path) => resolve(path))
    .join(delimiter);
}
