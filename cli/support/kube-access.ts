/** Which credentials a process of ours uses for the API server. */
import { readFileSync } from "node:fs";
import { KubeConfig } from "@kubernetes/client-node";
import type { KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";
import { kubeHttpConfigFrom } from "./kubeconfig.ts";
import { UsageError } from "./usage-error.ts";
import { messageOf } from "../../shared/api/errors.ts";

export interface KubeFlags {
  readonly kubeconfig: string;
  readonly context?: string;
}

/**
 * One kubeconfig may hold a context per role (`deltaloop-watcher`, `deltaloop-sync-deployment`, …: the service accounts of
 * infra/manifests/rbac.yaml). A process takes the context of its role's name if there is one, else the one that was asked for,
 * else the current one.
 *
 * @throws {UsageError} when the file cannot be used
 */
export async function kubeAccess(flags: KubeFlags, role: string, component: string): Promise<KubeHttpConfig> {
  const context = contextNames(flags.kubeconfig).includes(role) ? role : flags.context;
  try {
    return await kubeHttpConfigFrom(flags.kubeconfig, { component, ...(context !== undefined && { context }) });
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

function contextNames(path: string): readonly string[] {
  const config = new KubeConfig();
  try {
    readFileSync(path);
    config.loadFromFile(path);
  } catch (error) {
    throw new UsageError(`kubeconfig ${path} cannot be read: ${messageOf(error)}`);
  }
  return config.getContexts().map(({ name }) => name);
}
