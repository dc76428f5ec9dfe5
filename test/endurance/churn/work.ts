/** Concurrent work on a node: pods, agent restarts, and static pods that are added and removed. */
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { messageOf } from "../../../shared/kube/objects/errors.ts";
import { isNotFound } from "../../../shared/kube/client/errors.ts";
import type { Random } from "../../../shared/base/random.ts";
import type { TestRegistry } from "../../containerd/registry.ts";
import type { Cluster } from "../../support/e2e.ts";
import { eventually } from "../../support/eventually.ts";
import { getPod, podOf, shell, STAY } from "../../harness/node-processes/pods.ts";
import { KINDS, podOfKind } from "./pod-kinds.ts";
import type { Kind, PodSources } from "./pod-kinds.ts";

export const PODS = "/api/v1/namespaces/default/pods";
/** Time limit of each wait; includes a restart of the agent. */
export const WAIT_MS_MAX = 120_000;
const STATIC_EVERY_MS = 12_000;
const STATIC_PODS = 3;

export function podSources(registry: TestRegistry, hostFolder: string): PodSources & { readonly images: () => number } {
  let count = 0;
  return {
    hostFolder,
    absentImage: registry.image("absent"),
    async newImage(layerMs) {
      const name = `image-${(count += 1)}`;
      await registry.add(name, layerMs);
      return registry.image(name);
    },
    images: () => count,
  };
}

/**
 * Runs one pod.
 * @throws {Error} if the pod does not reach the state of its kind, or is not deleted
 */
export async function live(cluster: Cluster, kind: Kind, name: string, node: string, sources: PodSources): Promise<void> {
  await cluster.client.request("POST", PODS, await podOfKind(kind, name, node, sources));
  try {
    await eventually(`${name} comes`, () => comesTo(cluster, kind, name), WAIT_MS_MAX);
    await sleep(kind.staysMs ?? 0);
  } finally {
    const grace = kind.graceSeconds === undefined ? "" : `?gracePeriodSeconds=${kind.graceSeconds}`;
    await cluster.client.request("DELETE", `${PODS}/${name}${grace}`).catch((error: unknown) => {
      if (!isNotFound(error)) throw error;
    });
  }
  await eventually(`${name} goes`, async () => (await getPod(cluster, name)) === undefined, WAIT_MS_MAX);
}

async function comesTo(cluster: Cluster, { until }: Kind, name: string): Promise<true> {
  const pod = await getPod(cluster, name);
  if (pod !== undefined && until(pod)) return true;
  throw new Error(JSON.stringify(pod?.status ?? "the pod does not exist"));
}

/** Runs pods of random kinds one after the other; failures go into `found`. @returns the number of pods by kind */
export async function lives(lane: number, { cluster, node, sources, random, untilMs, found }: Work): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (let number = 0; performance.now() < untilMs; number++) {
    const kind = KINDS[Math.floor(random.next() * KINDS.length)];
    if (kind === undefined) throw new Error("the list of pod kinds is empty");
    const name = `${kind.name}-${lane}-${number}`;
    await live(cluster, kind, name, node, sources).catch((error: unknown) => found.push(`${name}: ${whole(error)}`));
    counts.set(kind.name, (counts.get(kind.name) ?? 0) + 1);
  }
  return counts;
}

export interface Work {
  readonly cluster: Cluster;
  readonly node: string;
  readonly sources: PodSources;
  readonly random: Random;
  readonly untilMs: number;
  readonly found: string[];
}

/** Adds, changes and removes the manifests of static pods; removes all at the end. */
export async function staticLives(manifests: string, untilMs: number): Promise<void> {
  const file = (number: number): string => join(manifests, `static-${number % STATIC_PODS}.json`);
  let number = 0;
  for (; performance.now() < untilMs; number++) {
    const container = shell("main", number % 2 === 0 ? STAY : "exit 1");
    await writeFile(
      file(number),
      JSON.stringify(podOf(`static-${number % STATIC_PODS}`, { containers: [container] }, { labels: { number: `${number}` } })),
    );
    await sleep(STATIC_EVERY_MS);
    if (number % 2 === 1) await rm(file(number));
  }
  for (let one = 0; one < STATIC_PODS; one++) await rm(file(one), { force: true });
}

/** The error with its causes. */
export function whole(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause === undefined ? messageOf(error) : `${messageOf(error)}: ${messageOf(cause)}`;
}
