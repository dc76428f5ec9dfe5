/**
 * A node at work as in weeks, and what it has left when all pods have gone.
 *
 * CH1 in the first half the agent is restarted and killed; the second half one process lives through, whose memory and files are judged.
 * CH2 each pod must come to what its kind comes to, and be gone after its deletion, whatever the agent goes through meanwhile.
 * CH3 the inventory is taken before the pods and after them, when all that is done each minute or so has been done.
 */
import { mkdir, readFile, statfs } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { createCri } from "../../../shared/adapters/cri/cri.ts";
import type { CriAdapter } from "../../../shared/adapters/cri/cri.ts";
import { createSeededRandom } from "../../../shared/adapters/memory/random.ts";
import { startContainerd } from "../../containerd/containerd.ts";
import type { ContainerdNode } from "../../containerd/containerd.ts";
import { startRegistry } from "../../containerd/registry.ts";
import { startAgent } from "../../nodeconf/node.ts";
import type { Agent, Side } from "../../nodeconf/node.ts";
import { measured } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { eventually } from "../../support/eventually.ts";
import { getPod } from "../../support/real-pods.ts";
import { appetite, surplus, takeInventory } from "./inventory.ts";
import type { Inventory } from "./inventory.ts";
import { KINDS, OBJECTS } from "./lives.ts";
import { grown, KEEPER, keeper, rowsLeft, TOKEN_SECONDS_MAX, tokenAgeSeconds, trendOf } from "./verdict.ts";
import type { Sample } from "./verdict.ts";
import { live, lives, PODS, staticLives, WAIT_MS_MAX, whole, worldOf } from "./work.ts";

export interface ChurnOptions {
  readonly side: Side;
  readonly minutes: number;
  readonly seed: number;
  readonly programs: { readonly kubelet: string };
}

const LIVES_AT_ONCE = 5;
const RESTART_EVERY_MS = 25_000;
const SAMPLE_EVERY_MS = 5_000;
/** Container garbage comes each minute; the last pod went at its beginning. */
const SETTLED_MS_MAX = 150_000;
const LINES_TOLD = 8;
const DISK_BYTES = 192 * 1024 ** 2;
const IMAGES_FILL = { high: 70, low: 50 };

const SETTINGS = {
  configuration: {
    evictionHard: { "memory.available": "1Mi", "imagefs.available": "5%" },
    imageGCHighThresholdPercent: IMAGES_FILL.high,
    imageGCLowThresholdPercent: IMAGES_FILL.low,
    imageMinimumGCAge: "1s",
    volumeStatsAggPeriod: "10s",
  },
  flags: [
    ...["--eviction-hard", "memory.available<1Mi,imagefs.available<5%", "--metrics", "127.0.0.1:0", "--minimum-image-ttl-duration", "1s"],
    ...["--image-gc-high-threshold", `${IMAGES_FILL.high}`, "--image-gc-low-threshold", `${IMAGES_FILL.low}`],
  ],
};

/** @returns what was not as it should be, in words */
export async function churn(cluster: Cluster, { side, minutes, seed, programs }: ChurnOptions): Promise<readonly string[]> {
  const containerd = await startContainerd({ diskBytes: DISK_BYTES });
  const registry = await startRegistry();
  const cri = createCri(containerd.endpoint);
  const [manifests, hostFolder] = [join(containerd.directory, "manifests"), join(containerd.directory, "host")];
  await Promise.all([mkdir(manifests), mkdir(hostFolder)]);
  await cluster.apply(...OBJECTS);
  const found: string[] = [];
  const start = (): Promise<Agent> => startAgent(cluster, side, containerd, programs, { name: side, manifests, ...SETTINGS });
  let agent = await start();
  try {
    const world = worldOf(registry, hostFolder);
    // What is made with the first pod of all stays.
    for (const kind of KINDS.filter(({ name }) => name === "everything")) await live(cluster, kind, "first", side, world);
    await sleep(SAMPLE_EVERY_MS);
    const before = await takeInventory(containerd, cri, agent.pid);

    await cluster.apply(keeper(side));
    const untilMs = performance.now() + minutes * 60_000;
    const work = { cluster, node: side, world, random: createSeededRandom(seed), untilMs, found };
    const samples: Sample[] = [];
    const strikes = async (): Promise<number> => {
      let count = 0;
      for (; performance.now() + RESTART_EVERY_MS < untilMs - minutes * 30_000; count++) {
        await sleep(RESTART_EVERY_MS);
        await (count % 2 === 0 ? agent.kill() : agent.end());
        agent = await start();
      }
      for (; performance.now() < untilMs; await sleep(SAMPLE_EVERY_MS)) samples.push(await appetite(agent.pid));
      return count;
    };
    const lanes = Array.from({ length: LIVES_AT_ONCE }, (_, lane) => lives(lane, work));
    const [count] = await Promise.all([strikes(), staticLives(manifests, untilMs), ...lanes]);
    const kinds = (await Promise.all(lanes)).flatMap((one) => [...one]);
    measured(
      `${side}: ${kinds.reduce((sum, [, some]) => sum + some, 0)} pods of ${new Set(kinds.map(([kind]) => kind)).size} kinds, ${count} starts`,
    );

    const uid = (await getPod(cluster, KEEPER))?.metadata.uid ?? "";
    const age = Math.round(await tokenAgeSeconds(join(containerd.directory, "kubelet"), uid));
    measured(`${side}: a token of ${age} s`);
    if (age > TOKEN_SECONDS_MAX) found.push(`a token is ${age} s old`);
    await cluster.client.request("DELETE", `${PODS}/${KEEPER}`);
    found.push(...(await podsLeft(cluster)), ...(await leftOf(before, () => takeInventory(containerd, cri, agent.pid))));
    await tellOf(found, join(containerd.directory, "containerd.log"));
    const atEnd = await appetite(agent.pid);
    measured(`${side}: ${trendOf(samples).words}; without pods ${atEnd.rssMiB.toFixed(0)} MiB, ${atEnd.files} files`);
    found.push(...grown(samples, atEnd), ...(side === "ours" ? await rowsLeft(await agent.log()) : []));
    await agent.end();
    agent = await start(); // collects images at once, and then each five minutes
    found.push(...(await imagesLeft(containerd, cri, world.images())));
    return found;
  } finally {
    await agent.stop();
    cri.close();
    await containerd.stop();
    await registry.stop();
  }
}

async function podsLeft(cluster: Cluster): Promise<readonly string[]> {
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

async function leftOf(before: Inventory, take: () => Promise<Inventory>): Promise<readonly string[]> {
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

/** What the runtime said of a sandbox or container that is left. */
async function tellOf(found: readonly string[], logFile: string): Promise<void> {
  const log = (await readFile(logFile, "utf8")).split("\n");
  for (const id of new Set(found.flatMap((one) => /[0-9a-f]{64}/u.exec(one)?.[0] ?? [])))
    for (const line of log.filter((one) => one.includes(id)).slice(-LINES_TOLD)) measured(line);
}

async function imagesLeft({ directory }: ContainerdNode, cri: CriAdapter, pulled: number): Promise<readonly string[]> {
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
  measured(`${(await cri.listImages()).length} images, ${pulled} were made to be pulled; ${used} % of their disk is full`);
  return isFull ? [`images fill ${used} % of their disk`] : [];
}
