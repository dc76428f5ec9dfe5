/**
 * A ReplicaSet without pods in the watcher's own namespace, which no tenant can write (informer §11.9). After proof of another controller's
 * write anywhere, the watcher writes a wrong status to it. A cluster-wide controller corrects that status; a client with permissions in one
 * namespace cannot.
 *
 * CY1 only the status is changed: permissions on its spec would let a stolen credential start pods with any service account of the namespace.
 * CY2 functions never see the canary, since they would correct it first.
 * CY3 the watcher leaves the wrong status in place, so that a controller that starts or reacts later corrects it too.
 * CY4 the watcher delays the change until the correction's timestamp, in whole seconds, must be later than every accepted write.
 */
import { isObject, objectAt, textAt } from "@deltaloop/base";
import type { Clock, Log } from "@deltaloop/base";
import type { KubeReader, KubeWriter } from "@deltaloop/kube/client";
import { describeError } from "@deltaloop/kube/client";
import type { CachedResource } from "@deltaloop/kube/objects";

export interface CanaryPorts {
  readonly kube: Pick<KubeReader, "get"> & Pick<KubeWriter, "patch">;
  readonly clock: Clock;
  readonly log: Log;
}

export interface CanaryPlace {
  readonly namespace: string;
  readonly name: string;
}

export interface Canary {
  is(resource: CachedResource, object: unknown): boolean;
  /** Schedules a change, at most one per ANSWER_MS. */
  change(): void;
  /** `delayMs`: how long it waits before a change (CY4). `isSettled`: whether a correction no longer matters. */
  run(delayMs: () => number, isSettled: () => boolean, signal: AbortSignal): Promise<void>;
}

/** How long to wait for the other controller's correction. A later correction counts too. */
const ANSWER_MS = 10_000;
const RETRY_MS = 1_000;

export function createCanary({ kube, clock, log }: CanaryPorts, { namespace, name }: CanaryPlace): Canary {
  const target = { resource: "replicasets", namespace, name } as const;
  let isWanted = false;
  let wake = (): void => undefined;

  /** Returns whether the status was changed. Logs the first failure. */
  const changed = async (isFirst: boolean): Promise<boolean> => {
    try {
      const live = await kube.get("replicasets", namespace, name);
      if (!live) throw new Error("the ReplicaSet does not exist: apply infra/manifests/canary.yaml");
      const replicas = isObject(live) && objectAt(live, "status")?.["replicas"] === 1 ? 2 : 1;
      const body = { status: { replicas } };
      await kube.patch({ ...target, subresource: "status", type: "application/merge-patch+json", body });
      return true;
    } catch (error) {
      const fields = { replicaSet: `${namespace}/${name}`, error: describeError(error) };
      if (isFirst)
        log.error("failed to change the canary, retrying; until then, writes of another controller stop only their own namespaces", fields);
      return false;
    }
  };
  return {
    is(resource, object) {
      const metadata = resource === "replicasets" && isObject(object) ? objectAt(object, "metadata") : undefined;
      return metadata !== undefined && textAt(metadata, "name") === name && textAt(metadata, "namespace") === namespace;
    },
    change() {
      isWanted = true;
      wake();
    },
    async run(delayMs, isSettled, signal) {
      const pass = (ms: number): Promise<unknown> => clock.after(ms, signal).catch(() => undefined);
      signal.addEventListener("abort", () => wake(), { once: true });
      while (!signal.aborted) {
        if (!isWanted) await new Promise<void>((resolve) => (wake = resolve));
        isWanted = false;
        await pass(delayMs());
        for (let tries = 1; !signal.aborted && !isSettled() && !(await changed(tries === 1)); tries++) await pass(RETRY_MS);
        await pass(ANSWER_MS);
        if (!signal.aborted && !isSettled())
          log.warn("no other controller wrote the canary within 10 s: only the affected namespaces are stopped");
      }
    },
  };
}
