/**
 * Leak test of a node: runs weeks of work in minutes and checks what remains after all pods have ended.
 *
 * CH1 in the first half the agent is restarted and killed; one process runs through the second half, whose memory and files are checked.
 * CH2 each pod must reach the state of its kind, and be gone after its deletion, whatever happens to the agent meanwhile.
 * CH3 the inventory is taken before the first pod and after the last one, once the periodic clean-ups have run.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { createCri } from "../../../shared/node-agent/cri/cri.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { startContainerd } from "../../containerd/containerd.ts";
import { startRegistry } from "../../containerd/registry.ts";
import { startAgent } from "../../harness/node-processes/compared-node.ts";
import type { Agent, Side } from "../../harness/node-processes/compared-node.ts";
import { measured } from "../../support/e2e.ts";
import type { Cluster } from "../../support/e2e.ts";
import { getPod } from "../../harness/node-processes/pods.ts";
import { appetite, countsOf, takeInventory } from "./inventory.ts";
import { IMAGES_FILL, imagesLeft, isAgents, leftOf, podsLeft, tellOf } from "./left.ts";
import { KINDS, OBJECTS } from "./pod-kinds.ts";
import { grown, KEEPER, keeper, rowsLeft, TOKEN_SECONDS_MAX, tokenAgeSeconds, trendOf } from "./verdict.ts";
import type { Sample } from "./verdict.ts";
import { live, lives, PODS, staticLives, podSources } from "./work.ts";

export interface ChurnOptions {
  readonly side: Side;
  readonly minutes: number;
  readonly seed: number;
  readonly programs: { readonly kubelet: string };
}

const LIVES_AT_ONCE = 5;
const RESTART_EVERY_MS = 25_000;
const SAMPLE_EVERY_MS = 5_000;
/**
 * Size of the node's disk: enough for the images pulled within five minutes, between two image collections, and for the writes of one
 * greedy pod. With less, the node rejects all pods.
 */
const DISK_BYTES = 384 * 1024 ** 2;

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

export interface Churned {
  /** The violations, as text. */
  readonly found: readonly string[];
  /** Measurements for a table that compares both sides: leftovers of each kind, and the agent's resource usage. */
  readonly figures: Readonly<Record<string, number>>;
}

export async function churn(cluster: Cluster, { side, minutes, seed, programs }: ChurnOptions): Promise<Churned> {
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
    const sources = podSources(registry, hostFolder);
    // Runs each kind once before the first inventory, because some resources are created with the first pod and remain.
    for (const kind of KINDS.filter(({ name }) => name === "everything")) await live(cluster, kind, "first", side, sources);
    await sleep(SAMPLE_EVERY_MS);
    const before = await takeInventory(containerd, cri, agent.pid);

    await cluster.apply(keeper(side));
    const untilMs = performance.now() + minutes * 60_000;
    const work = { cluster, node: side, sources, random: createSeededRandom(seed), untilMs, found };
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
    const pods = kinds.reduce((sum, [, some]) => sum + some, 0);
    measured(`${side}: ${pods} pods of ${new Set(kinds.map(([kind]) => kind)).size} kinds, ${count} starts`);

    const uid = (await getPod(cluster, KEEPER))?.metadata.uid ?? "";
    const age = Math.round(await tokenAgeSeconds(join(containerd.directory, "kubelet"), uid));
    measured(`${side}: a token of ${age} s`);
    if (age > TOKEN_SECONDS_MAX) found.push(`a token is ${age} s old`);
    await cluster.client.request("DELETE", `${PODS}/${KEEPER}`);
    found.push(...(await podsLeft(cluster)));
    const left = await leftOf(before, () => takeInventory(containerd, cri, agent.pid));
    await tellOf(left, join(containerd.directory, "containerd.log"));
    found.push(...left.filter(isAgents));
    const atEnd = await appetite(agent.pid);
    measured(`${side}: ${trendOf(samples).words}; without pods ${atEnd.rssMiB.toFixed(0)} MiB, ${atEnd.files} files`);
    found.push(...grown(samples, atEnd), ...(side === "ours" ? await rowsLeft(await agent.log()) : []));
    await agent.end();
    agent = await start(); // the agent collects images at startup, and then every five minutes
    const images = await imagesLeft(containerd, cri, sources.images());
    found.push(...images.found);
    return {
      found,
      figures: {
        pods,
        ...countsOf(before, left),
        images: images.images,
        "images' disk, %": images.usedPercent,
        "token, s": age,
        "memory at work, MiB": Math.round(trendOf(samples).lastMiB),
        "memory without pods, MiB": Math.round(atEnd.rssMiB),
        "open files": atEnd.files,
      },
    };
  } finally {
    await agent.stop();
    cri.close();
    await containerd.stop();
    await registry.stop();
  }
}
