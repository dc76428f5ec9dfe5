// The release that the watcher publishes: after an upgrade, and while API servers of two releases respond.
import { describe, expect, it } from "vitest";

import { createClusterRelease, lookingAtRelease } from "../../../shared/controllers/cache/watcher/cluster-release.ts";
import type { ClusterReleaseOptions } from "../../../shared/controllers/cache/watcher/cluster-release.ts";
import type { KubeWatch } from "../../../shared/kube/client/kube.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { recordingLog } from "../recording-log.ts";

const MINUTE = 60_000;

function scene(first = "v1.36.3", options: ClusterReleaseOptions = {}) {
  const clock = createVirtualClock(0);
  const log = recordingLog();
  let answer: string | Error = first;
  let reads = 0;
  const read = (): Promise<string> => {
    reads++;
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
  };
  const release = createClusterRelease({ read, clock, log }, { first, ...options });
  return {
    clock,
    log,
    release,
    reads: () => reads,
    runs: (version: string | Error) => void (answer = version),
    /** Advances the time; a checkpoint requests the release, and the read ends. */
    async pass(ms: number): Promise<string | undefined> {
      await clock.advance(ms);
      release.current();
      await clock.advance(0);
      return release.current();
    },
  };
}

describe("the cluster's release", () => {
  it("the cluster's release is the one read at the start", () => {
    expect(scene("v1.36.3-eks-1a2b3c4").release.current()).toBe("1.36");
  });

  it("changes at the next connect after an upgrade, once no server of the old release has responded for ten minutes", async () => {
    const s = scene();
    await s.pass(11 * MINUTE);
    s.runs("v1.37.2");
    await s.release.look();
    expect(s.release.current()).toBe("1.37");
    expect(s.log.lines.map(({ message }) => message)).toEqual(["the cluster's Kubernetes release has changed"]);
  });

  it("the release is the lower of two releases while both have responded within the last ten minutes", async () => {
    const s = scene("v1.37.2");
    for (const version of ["v1.36.3", "v1.37.2", "v1.36.3", "v1.37.2"]) {
      await s.pass(4 * MINUTE);
      s.runs(version);
      await s.release.look();
      expect(s.release.current()).toBe("1.36");
    }
    expect(await s.pass(9 * MINUTE)).toBe("1.37");
  });

  it("the release is read each minute only while servers of two releases have responded recently", async () => {
    const s = scene();
    s.runs("v1.37.2");
    await s.pass(2 * MINUTE);
    expect(s.reads()).toBe(0);
    await s.release.look();
    for (let i = 0; i < 20; i++) await s.pass(MINUTE);
    expect(s.reads()).toBe(1 + 7);
  });

  it("the release stays the same when the version cannot be read or is invalid", async () => {
    const s = scene();
    await s.pass(11 * MINUTE);
    for (const answer of [new Error("unavailable"), "unknown"]) {
      s.runs(answer);
      await s.release.look();
      expect(await s.pass(MINUTE)).toBe("1.36");
    }
  });

  it("the release is read once for all streams that connect at the same time, and not for further pages of a list", async () => {
    const s = scene();
    const kube = { listPage: () => Promise.resolve({ resourceVersion: "1", items: [] }), watch: () => [], newestVersion: () => "1" };
    const looking = lookingAtRelease(kube as unknown as KubeWatch, s.release);
    const { signal } = new AbortController();
    looking.watch("pods", { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal);
    await looking.listPage("replicasets", {}, signal);
    expect(s.reads()).toBe(1);
    await s.clock.advance(2_000);
    await looking.listPage("replicasets", { continue: "2" }, signal);
    expect(s.reads()).toBe(1);
    await looking.listPage("replicasets", {}, signal);
    expect(s.reads()).toBe(2);
  });

  it("an unsupported release is logged once, with the flag that allows it and the risk", async () => {
    const s = scene("v1.38.0-beta.0");
    expect([await s.pass(1_000), await s.pass(1_000)]).toEqual(["1.38", "1.38"]);
    expect(s.log.lines).toHaveLength(1);
    expect(s.log.lines[0]?.fields["remedy"]).toMatch(/DELTALOOP_KUBERNETES=any acts with another release's template hashes/);
  });

  it.each([
    { version: "v1.38.0", published: "1.37" },
    { version: "v1.36.3", published: "1.36" },
    { version: "v1.34.4", published: "1.35" },
  ])("DELTALOOP_KUBERNETES=any: $version is published as $published", ({ version, published }) => {
    expect(scene(version, { isAnyKnown: true }).release.current()).toBe(published);
  });
});
