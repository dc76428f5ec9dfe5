/**
 * What must hold of a Deployment while people do things to it, whatever dies meanwhile: no two ReplicaSets of one template, no more
 * asked for than the greatest size since the last rest and the surge, and, once all were ready, never fewer ready than the least size
 * since then, less what may be unavailable and what people deleted. Upstream's own arithmetic goes beyond that where a template comes
 * back whose ReplicaSet was being shrunk (deployment Q15), and where a Deployment that recreates is asked to roll back (deployment Q16).
 */
import { DESIRED_REPLICAS, ROLLBACK_TO } from "../../../shared/controllers/deployment/annotations.ts";
import type { LiveObject } from "../../support/scripted-api.ts";
import { strategyOf } from "./operations.ts";
import type { Operation, Strategy } from "./operations.ts";
import { imageOf, sizeOf } from "./workloads.ts";

/** A moment of a namespace with one Deployment. */
export interface Observed {
  readonly deployment: LiveObject;
  readonly replicaSets: readonly LiveObject[];
  readonly pods: readonly LiveObject[];
}

/** Of the time since the last rest. */
export class Bounds {
  #most: number;
  #surge = 0;
  #least = 0;
  #unavailable = 0;
  /** Made for a rollback beside all others. */
  #beside = 0;
  #isResting = false;

  constructor(deployment: Pick<LiveObject, "spec">) {
    this.#most = sizeOf(deployment);
    this.#allow(strategyOf(deployment));
  }

  /** The user request happens now. */
  acted(operation: Operation): void {
    if (operation.kind === "resize") {
      this.#most = Math.max(this.#most, operation.replicas);
      // In the middle of a rollout old and new shrink in proportion, ready or not.
      this.#least = this.#isResting ? Math.min(this.#least, operation.replicas) : 0;
    }
    if (operation.kind === "strategy") this.#allow(operation.strategy);
    if (operation.kind === "deletePod") this.#unavailable++;
    this.#isResting = false;
  }

  /** Nothing changes any more. */
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

  /** @returns what does not hold */
  broken(at: Observed): string | undefined {
    const images = at.replicaSets.map(imageOf);
    if (new Set(images).size < images.length) return `two ReplicaSets of one template: ${images.join(", ")}`;
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

/** @returns differences from the desired state, and surplus objects, when nothing changes any more and the Deployment is not paused */
export function wrongAtRest({ deployment, replicaSets, pods }: Observed): string | undefined {
  const wanted = sizeOf(deployment);
  const active = replicaSets.filter((rs) => sizeOf(rs) > 0);
  // Where one remembers another size, and nothing is there to be scaled, nothing rolls out, here as upstream (deployment Q3, deployment Q17).
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
  const conditions = (status?.["conditions"] ?? []) as readonly { readonly type: string; readonly status: string }[]; // a pod's
  return metadata.deletionTimestamp === undefined && conditions.some(({ type, status: is }) => type === "Ready" && is === "True");
}

/** Whether the new ReplicaSet reports more available pods than it should have: its controller has not followed yet. */
function isOverstated({ deployment, replicaSets }: Observed): boolean {
  const fresh = replicaSets.find((rs) => imageOf(rs) === imageOf(deployment));
  return fresh !== undefined && Number(fresh.status?.["availableReplicas"] ?? 0) > sizeOf(fresh);
}
