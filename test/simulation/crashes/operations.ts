/** Random user requests to an existing Deployment, for any API server. */
import { ROLLBACK_TO } from "../../../shared/controllers/deployment/annotations.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import type { AnyObject, RawClient } from "../../support/raw-client.ts";
import { template } from "./workloads.ts";

export type Strategy = "Recreate" | { readonly maxSurge: number; readonly maxUnavailable: number };

export type Operation =
  | { readonly kind: "template"; readonly image: string }
  | { readonly kind: "resize"; readonly replicas: number }
  | { readonly kind: "pause"; readonly paused: boolean }
  | { readonly kind: "strategy"; readonly strategy: Strategy }
  /** Rolls back to the previous revision; no effect if there is none. */
  | { readonly kind: "rollback" }
  | { readonly kind: "note"; readonly note: string }
  /** Deletes a running pod; `share` (0 to 1) selects it. */
  | { readonly kind: "deletePod"; readonly share: number };

const STRATEGIES: readonly Strategy[] = [
  { maxSurge: 1, maxUnavailable: 0 },
  { maxSurge: 2, maxUnavailable: 1 },
  { maxSurge: 0, maxUnavailable: 1 },
  "Recreate",
];
const MERGE = "application/merge-patch+json";

/** `step`: the number of earlier requests. */
export function drawOperation(random: Random, step: number, isPaused: boolean): Operation {
  const below = (n: number): number => Math.floor(random.next() * n);
  const roll = below(20);
  if (roll < 7) return { kind: "template", image: `v${below(5)}` };
  if (roll < 12) return { kind: "resize", replicas: 1 + below(6) };
  if (roll < 14) return { kind: "pause", paused: !isPaused };
  if (roll < 16) return { kind: "strategy", strategy: STRATEGIES[below(STRATEGIES.length)] ?? "Recreate" };
  if (roll < 17) return { kind: "rollback" };
  if (roll < 18) return { kind: "note", note: String(step) };
  return { kind: "deletePod", share: random.next() };
}

/**
 * Applies the request to the Deployment `web` of the namespace.
 * @returns a revision of etcd after it
 */
export async function operate(person: RawClient, namespace: string, operation: Operation): Promise<bigint> {
  if (operation.kind === "deletePod") return await deletePod(person, namespace, operation.share);
  const path = `/apis/apps/v1/namespaces/${namespace}/deployments/web`;
  return revisionOf(await person.request("PATCH", path, patchOf(operation), MERGE)) - 1n;
}

export function strategyOf({ spec }: Pick<LiveObject, "spec">): Strategy {
  const strategy = spec?.["strategy"] as { readonly rollingUpdate?: Exclude<Strategy, "Recreate"> } | undefined; // the type of a Deployment's field
  return strategy?.rollingUpdate ?? "Recreate";
}

function patchOf(operation: Exclude<Operation, { readonly kind: "deletePod" }>): object {
  switch (operation.kind) {
    case "template":
      return { spec: { template: template(operation.image) } };
    case "resize":
      return { spec: { replicas: operation.replicas } };
    case "pause":
      return { spec: { paused: operation.paused } };
    case "strategy":
      return {
        spec: {
          strategy:
            operation.strategy === "Recreate"
              ? { type: "Recreate", rollingUpdate: null }
              : { type: "RollingUpdate", rollingUpdate: operation.strategy },
        },
      };
    case "rollback":
      return { metadata: { annotations: { [ROLLBACK_TO]: "0" } } };
    case "note":
      return { metadata: { annotations: { note: operation.note } } };
    default:
      return operation satisfies never;
  }
}

async function deletePod(person: RawClient, namespace: string, share: number): Promise<bigint> {
  const path = `/api/v1/namespaces/${namespace}/pods`;
  const list = await person.request("GET", path);
  const running = (list["items"] as readonly LiveObject[]).filter(({ metadata }) => metadata.deletionTimestamp === undefined); // a PodList
  const name = running[Math.floor(share * running.length)]?.metadata.name;
  if (name !== undefined) await person.request("DELETE", `${path}/${name}`);
  return revisionOf(list);
}

function revisionOf(object: AnyObject): bigint {
  return BigInt((object["metadata"] as { resourceVersion: string }).resourceVersion); // an object or a list of the API server
}
