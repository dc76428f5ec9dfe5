/**
 * The queue of image pulls.
 *
 * Catches: more or fewer concurrent pulls than allowed; a slot that is lost, never released, or given out of order; and more requests to a
 * registry than the limits allow.
 */
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { takeToken } from "../../../../shared/base/token-bucket.ts";
import type { TokenBucket } from "../../../../shared/base/token-bucket.ts";
import { ImagePuller } from "../../../../shared/node-agent/kubelet/images/image-puller.ts";
import type { ImagePullPolicy } from "../../../../shared/node-agent/kubelet/types/node-options.ts";

const UNLIMITED: ImagePullPolicy = { serialize: false, registryQps: 0, registryBurst: 0 };
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A puller whose pulls take as long as the test determines, with their results. */
function line(policy: Partial<ImagePullPolicy>) {
  const clock = createVirtualClock(0);
  const puller = new ImagePuller(clock, { ...UNLIMITED, ...policy });
  const said: string[] = [];
  return {
    said,
    clock,
    pull(name: string, ms: number, abort = new AbortController()): AbortController {
      const act = async (): Promise<string> => {
        said.push(`${name} begins`);
        await clock.after(ms, abort.signal);
        if (name.startsWith("bad")) throw new Error("no such image");
        return name;
      };
      void puller.pull(abort.signal, act).then(
        ({ value, pullMs }) => said.push(`${value} took ${pullMs}`),
        (error: unknown) => said.push(`${name}: ${String(error)}`),
      );
      return abort;
    },
    async advance(ms: number): Promise<readonly string[]> {
      await settled();
      await clock.advance(ms);
      await settled();
      return said.splice(0);
    },
  };
}

describe("the pull queue", () => {
  it("[node-agent 234] IP1 serialized: starts a pull when the previous one has ended, even if that failed", async () => {
    const { pull, advance } = line({ serialize: true });
    for (const name of ["a", "bad", "c"]) pull(name, 10);
    expect(await advance(9)).toEqual(["a begins"]);
    expect(await advance(1)).toEqual(["a took 10", "bad begins"]);
    expect(await advance(10)).toEqual(["bad: Error: no such image", "c begins"]);
    expect(await advance(10)).toEqual(["c took 10"]);
  });

  it("[node-agent 234] IP1 two in parallel: starts the third pull when one of two ends, in order of arrival", async () => {
    const { pull, advance } = line({ maxParallel: 2 });
    pull("slow", 30);
    for (const name of ["a", "b", "c"]) pull(name, 10);
    expect(await advance(9)).toEqual(["slow begins", "a begins"]);
    expect(await advance(1)).toEqual(["a took 10", "b begins"]);
    expect(await advance(10)).toEqual(["b took 10", "c begins"]);
    expect(await advance(10)).toEqual(["slow took 30", "c took 10"]);
  });

  it("[node-agent 234] IP1 runs all pulls in parallel without a limit", async () => {
    const { pull, advance } = line({});
    for (const name of ["a", "b", "c", "d"]) pull(name, 10);
    expect(await advance(9)).toEqual(["a begins", "b begins", "c begins", "d begins"]);
  });

  it("[node-agent 234] IP2 a pull that leaves the queue or its slot does not block others", async () => {
    const { pull, advance } = line({ serialize: true });
    const first = pull("a", 100);
    const second = pull("b", 10);
    pull("c", 10);
    expect(await advance(1)).toEqual(["a begins"]);
    second.abort(new Error("the pod is to end"));
    expect(await advance(1)).toEqual(["b: Error: the pod is to end"]);
    first.abort(new Error("the pod is to end"));
    expect(await advance(0)).toEqual([expect.stringMatching(/^a: /u), "c begins"]);
    expect(await advance(10)).toEqual(["c took 10"]);
    pull("d", 10, second);
    pull("e", 10);
    expect(await advance(10)).toEqual(["d: Error: the pod is to end", "e begins", "e took 10"]);
  });

  it("[node-agent 234] IP3 takes a token when a pull starts, and none for pulls that have left the queue", async () => {
    const { pull, advance } = line({ serialize: true, registryQps: 1, registryBurst: 2 });
    pull("a", 100);
    pull("left", 100).abort(new Error("left"));
    for (const name of ["b", "c", "d"]) pull(name, 100);
    await advance(100);
    expect(await advance(100)).toEqual(["b took 100", "c: PullQpsError: pull QPS exceeded", "d: PullQpsError: pull QPS exceeded"]);
    pull("e", 100);
    expect(await advance(0)).toEqual(["e: PullQpsError: pull QPS exceeded"]);
    await advance(800);
    pull("f", 100);
    expect(await advance(0)).toEqual(["f begins"]);
  });

  it("[node-agent 234] IP3 treats a rate of 0 per second as unlimited", async () => {
    const { pull, advance } = line({ registryQps: 0, registryBurst: 1 });
    for (let i = 0; i < 50; i++) pull("a", 10);
    expect(await advance(0)).toEqual(Array<string>(50).fill("a begins"));
  });
});

describe("tokens", () => {
  const rate = { perSecond: 5, burst: 10 };
  /** Returns how many of the requests were granted at each time. */
  const given = (times: readonly (readonly [number, number])[], of = rate): readonly number[] => {
    let bucket: TokenBucket | undefined;
    return times.map(([atMs, asked]) => {
      let count = 0;
      for (let i = 0; i < asked; i++) {
        const left = takeToken(bucket, of, atMs);
        if (left !== undefined) [bucket, count] = [left, count + 1];
      }
      return count;
    });
  };
  const table = [
    { name: "ten pulls start simultaneously", times: [[0, 12]], want: [10] },
    {
      name: "then one pull starts every 200 ms",
      times: [
        [0, 10],
        [199, 1],
        [200, 2],
        [399, 1],
        [400, 1],
      ],
      want: [10, 0, 1, 0, 1],
    },
    {
      name: "at most ten tokens accumulate",
      times: [
        [0, 10],
        [60_000, 20],
      ],
      want: [10, 10],
    },
    {
      name: "a clock that is set back adds no tokens",
      times: [
        [1000, 10],
        [0, 1],
        [1199, 1],
        [1200, 1],
      ],
      want: [10, 0, 0, 1],
    },
    {
      name: "no pull starts with burst 0",
      times: [
        [0, 1],
        [60_000, 1],
      ],
      of: { perSecond: 5, burst: 0 },
      want: [0, 0],
    },
  ] as const;
  it.each(table)("[node-agent 231] pull tokens: $name", ({ times, want, ...more }) => {
    expect(given(times, "of" in more ? more.of : rate)).toEqual(want);
  });
});
