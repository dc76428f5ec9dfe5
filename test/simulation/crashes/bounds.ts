/**
 * Invariants of a Deployment during user requests and crashes: no two ReplicaSets with one template, the ReplicaSets' sizes add up to no
 * more than the greatest size since the last rest plus the surge, and, once all pods were ready, never fewer ready pods than the smallest
 * size since then, minus maxUnavailable and minus pods deleted by users. Upstream's own arithmetic exceeds these bounds if the template is
 * changed back to that of a ReplicaSet that is being scaled down (deployment Q15), and if a Recreate Deployment is rolled back (deployment
 * Q16).
 */
import { DESIRED_REPLICAS, ROLLBACK_TO } from "../../../shared/controllers/deployment/annotations.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import { strategyOf } from "./operations.ts";
import type { Operation, Strategy } from "./operations.ts";
import { imageOf, sizeOf } from "./workloads.ts";

/** The state of a namespace with one Deployment. */
export interface Observed {
  readonly deployment: LiveObject;
  readonly replicaSets: readonly LiveObject[];
  readonly pods: readonly LiveObject[];
}

/** The bounds since the last time at which nothing changed any more. */
export class Bounds {
  #most: number;
  #surge = 0;
  #least = 0;
  #unavailable = 0;
  /** Additional pods that a rollback may have. */
  #beside = 0;
  #isResting = false;

  constructor(deployment: Pick<LiveObject, "spec">) {
    this.#most = sizeOf(deployment);
    this.#allow(strategyOf(deployment));
  }

  /** Records a user request. */
  acted(operation: Operation): void {
    if (operation.kind === "resize") {
      this.#most = Math.max(this.#most, operation.replicas);
      // In the middle of a rollout, old and new ReplicaSets are scaled down in proportion, whether ready or not.
      this.#least = this.#isResting ? Math.min(this.#least, operation.replicas) : 0;
    }
    if (operation.kind === "strategy") this.#allow(operation.strategy);
    if (operation.kind === "deletePod") this.#unavailable++;
    this.#isResting = false;
  }

  /** Records that nothing changes any more. */
  rested(at: Observed): void {
    const { deployment, replicaSets } = at;
    const strategy = strategyOf(deployment);
    const surge = strategy === "Recreate" ? 0 : strategy.maxSurge;
    this.#most = Math.max(sizeOf(deployment), askedOf(replicaSets) - surge);
    this.#least = deployment.spec?.["paused"] === true ? 0 : sizeOf(deployment);
    this.#surge = this.#unavailable = this.#beside = 0;
    this.#allow(strategy);
    this.#isResting = true;
  }

  /** @returns the violation, if any */
  broken(at: Observed): string | undefined {
    const images = at.replicaSets.map(imageOf);
    if (new Set(images).size < images.length) return `two ReplicaSets have the same template: ${images.join(", ")}`;
    const { deployment } = at;
    const isRollingBack = deployment.metadata.annotations?.[ROLLBACK_TO] !== undefined;
    if (isRollingBack && strategyOf(deployment) === "Recreate") this.#beside = Math.max(this.#beside, sizeOf(deployment));
    const asked = askedOf(at.replicaSets);
    const most = this.#most + this.#surge + this.#beside;
    if (asked > most) return `${asked} asked for, of at most ${most}`;
    if (isOverstated(at)) this.#least = 0;
    const [ready, least] = [at.pods.filter(isReady).length, this.#least - this.#unavailable];
    return ready < least ? `${ready} ready, of at least ${least}` : undefined;
  }

  #allow(strategy: Strategy): void {
    if (strategy === "Recreate") this.#least = 0;
    else {
      this.#surge = Math.max(this.#surge, strategy.maxSurge);
      this.#unavailable = Math.max(this.#unavailable, strategy.maxUnavailable);
    }
  }
}

/** @returns differences from the desired state, and surplus objects, once nothing changes any more and the Deployment is not paused */
export function wrongAtRest({ deployment, replicaSets, pods }: Observed): string | undefined {
  const wanted = sizeOf(deployment);
  const active = replicaSets.filter((rs) => sizeOf(rs) > 0);
  // As with upstream, nothing is scaled or rolled out if an annotation has another desired size and no ReplicaSet can be scaled (deployment
  // Q3, deployment Q17).
  const remembersAnother = active.some((rs) => rs.metadata.annotations?.[DESIRED_REPLICAS] !== String(wanted));
  if (remembersAnother && (active.length === 1 || strategyOf(deployment) === "Recreate")) return undefined;
  const left = active.map((rs) => `${imageOf(rs)}: ${sizeOf(rs)}`).join();
  if (left !== `${imageOf(deployment)}: ${wanted}`) return `${imageOf(deployment)} × ${wanted} is wanted, there is ${left}`;
  return pods.length === wanted ? undefined : `${pods.length} pods, ${wanted} wanted`;
}

function askedOf(replicaSets: readonly LiveObject[]): number {
  return replicaSets.reduce((total, rs) => total + sizeOf(rs), 0);
}

function isReady({ metadata, status }: LiveObject): boolean {
  const conditions = (status?.["conditions"] ?? []) as readonly { readonly type: string; readonly status: string }[]; // the type of a pod's field
  return metadata.deletionTimestamp === undefined && conditions.some(({ type, status: is }) => type === "Ready" && is === "True");
}

/** Returns whether the new ReplicaSet reports more available pods than its size, because its controller has not followed yet. */
function isOverstated({ deployment, replicaSets }: Observed): boolean {
  const fresh = replicaSets.find((rs) => imageOf(rs) === imageOf(deployment));
  return fresh !== undefined && Number(fresh.status?.["availableReplicas"] ?? 0) > sizeOf(fresh);
}
