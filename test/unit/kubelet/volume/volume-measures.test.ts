// Would catch: a check that waits for the measurement of volumes or repeats it needlessly, and a volume that cannot be measured and either
// hides others, is never logged, or is logged each time.
import { expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VolumeSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { VolumeMeasures } from "../../../../shared/node-agent/kubelet/volume/volume-measures.ts";
import type { VolumePlace, VolumeUsage } from "../../../../shared/node-agent/ports/node-files.ts";
import { recordingLog } from "../../recording-log.ts";
import { nodePod } from "../fixtures.ts";

const disk = (usedBytes: number): VolumeUsage => ({ usedBytes, inodesUsed: 1 });
const scratch = (name: string): VolumeSpec => ({ name, emptyDir: {} });
const limited = (name: string): VolumeSpec => ({ name, emptyDir: { sizeLimit: "1Mi" } });
const podOf = (uid: string, ...volumes: readonly VolumeSpec[]) => nodePod({ uid, spec: { volumes: [...volumes] } });

interface Measuring {
  readonly measures: VolumeMeasures;
  readonly asked: string[];
  readonly said: () => readonly unknown[];
  /** Advances to the next check of the eviction manager. */
  readonly look: (...pods: readonly ReturnType<typeof podOf>[]) => Promise<void>;
}

/** @param answer the usage of a volume, given as `uid/name`, and the ms after which it is returned */
function measuring(answer: (volume: string) => { readonly afterMs?: number; readonly usage: VolumeUsage | Error | undefined }): Measuring {
  const clock = createVirtualClock(0);
  const asked: string[] = [];
  const log = recordingLog();
  const volumeUsage = async ({ uid, name }: VolumePlace): Promise<VolumeUsage | undefined> => {
    asked.push(`${uid}/${name}`);
    const { afterMs = 0, usage } = answer(`${uid}/${name}`);
    if (afterMs > 0) await clock.after(afterMs);
    if (usage instanceof Error) throw usage;
    return usage;
  };
  const measures = new VolumeMeasures({ files: { volumeUsage }, clock, random: { next: () => 0.5 }, log });
  return {
    measures,
    asked,
    said: () => log.lines.map(({ fields }) => [fields["pod"], fields["volume"], fields["error"]]),
    look: async (...pods) => {
      measures.measureDue(pods);
      await clock.advance(10_000);
    },
  };
}

it("[node-agent 493] measures a pod every 90 s, a pod with its own disk limit at each check, and never a pod without disk volumes", async () => {
  const { measures, asked, look } = measuring(() => ({ usage: disk(5) }));
  const plain = podOf("plain", scratch("s"), { name: "token", secret: { secretName: "x" } });
  for (let round = 0; round < 18; round++) await look(plain, podOf("limited", limited("l")), podOf("none"));
  expect([asked.filter((one) => one === "plain/s").length, asked.filter((one) => one === "limited/l").length, asked.length]).toEqual([
    2, 18, 20,
  ]);
  expect([measures.of("plain"), measures.of("none"), measures.of("unknown")]).toEqual([new Map([["s", disk(5)]]), new Map(), new Map()]);
});

it("[node-agent 493] pauses a volume's measurement for nine times its duration, without delaying other volumes", async () => {
  const { measures, asked, look } = measuring((volume) => ({ afterMs: volume.startsWith("great") ? 20_000 : 0, usage: disk(7) }));
  const pods = [podOf("great", limited("g")), podOf("small", limited("s"))];
  await look(...pods);
  expect([measures.of("great").size, measures.of("small").size]).toEqual([0, 1]);
  for (let round = 1; round < 20; round++) await look(...pods);
  expect([asked.filter((one) => one === "great/g").length, asked.filter((one) => one === "small/s").length]).toEqual([1, 20]);
  expect(measures.of("great")).toEqual(new Map([["g", disk(7)]]));
  await look(...pods);
  expect(asked.filter((one) => one === "great/g").length).toBe(2);
});

it("[node-agent 492] logs once that a volume cannot be measured completely, and counts the pod's other volumes", async () => {
  let isWell = false;
  const { measures, said, look } = measuring((volume) => {
    if (volume === "p/broken" && !isWell) return { usage: new Error("the disk says no") };
    if (volume === "p/part") return { usage: isWell ? disk(50) : { ...disk(20), failure: "one may not be read" } };
    return { usage: disk(1) };
  });
  const pod = podOf("p", limited("broken"), scratch("part"), scratch("good"));
  for (let round = 0; round < 3; round++) await look(pod);
  const told = [
    [expect.stringContaining("/"), "broken", "Error: the disk says no"],
    [expect.stringContaining("/"), "part", "one may not be read"],
  ];
  const sizes = (): readonly unknown[] => ["broken", "part", "good"].map((name) => measures.of("p").get(name)?.usedBytes);
  expect([said(), sizes()]).toEqual([told, [undefined, 20, 1]]);
  isWell = true;
  await look(pod);
  expect(sizes()).toEqual([1, 50, 1]);
  isWell = false;
  await look(pod);
  expect([said(), sizes()]).toEqual([
    [...told, ...told],
    [1, 50, 1],
  ]);
});

it("[node-agent 493] retries a missing volume at the next check, and forgets removed pods", async () => {
  let isThere = false;
  const { measures, asked, look } = measuring(() => ({ usage: isThere ? disk(3) : undefined }));
  await look(podOf("p", scratch("s")));
  isThere = true;
  await look(podOf("p", scratch("s")));
  expect([asked.length, measures.of("p").get("s")]).toEqual([2, disk(3)]);
  await look();
  expect(measures.of("p").size).toBe(0);
});
