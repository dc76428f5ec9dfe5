/** Lists, as text, what a node has left behind after all pods have ended. */
import { readFile, statfs } from "node:fs/promises";
import { join } from "node:path";

import type { CriAdapter } from "../../../shared/node-agent/cri/cri.ts";
import type { ContainerdNode } from "../../containerd/containerd.ts";
import { measured } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { eventually } from "../../support/eventually.ts";
import { surplus } from "./inventory.ts";
import type { Inventory } from "./inventory.ts";
import { PODS, WAIT_MS_MAX, whole } from "./work.ts";

/** Container garbage collection runs once a minute, and the last pod may end just after a run. */
const SETTLED_MS_MAX = 150_000;
const LINES_TOLD = 8;
/** Disk usage in percent at which image garbage collection starts and ends. */
export const IMAGES_FILL = { high: 70, low: 50 };

export async function podsLeft(cluster: Cluster): Promise<readonly string[]> {
  const none = async (): Promise<true> => {
    const left = await cluster.list<{ readonly metadata: { readonly name: string } }>(PODS);
    if (left.length > 0) throw new Error(left.map(({ metadata }) => metadata.name).join());
    return true;
  };
  return await eventually("all pods are gone", none, WAIT_MS_MAX).then(
    () => [],
    (error: unknown) => [whole(error)],
  );
}

export async function leftOf(before: Inventory, take: () => Promise<Inventory>): Promise<readonly string[]> {
  let left: readonly string[] = [];
  const nothing = async (): Promise<boolean> => {
    left = surplus(before, await take());
    return left.length === 0;
  };
  return await eventually("nothing is left", nothing, SETTLED_MS_MAX).then(
    () => [],
    () => left,
  );
}

/**
 * Reports whether the agent caused a leftover. A shim whose sandbox the runtime has removed is unreachable through CRI: with every agent,
 * containerd occasionally leaves such a shim if the disk is slow. Source: containerd issues 7496, 8931, 9309.
 */
export function isAgents(one: string): boolean {
  if (!one.startsWith("shims: ")) return true;
  measured(`left by containerd: ${one}`);
  return false;
}

/** Prints the runtime's status of a leftover sandbox or container. */
export async function tellOf(found: readonly string[], logFile: string): Promise<void> {
  const log = (await readFile(logFile, "utf8")).split("\n");
  for (const id of new Set(found.flatMap((one) => /[0-9a-f]{64}/u.exec(one)?.[0] ?? [])))
    for (const line of log.filter((one) => one.includes(id)).slice(-LINES_TOLD)) measured(line);
}

export interface ImagesLeft {
  readonly found: readonly string[];
  readonly images: number;
  readonly usedPercent: number;
}

export async function imagesLeft({ directory }: ContainerdNode, cri: CriAdapter, pulled: number): Promise<ImagesLeft> {
  let used = 100;
  const hasRoom = async (): Promise<boolean> => {
    const { blocks, bavail } = await statfs(join(directory, "root"));
    used = 100 - Math.trunc((bavail * 100) / blocks);
    return used < IMAGES_FILL.high;
  };
  const isFull = await eventually("the images' disk has room", hasRoom, WAIT_MS_MAX).then(
    () => false,
    () => true,
  );
  const images = (await cri.listImages()).length;
  measured(`${images} images, ${pulled} were made to be pulled; ${used} % of their disk is full`);
  return { found: isFull ? [`images fill ${used} % of their disk`] : [], images, usedPercent: used };
}
