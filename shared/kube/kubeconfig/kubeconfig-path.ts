import { homedir } from "node:os";
import { delimiter, join } from "node:path";

/** The kubeconfig to use: the flag, the first file of KUBECONFIG, or ~/.kube/config, as kubectl looks for it. */
export function kubeconfigPath(flag: string | undefined): string {
  return flag ?? process.env["KUBECONFIG"]?.split(delimiter).find((path) => path !== "") ?? join(homedir(), ".kube", "config");
}
