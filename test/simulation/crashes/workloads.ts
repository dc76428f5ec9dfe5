/** The Deployment of the crash scenarios, and an invariant that must hold after every call. */
import type { GivenObject, LiveObject } from "../../support/scripted-api.ts";
import type { CrashRig } from "./rig.ts";

const NO_DEADLINE = 2 ** 31 - 1;

export function template(image: string): object {
  return { metadata: { labels: { app: "web" } }, spec: { containers: [{ name: "app", image }] } };
}

/** A Deployment of three pods with image v1, surge 1, unavailable 0. */
export function web(more: object): GivenObject {
  return {
    metadata: { name: "web", labels: { app: "web" } },
    spec: {
      replicas: 3,
      selector: { matchLabels: { app: "web" } },
      template: template("v1"),
      progressDeadlineSeconds: NO_DEADLINE,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
      ...more,
    },
  };
}

export function sizeOf({ spec }: Pick<LiveObject, "spec">): number {
  return Number(spec?.["replicas"] ?? 1);
}

export function imageOf({ spec }: LiveObject): string {
  return (spec as { template: { spec: { containers: { image: string }[] } } }).template.spec.containers[0]?.image ?? "";
}

/** @throws {Error} if two ReplicaSets have the same template */
export function noTwins({ replicaSets }: CrashRig): void {
  const images = replicaSets.map(imageOf);
  if (new Set(images).size < images.length) throw new Error(`two ReplicaSets have the same template: ${images.join(", ")}`);
}
