// Leader election: take-over, loss, release and fences of the Lease.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { compareResourceVersions } from "../../../shared/kube/objects/resource-version.ts";
import type { Lease } from "../../../shared/kube/objects/wire.ts";
import { acquireLease } from "../../../shared/controllers/cache/watcher/leader-election.ts";
import { LEASE_FINAL, LEASE_TERMS } from "../../../shared/controllers/cache/watcher/lineage.ts";
import type { Leadership, LeasePorts } from "../../../shared/controllers/cache/watcher/leader-election.ts";
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import type { Clock } from "../../../shared/base/clock.ts";
import { UnansweredError } from "../../../shared/kube/client/errors.ts";
import { createSimulatedKube } from "../../simulation/kube.ts";
import { recordingLog } from "../recording-log.ts";

const PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LEASE = { namespace: "kube-system", name: "deltaloop-watcher" };

function scene() {
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const server = createApiServer({ clock, random: createSeededRandom(1) });
  const log = recordingLog();
  const kube = createSimulatedKube({
    server,
    clock,
    random: createSeededRandom(2),
    component: "watcher",
    faults: () => ({ api: 0, watch: 0 }),
  });
  const candidate = (identity: string, ports: Partial<LeasePorts> = {}) => {
    const ends = new AbortController();
    let leadership: Leadership | undefined;
    const waiting = acquireLease(
      { reader: kube, writer: kube, clock, random: createSeededRandom(3), log, ...ports },
      { ...LEASE, identity },
      ends.signal,
    ).then((won) => (leadership = won));
    return { ends, waiting, leader: () => leadership };
  };
  const stored = (): Lease["spec"] & object =>
    (server.peek("leases.coordination.k8s.io", "kube-system", LEASE.name) as Lease | undefined)?.spec ?? {};
  const touch = () =>
    server.request({
      method: "PATCH",
      path: `${PATH}/${LEASE.name}`,
      headers: { "content-type": "application/merge-patch+json" },
      body: JSON.stringify({ metadata: { labels: { looked: "at" } } }),
    });
  return { clock, server, kube, log, candidate, stored, touch };
}

/** A suspended process: time passes, but none of its timers fires. */
function standing(clock: ReturnType<typeof createVirtualClock>, stands: () => boolean): Clock {
  return {
    now: () => clock.now(),
    after: async (ms, signal) => {
      await clock.after(ms, signal);
      while (stands()) await clock.after(100);
    },
  };
}

async function expectQuickly<T>(clock: ReturnType<typeof createVirtualClock>, answer: Promise<T> | undefined): Promise<T | undefined> {
  await clock.advance(3_000);
  return answer;
}

describe("the watcher's Lease", () => {
  it("the first candidate creates the Lease; its fencing token is the resourceVersion of that write, and raising the fence increases it", async () => {
    const { clock, candidate, stored } = scene();
    const a = candidate("a");
    await clock.advance(100);
    const first = a.leader()?.fence() ?? "";
    expect(stored()).toMatchObject({ holderIdentity: "a", leaseDurationSeconds: 15, leaseTransitions: 0 });
    await clock.advance(20_000);
    expect(a.leader()?.fence()).toBe(first);
    const raising = a.leader()?.raise();
    await clock.advance(100);
    expect(compareResourceVersions((await raising) ?? "", first)).toBe(1);
    expect(a.leader()?.lost.aborted).toBe(false);
  });

  it("[informer T56] another candidate acquires the Lease after 15 s without a change, which increments leaseTransitions; renewals do not", async () => {
    const { clock, candidate, stored, server } = scene();
    const a = candidate("a");
    await clock.advance(100);
    const b = candidate("b");
    await clock.advance(60_000);
    expect(b.leader()).toBeUndefined();
    expect(stored()).toMatchObject({ holderIdentity: "a", leaseTransitions: 0 });
    const { acquireTime } = stored();
    a.ends.abort(new Error("killed"));
    const killedAtMs = clock.now();
    while (!b.leader() && clock.now() - killedAtMs < 60_000) await clock.advance(100);
    expect(clock.now() - killedAtMs).toBeGreaterThanOrEqual(13_000);
    expect(clock.now() - killedAtMs).toBeLessThanOrEqual(20_000);
    expect(stored()).toMatchObject({ holderIdentity: "b", leaseTransitions: 1 });
    expect(stored().acquireTime).not.toBe(acquireTime);
    expect(compareResourceVersions(b.leader()?.fence() ?? "", a.leader()?.fence() ?? "")).toBe(1);
    server.close();
  });

  it("[informer T57] the Lease can be released at any moment, and the next candidate acquires it within 2 s", async () => {
    for (const afterMs of [10_000, 10_350, 10_700, 11_050, 11_400, 11_750]) {
      const { clock, candidate, stored } = scene();
      const a = candidate("a");
      await clock.advance(100);
      const b = candidate("b");
      await clock.advance(afterMs);
      const releasing = a.leader()?.release();
      const atMs = clock.now();
      await clock.advance(60);
      await releasing;
      if (!b.leader()) expect(stored()).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });
      while (!b.leader() && clock.now() - atMs < 10_000) await clock.advance(50);
      expect(clock.now() - atMs, `released ${afterMs} ms after the start`).toBeLessThanOrEqual(2_000);
      expect(a.leader()?.lost.aborted).toBe(true);
    }
  });

  it("LE5 [informer T57] the Lease can be released while a renewal is in flight, or right after another client has changed it", async () => {
    const slow = scene();
    const renewals: (() => void)[] = [];
    const writer = {
      ...slow.kube,
      replace: async (request: Parameters<typeof slow.kube.replace>[0]) => {
        if (slow.stored().holderIdentity === "a" && renewals.length === 0) await new Promise<void>((go) => renewals.push(go));
        return slow.kube.replace(request);
      },
    };
    const a = slow.candidate("a", { writer });
    await slow.clock.advance(3_000);
    expect(renewals).toHaveLength(1);
    const releasing = a.leader()?.release();
    await slow.clock.advance(100);
    renewals[0]?.();
    await slow.clock.advance(200);
    await releasing;
    expect(slow.stored()).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });

    const touched = scene();
    const b = touched.candidate("b");
    await touched.clock.advance(3_000);
    await touched.touch();
    const released = b.leader()?.release();
    await touched.clock.advance(200);
    await released;
    expect(touched.stored()).toMatchObject({ holderIdentity: "", leaseDurationSeconds: 1 });
  });

  it("a former holder does not release the Lease once another candidate holds it", async () => {
    const { clock, candidate, stored, log } = scene();
    let stands = false;
    const a = candidate("a", { clock: standing(clock, () => stands) });
    await clock.advance(3_000);
    stands = true;
    candidate("b");
    await clock.advance(30_000);
    expect(stored().holderIdentity).toBe("b");
    await expectQuickly(clock, a.leader()?.release());
    expect(stored().holderIdentity).toBe("b");
    expect(log.lines.filter(({ level }) => level === "error")).toEqual([]);
  });

  it("the Lease's fence can be raised while a renewal is in flight", async () => {
    const { clock, kube, candidate } = scene();
    const writer = {
      ...kube,
      replace: async (request: Parameters<typeof kube.replace>[0]) => {
        await clock.after(500);
        return kube.replace(request);
      },
    };
    const a = candidate("a", { writer });
    await clock.advance(2_300);
    const first = a.leader()?.fence() ?? "";
    const raising = expectQuickly(clock, a.leader()?.raise());
    expect(compareResourceVersions((await raising) ?? "", first)).toBe(1);
  });

  it("[informer T55] a deleted and recreated Lease restarts leaseTransitions at 0, while the fence keeps increasing", async () => {
    const { clock, candidate, stored, server } = scene();
    const a = candidate("a");
    await clock.advance(100);
    a.ends.abort(new Error("killed"));
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}` });
    const b = candidate("b");
    await clock.advance(5_000);
    expect(stored()).toMatchObject({ holderIdentity: "b", leaseTransitions: 0 });
    expect(compareResourceVersions(b.leader()?.fence() ?? "", a.leader()?.fence() ?? "")).toBe(1);
  });

  it("[informer T55] the Lease has exactly one of two candidates as its holder soon after a user deleted it", async () => {
    const { clock, candidate, stored, server } = scene();
    const all = [candidate("a"), candidate("b")];
    await clock.advance(10_000);
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}` });
    await clock.advance(5_000);
    const leading = all.filter(({ leader }) => leader()?.holds());
    expect(leading).toHaveLength(1);
    expect(stored().holderIdentity).toMatch(/^[ab]$/);
  });

  it("a renewal that creates the Lease again is reported once, and renewals and changes of other clients are not", async () => {
    const { clock, server, candidate, stored, touch } = scene();
    let recreated = 0;
    const a = candidate("a", { onRecreated: () => recreated++ });
    await clock.advance(5_000);
    await touch();
    await clock.advance(5_000);
    expect(recreated).toBe(0);
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}` });
    await clock.advance(10_000);
    expect(recreated).toBe(1);
    expect(stored().holderIdentity).toBe("a");
    a.ends.abort();
  });

  it("LE3 the Lease is lost 10 s after the last successful renewal was sent, even if its response was late", async () => {
    const { clock, kube, candidate } = scene();
    let hangs = false;
    const writer = {
      ...kube,
      replace: async (request: Parameters<typeof kube.replace>[0]) => {
        const answer = await (hangs ? new Promise<never>(() => undefined) : kube.replace(request));
        await clock.after(2_500);
        return answer;
      },
    };
    const a = candidate("a", { writer });
    await clock.advance(5_000); // the request was sent after 2 s
    hangs = true;
    await clock.advance(6_800);
    expect(a.leader()?.lost.aborted).toBe(false);
    await clock.advance(700);
    expect(a.leader()?.lost.aborted).toBe(true);
  });

  it("LE4 [informer T54] after a suspension the leader detects the loss before any timer has fired", async () => {
    const { clock, candidate } = scene();
    let stands = false;
    const a = candidate("a", { clock: standing(clock, () => stands) });
    await clock.advance(3_000);
    stands = true;
    await clock.advance(9_000);
    expect(a.leader()?.holds()).toBe(true);
    await clock.advance(3_000);
    expect(a.leader()?.lost.aborted).toBe(false);
    expect(a.leader()?.holds()).toBe(false);
    expect(a.leader()?.lost.aborted).toBe(true);
  });

  it("[informer T54] the Lease is not renewed after a suspension, even if no other candidate has acquired it", async () => {
    const { clock, candidate, stored } = scene();
    let stands = false;
    const a = candidate("a", { clock: standing(clock, () => stands) });
    await clock.advance(3_000);
    stands = true;
    await clock.advance(12_050);
    const { renewTime } = stored();
    stands = false;
    await clock.advance(5_000);
    expect(stored().renewTime).toBe(renewTime);
    expect(a.leader()?.lost.aborted).toBe(true);
  });

  it("logs one line per holder while waiting", async () => {
    const { clock, candidate, log } = scene();
    candidate("a");
    await clock.advance(100);
    candidate("b");
    await clock.advance(30_000);
    expect(log.lines.filter(({ message }) => message === "waiting for the watcher's Lease")).toHaveLength(1);
  });

  it("LE10 of a quiet cluster, the Lease is renewed every 3 s, and survives one renewal that takes its full time", async () => {
    const { clock, kube, candidate } = scene();
    let renewals = 0;
    let hangs = 0;
    const writer = {
      ...kube,
      replace: async (request: Parameters<typeof kube.replace>[0]) => {
        renewals++;
        if (hangs-- <= 0) return await kube.replace(request);
        await clock.after(5_000);
        throw new UnansweredError("unavailable");
      },
    };
    const a = candidate("a", { writer });
    await clock.advance(3_000);
    a.leader()?.setQuiet?.(true);
    await clock.advance(3_000);
    renewals = 0;
    await clock.advance(60_000);
    expect(renewals).toBeGreaterThanOrEqual(19);
    expect(renewals).toBeLessThanOrEqual(21);
    hangs = 1;
    await clock.advance(30_000);
    expect(a.leader()?.lost.aborted).toBe(false);
    a.leader()?.setQuiet?.(false);
    await clock.advance(3_000);
    renewals = 0;
    await clock.advance(60_000);
    expect(renewals).toBeGreaterThanOrEqual(29);
  });

  it("the Lease is lost after 10 s without a response to a renewal, even if it still has this holder", async () => {
    const { clock, kube, candidate } = scene();
    let away = false;
    const writer = {
      ...kube,
      replace: (request: Parameters<typeof kube.replace>[0]) =>
        away ? Promise.reject(new UnansweredError("unavailable")) : kube.replace(request),
    };
    const a = candidate("a", { writer });
    await clock.advance(5_000);
    away = true;
    await clock.advance(9_000);
    expect(a.leader()?.lost.aborted).toBe(false);
    await clock.advance(4_000);
    expect(a.leader()?.lost.aborted).toBe(true);
  });

  it("the Lease is lost at once when another holder writes it, and kept on other changes", async () => {
    const { clock, server, candidate, stored } = scene();
    const a = candidate("a");
    await clock.advance(3_000);
    const patch = (body: object) =>
      server.request({
        method: "PATCH",
        path: `${PATH}/${LEASE.name}`,
        headers: { "content-type": "application/merge-patch+json" },
        body: JSON.stringify(body),
      });
    await patch({ metadata: { labels: { looked: "at" } } });
    await clock.advance(20_000);
    expect(a.leader()?.lost.aborted).toBe(false);
    expect(stored().holderIdentity).toBe("a");
    await patch({ spec: { holderIdentity: "thief" } });
    await clock.advance(2_500);
    expect(a.leader()?.lost.aborted).toBe(true);
  });

  it("exactly one of many concurrent candidates acquires the Lease", async () => {
    const { clock, candidate } = scene();
    const all = ["a", "b", "c", "d"].map((identity) => candidate(identity));
    await clock.advance(60_000);
    expect(all.filter(({ leader }) => leader() && !leader()?.lost.aborted)).toHaveLength(1);
  });

  it("a candidate that waits for the Lease stops waiting when it is aborted", async () => {
    const { clock, candidate } = scene();
    candidate("a");
    await clock.advance(100);
    const b = candidate("b");
    await clock.advance(5_000);
    b.ends.abort(new Error("stop"));
    await clock.advance(3_000);
    expect(await b.waiting).toBeUndefined();
  });

  it("retries to acquire the Lease when its create request gets no response", async () => {
    const { clock, kube, candidate, log } = scene();
    let calls = 0;
    const writer = {
      ...kube,
      create: (request: Parameters<typeof kube.create>[0]) =>
        ++calls === 1 ? Promise.reject(new UnansweredError("unavailable")) : kube.create(request),
    };
    const a = candidate("a", { writer });
    await clock.advance(5_000);
    expect(a.leader()).toBeDefined();
    expect(log.lines[0]).toMatchObject({ level: "warn", message: "failed to acquire the watcher's Lease, retrying" });
  });
});

describe("the leader terms that an annotation of the Lease lists", () => {
  const annotations = (s: ReturnType<typeof scene>): Readonly<Record<string, string>> =>
    (s.server.peek("leases.coordination.k8s.io", "kube-system", LEASE.name) as Lease | undefined)?.metadata?.annotations ?? {};
  const terms = (s: ReturnType<typeof scene>): readonly string[] => (annotations(s)[LEASE_TERMS] ?? "").split(" ");
  const leading = async () => {
    const s = scene();
    const a = s.candidate("a");
    await s.clock.advance(100);
    const leader = a.leader();
    if (!leader?.lineage) throw new Error("no watcher leads");
    return { ...s, s, leader, lineage: leader.lineage };
  };

  it("LE6 a renewal increments the term's count once the Store has confirmed the previous count", async () => {
    const { s, clock, lineage } = await leading();
    const { term } = lineage.token();
    await clock.advance(5_000);
    expect(terms(s)).toEqual([`${term}.0`]);
    lineage.confirm(0);
    await clock.advance(2_500);
    expect(terms(s)).toEqual([`${term}.1`]);
    await clock.advance(5_000);
    expect(terms(s)).toEqual([`${term}.1`]);
    lineage.confirm(1);
    await clock.advance(2_500);
    expect(terms(s)).toEqual([`${term}.2`]);
  });

  it("LE6 raising the fence lists a new term, keeps the confirmed count of the last one, and removes unused terms", async () => {
    const { s, clock, leader, lineage } = await leading();
    const raise = async (): Promise<string> => {
      const raising = leader.raise();
      await clock.advance(100);
      await raising;
      return lineage.token().term;
    };
    const first = lineage.token().term;
    lineage.use();
    lineage.confirm(0);
    await clock.advance(2_500);
    expect(terms(s)).toEqual([`${first}.1`]);
    const second = await raise();
    expect(terms(s)).toEqual([`${first}.0`, `${second}.0`]);
    const third = await raise();
    expect(terms(s)).toEqual([`${first}.0`, `${third}.0`]);
    expect([...lineage.minted]).toEqual([first, second, third]);
    for (let i = 0; i < 12; i++) {
      lineage.use();
      await raise();
    }
    expect(terms(s)).toHaveLength(9);
    expect(terms(s).at(-1)).toBe(`${lineage.token().term}.0`);
  });

  it("LE7 a renewal keeps a list that differs from the last one written, until raising the fence replaces it", async () => {
    const { s, clock, server, leader, lineage } = await leading();
    lineage.use();
    lineage.confirm(0);
    const restore = server.backup();
    await clock.advance(2_500);
    lineage.confirm(1);
    await clock.advance(2_500);
    const listed = terms(s);
    restore();
    const restored = terms(s);
    expect(restored).not.toEqual(listed);
    await clock.advance(4_500);
    expect(terms(s)).toEqual(restored);
    expect([lineage.wentBack(), leader.lost.aborted]).toEqual([1, false]);
    const raising = leader.raise();
    await clock.advance(100);
    await raising;
    expect(terms(s)).toEqual([`${lineage.token().term}.0`]);
    await clock.advance(20_000);
    expect([lineage.wentBack(), leader.lost.aborted]).toEqual([1, false]);
  });

  it("LE5 a label or annotation that a user adds does not count as a changed list", async () => {
    const { s, clock, touch, leader, lineage } = await leading();
    lineage.confirm(0);
    for (let i = 0; i < 5; i++) {
      await touch();
      await clock.advance(2_500);
    }
    expect([lineage.wentBack(), leader.lost.aborted]).toEqual([0, false]);
    expect(terms(s)).toEqual([`${lineage.token().term}.1`]);
  });

  it("LE8 a released Lease has the final checkpoint, and the acquiring write erases it", async () => {
    const { s, clock, leader, lineage, candidate, server } = await leading();
    lineage.use();
    const final = { token: lineage.token(), checkpoint: { fence: leader.fence(), number: 7 } };
    const released = leader.release(final);
    await clock.advance(100);
    await released;
    expect(annotations(s)[LEASE_FINAL]).toBe(`${final.token.term}.0 ${final.checkpoint.fence} 7 0`);
    const kept = server.backup();
    const b = candidate("b");
    await clock.advance(2_500);
    expect(b.leader()?.lineage?.final).toEqual({ ...final, isExact: true });
    expect(b.leader()?.lineage?.listed()).toEqual([final.token]);
    expect(annotations(s)).not.toHaveProperty([LEASE_FINAL]);
    b.ends.abort();
    kept();
    // An older build held the Lease meanwhile, and kept the fields that it did not know.
    await server.request({
      method: "PATCH",
      path: `${PATH}/${LEASE.name}`,
      headers: { "content-type": "application/merge-patch+json" },
      body: JSON.stringify({ spec: { leaseTransitions: 1 } }),
    });
    const c = candidate("c");
    await clock.advance(2_500);
    expect(c.leader()?.lineage?.final).toBeUndefined();
  });
});

describe("a Lease that a user deletes", () => {
  const termsIn = (lease: unknown): readonly string[] =>
    ((lease as Lease | undefined)?.metadata?.annotations?.[LEASE_TERMS] ?? "").split(" ").filter((term) => term !== "");
  const named = (token: string): string => token.replace(/\.\d+$/, "");

  it("a candidate that has read the Lease recreates it with the same terms", async () => {
    const { clock, server, candidate } = scene();
    const at = (): unknown => server.peek("leases.coordination.k8s.io", "kube-system", LEASE.name);
    const one = candidate("one");
    await clock.advance(1_500);
    one.leader()?.lineage?.use();
    one.leader()?.lineage?.confirm(0);
    const two = candidate("two");
    await clock.advance(5_000);
    const before = termsIn(at());
    expect(before).toHaveLength(1);
    one.ends.abort(); // the election ends without an error
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}`, headers: {} });
    await clock.advance(3_000);
    expect(two.leader()).toBeDefined();
    const after = termsIn(at());
    expect(after.map(named)).toEqual([...before.map(named), expect.any(String)]);
    expect(Number(after[0]?.split(".")[1])).toBe(Number(before[0]?.split(".")[1]) + 1);
  });

  it("lists the earlier term when the process that led before recreates it in another election", async () => {
    const { clock, server, candidate } = scene();
    const one = candidate("one");
    await clock.advance(3_000);
    const { term } = one.leader()?.lineage?.token() ?? {};
    one.leader()?.lineage?.use();
    one.ends.abort();
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}`, headers: {} });
    candidate("one");
    await clock.advance(3_000);
    const terms = termsIn(server.peek("leases.coordination.k8s.io", "kube-system", LEASE.name));
    expect(terms.map((text) => text.split(".")[0])).toContain(term);
    expect(terms).toHaveLength(2);
  });

  it("lists only the new term when a process that has never read the Lease recreates it", async () => {
    const { clock, server, kube, candidate } = scene();
    const one = candidate("one");
    await clock.advance(3_000);
    one.ends.abort();
    await server.request({ method: "DELETE", path: `${PATH}/${LEASE.name}`, headers: {} });
    candidate("three", { writer: { ...kube } });
    await clock.advance(3_000);
    expect(termsIn(server.peek("leases.coordination.k8s.io", "kube-system", LEASE.name))).toHaveLength(1);
  });
});
