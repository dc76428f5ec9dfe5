import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/**
 * The kubeconfig to use: the flag, KUBECONFIG, or ~/.kube/config, as kubectl looks for it. KUBECONFIG may name several files, which
 * `readKubeconfig` merges.
 */
export function kubeconfigPath(flag: string | undefined): string {
  return flag ?? (filesIn(process.env["KUBECONFIG"] ?? "").join(delimiter) || join(homedir(), ".kube", "config"));
}

/** The files of a list as in PATH. */
export function filesIn(list: string): readonly string[] {
  return list.split(delimiter).filter((path) => path !== "");
}
