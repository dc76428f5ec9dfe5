/** Selects a process's credentials for the API server. */
import type { KubeHttpConfig } from "../http/config.ts";
import { kubeHttpConfigFrom, readKubeconfig } from "./kubeconfig.ts";
import { UsageError } from "@deltaloop/base";
import { messageOf } from "../objects/errors.ts";

export interface KubeFlags {
  readonly kubeconfig: string;
  readonly context?: string;
}

/**
 * One kubeconfig may hold a context per role (`deltaloop-watcher`, `deltaloop-sync-deployment`, …: the service accounts of
 * infra/manifests/rbac.yaml). A process uses the context of its role if it exists, otherwise the context of the flag, otherwise the current
 * context.
 *
 * @throws {UsageError} when the file cannot be used
 */
export async function kubeAccess(flags: KubeFlags, role: string, component: string): Promise<KubeHttpConfig> {
  try {
    const context = await contextOf(flags, role);
    return await kubeHttpConfigFrom(flags.kubeconfig, { component, ...(context !== undefined && { context }) });
  } catch (error) {
    throw new UsageError(messageOf(error));
  }
}

/**
 * Replaces the current context by its name, so that child processes started later use the same cluster even if the current context changes.
 *
 * @throws {UsageError} when the file cannot be used
 */
export async function pinContext(flags: KubeFlags): Promise<KubeFlags> {
  if (flags.context !== undefined) return flags;
  const config = await readKubeconfig(flags.kubeconfig).catch((error: unknown) => {
    throw new UsageError(messageOf(error));
  });
  const context = config["current-context"];
  return context === "" ? flags : { ...flags, context };
}

/** Returns the context to use; undefined for the current context. @throws when the file cannot be used */
export async function contextOf(flags: KubeFlags, role: string): Promise<string | undefined> {
  const { contexts } = await readKubeconfig(flags.kubeconfig);
  return contexts.some(({ name }) => name === role) ? role : flags.context;
}
