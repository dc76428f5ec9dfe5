/** Edits of a folder of clusters. Each is one step for its readers. */
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { kubeconfigText } from "@deltaloop/kube/kubeconfig";
import type { Kubeconfig } from "@deltaloop/kube/kubeconfig";
import { pauseFile } from "./read-folder.ts";

/** Writes the file of a cluster with mode 0600, under a hidden name until it is complete. */
export async function writeCluster(folder: string, file: string, config: Kubeconfig): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `.${file}.new`);
  await writeFile(path, kubeconfigText(config), { mode: 0o600 });
  await rename(path, join(folder, file));
}

export async function removeCluster(folder: string, { name, file }: { readonly name: string; readonly file: string }): Promise<void> {
  await rm(join(folder, file));
  await rm(pauseFile(folder, name), { force: true });
}

export async function setPaused(folder: string, name: string, isPaused: boolean): Promise<void> {
  const path = pauseFile(folder, name);
  await (isPaused ? writeFile(path, "") : rm(path, { force: true }));
}
