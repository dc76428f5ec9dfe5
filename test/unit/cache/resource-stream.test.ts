// The stream of one resource: lists, watches, resumption and invalid objects.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { DeltaSink } from "../../../shared/controllers/cache/watcher/delta-sink.ts";
import { HistoryRegressedError } from "../../../shared/kube/list-watch/list-watch.ts";
import type { CachedVersions } from "../../../shared/controllers/cache/watcher/listed-rows.ts";
import { ResourceStream } from "../../../shared/controllers/cache/watcher/resource-stream.ts";
import { KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { KubeWatch, ListPage, ListQuery } from "../../../shared/kube/client/kube.ts";
import { POD_FIELDS } from "../../../shared/kube/strip/pod-fields.ts";
import { recordingLog } from "../recording-log.ts";

type Lines = readonly string[];
const IDLE_MS = 1_000_000_000;

/** One watch: batches of lines or waits (ms), then its end: `close` or an error. Without one it stays open. */
type Watch = readonly (Lines | number | Error | "close")[];

interface Script {
  readonly lists?: readonly (ListPage | Error)[];
  readonly watches?: readonly Watch[];
  readonly resumeFrom?: string;
  readonly floor?: string;
  readonly cached?: CachedVersions;
  /** The newest version of a server with WatchList. */
  readonly streamsAt?: string;
  readonly random?: number;
  /** The name of the write guard's canary. */
  readonly canary?: string;
}

function pod(name: string, rv: number, more: object = {}): object {
  return { metadata: { namespace: "shop", name, uid: `uid-${name}`, resourceVersion: String(rv), ...more } };
}

function line(type: "ADDED" | "MODIFIED" | "DELETED", name: string, rv: number): string {
  return JSON.stringify({ type, object: pod(name, rv) });
}

const bookmark = (rv: number): string => JSON.stringify({ type: "BOOKMARK", object: { metadata: { resourceVersion: String(rv) } } });
const endBookmark = (rv: number): string => {
  const metadata = { resourceVersion: String(rv), annotations: { "k8s.io/initial-events-end": "true" } };
  return JSON.stringify({ type: "BOOKMARK", object: { metadata } });
};
const status = (code: number): string => JSON.stringify({ type: "ERROR", object: { kind: "Status", code, reason: "because" } });
const page = (rv: number, items: readonly unknown[], next?: string): ListPage => ({
  resourceVersion: String(rv),
  items,
  ...(next !== undefined && { continue: next }),
});

/**
 * Plays a script to its end.
 * @returns the requests and the calls of the sink
 */
async function play(
  { lists = [], watches = [], resumeFrom, floor = "0", cached, streamsAt, random = 0, canary }: Script,
  forMs = 200_000,
  meanwhile?: (stream: ResourceStream) => void,
) {
  // Lists of pods are not streamed.
  const resource: "pods" | "replicasets" = streamsAt === undefined ? "pods" : "replicasets";
  const clock = createVirtualClock(0);
  const asked: string[] = [];
  const timeouts: number[] = [];
  const sunk: string[] = [];
  let rows: readonly string[] = [];
  const quarantined: string[] = [];
  const log = recordingLog();
  const ends = new AbortController();
  const leftLists = [...lists];
  const leftWatches = [...watches];
  const kube: KubeWatch = {
    async listPage(_, { fields, ...query }: ListQuery) {
      expect(fields).toBe(resource === "pods" ? POD_FIELDS : undefined);
      asked.push(`${clock.now()} list ${JSON.stringify(query)}`);
      const next = leftLists.shift() ?? new UnansweredError("the script has no further response");
      if (next instanceof Error) throw next;
      return next;
    },
    newestVersion: async () => streamsAt ?? "999",
    async *watch(_, { resourceVersion, allowWatchBookmarks, timeoutSeconds, sendInitialEvents, fields }, signal) {
      expect(fields).toBe(resource === "pods" ? POD_FIELDS : undefined);
      if (sendInitialEvents && streamsAt === undefined) throw new KubeApiError({ code: 422, reason: "Invalid" });
      if (!allowWatchBookmarks || timeoutSeconds < 300 || timeoutSeconds > 600)
        throw new Error("a watch must request bookmarks and 300 to 600 s");
      asked.push(`${clock.now()} ${sendInitialEvents ? "watchList" : "watch"} ${resourceVersion}`);
      timeouts.push(timeoutSeconds);
      for (const step of [...(leftWatches.shift() ?? []), IDLE_MS]) {
        if (step === "close") return;
        if (step instanceof Error) throw step;
        if (typeof step === "number") await clock.after(step, signal);
        else yield step;
      }
    },
  };
  const sink: DeltaSink = {
    live: ({ type, key, rv, isOwn }) => void sunk.push(`${type} ${key} ${rv}${isOwn ? ", own" : ""}`),
    listed: ({ key, rv }, listRV, generation) => void sunk.push(`L${generation} at ${listRV}: ${key} ${rv}`),
    manifest: (listRV, listed, generation) => {
      rows = [...listed].map(({ key, rv }) => `${key} ${rv}`);
      sunk.push(`M${generation} at ${listRV}: ${[...listed].map(({ key }) => key).join(" ")}`);
    },
    watermark: (rv) => void sunk.push(`W ${rv}`),
    room: async () => {},
  };
  let generation = 0;
  const ports = {
    kube,
    clock,
    random: { next: () => random },
    digester: createDigester("a key for tests"),
    log,
    look: (object: unknown) => (canary !== undefined && JSON.stringify(object).includes(`"${canary}"`) ? ("canary" as const) : undefined),
    quarantine: async (what: string, where: string, why: string) => void quarantined.push(`${what}, ${where}: ${why}`),
  };
  const feed = {
    view: resource,
    sink,
    openGeneration: async () => ({ generation: ++generation, floor }),
    ...(cached && { cachedVersions: async () => cached }),
  };
  const stream = new ResourceStream({ ...ports, feeds: [feed] }, resource, resumeFrom);
  let failed: unknown;
  const running = stream.run(ends.signal).catch((error: unknown) => (failed = error));
  meanwhile?.(stream);
  await clock.advance(forMs);
  ends.abort(new Error("the test has ended"));
  await running;
  return { asked, timeouts, sunk, rows, quarantined, log, failed };
}

describe("a list", () => {
  it.each([
    { random: 0, timeoutSeconds: 300 },
    { random: 0.999_999, timeoutSeconds: 600 },
  ])(
    "[informer T01] the first list of an epoch has no version and a limit of 500; random number $random gives a watch of $timeoutSeconds s",
    async ({ random, timeoutSeconds }) => {
      const { asked, timeouts } = await play({ lists: [page(10, [pod("a", 3)])], random });
      expect(asked).toEqual(['0 list {"limit":500}', "0 watch 10"]);
      expect(timeouts).toEqual([timeoutSeconds]);
    },
  );

  it("[informer T04] requests pages of 500, with a version for the first page of a relist and only the token for later pages", async () => {
    const { asked, sunk } = await play({
      lists: [
        page(10, [pod("a", 3)], "t1"),
        page(10, [pod("b", 9)]),
        page(30, [pod("a", 3)], "t2"),
        page(30, [pod("c", 25)], "t3"),
        page(30, []),
      ],
      watches: [[[status(410)]]],
    });
    expect(asked).toEqual([
      '0 list {"limit":500}',
      '0 list {"limit":500,"continue":"t1"}',
      "0 watch 10",
      '0 list {"limit":500,"resourceVersion":"10","resourceVersionMatch":"NotOlderThan"}',
      '0 list {"limit":500,"continue":"t2"}',
      '0 list {"limit":500,"continue":"t3"}',
      "0 watch 30",
    ]);
    expect(sunk).toEqual([
      "L1 at 10: shop/a 3",
      "L1 at 10: shop/b 9",
      "M1 at 10: shop/a shop/b",
      "L2 at 30: shop/a 3",
      "L2 at 30: shop/c 25",
      "M2 at 30: shop/a shop/c",
    ]);
  });

  it("CY2 omits the canary of the guard in list, manifest and watch", async () => {
    const { sunk, rows } = await play({
      lists: [page(10, [pod("a", 3), pod("canary", 4)])],
      watches: [[[line("MODIFIED", "canary", 11), line("MODIFIED", "a", 12)]]],
      canary: "canary",
    });
    expect([sunk.join("\n"), rows.join()]).not.toContainEqual(expect.stringContaining("canary"));
    expect(sunk.join()).toContain("shop/a 12");
  });

  it("[informer T06] [informer T18] a list whose second page has expired starts again, so that no manifest mixes two snapshots", async () => {
    const { asked, sunk } = await play({
      resumeFrom: "5",
      watches: [[[status(410)]]],
      lists: [page(10, [pod("a", 3)], "t1"), new KubeApiError({ code: 410, reason: "Expired" }), page(20, [pod("b", 15)])],
    });
    expect(asked.slice(1)).toEqual([
      '0 list {"limit":500,"resourceVersion":"5","resourceVersionMatch":"NotOlderThan"}',
      '0 list {"limit":500,"continue":"t1"}',
      '0 list {"limit":500}',
      "0 watch 20",
    ]);
    expect(sunk).toEqual(["L1 at 10: shop/a 3", "L2 at 20: shop/b 15", "M2 at 20: shop/b"]);
  });

  it("[informer T18] an interrupted list sends no manifest, and starts again from the first page after a delay", async () => {
    const { asked, sunk } = await play({ lists: [page(10, [pod("a", 3)], "t1"), new UnansweredError("reset"), page(12, [pod("a", 3)])] });
    expect(asked.map((each) => each.split(" ").slice(0, 2).join(" "))).toEqual(["0 list", "0 list", "800 list", "800 watch"]);
    expect(sunk.filter((each) => each.startsWith("M"))).toEqual(["M2 at 12: shop/a"]);
  });

  it("[informer T42] a list older than the applied version ends the stream, because the history was rolled back", async () => {
    const { failed, sunk } = await play({ lists: [page(90, [pod("a", 3)])], floor: "100" });
    expect(failed).toBeInstanceOf(HistoryRegressedError);
    expect(String(failed)).toContain("the list of pods has resourceVersion 90, older than 100, which is already applied");
    expect(sunk).toEqual([]);
  });

  it("a list never requests a version older than the newest one that the Store has applied", async () => {
    const { asked } = await play({ resumeFrom: "5", watches: [[[status(410)]]], lists: [page(200, [])], floor: "100" });
    expect(asked[1]).toContain('"resourceVersion":"100"');
  });

  it("omits objects that are cached at the listed version, but keeps their names in the manifest", async () => {
    const versions = ["shop/a uid-a 3", "shop/b uid-b 1", "shop/c somebody 9"];
    const cached = { has: (key: string, uid: string, rv: string) => versions.includes(`${key} ${uid} ${rv}`) };
    const { sunk } = await play({ lists: [page(10, [pod("a", 3), pod("b", 2), pod("c", 9)])], cached });
    expect(sunk).toEqual(["L1 at 10: shop/b 2", "L1 at 10: shop/c 9", "M1 at 10: shop/a shop/b shop/c"]);
  });

  it.each([
    { name: "without uid", bad: pod("bad", 4, { uid: undefined }), what: "pods shop/bad, list" },
    { name: "[informer T87] whose version is not an integer", bad: pod("bad", 4, { resourceVersion: "abc" }), what: "pods shop/bad, list" },
    { name: "that is empty", bad: null, what: "pods undefined/undefined, list" },
  ])("a list with an object $name logs the object and keeps its neighbours", async ({ bad, what }) => {
    const { sunk, quarantined } = await play({ lists: [page(10, [pod("a", 3), bad, pod("b", 5)])] });
    expect(sunk).toEqual(["L1 at 10: shop/a 3", "L1 at 10: shop/b 5", "M1 at 10: shop/a shop/b"]);
    expect(quarantined).toEqual([expect.stringContaining(what)]);
  });

  it("[informer T16] a streamed list omits an object deleted meanwhile from the manifest, and sends later events as watch events", async () => {
    const { asked, sunk } = await play({
      streamsAt: "18",
      watches: [
        [
          [line("ADDED", "a", 9), line("ADDED", "b", 3), line("ADDED", "c", 7)],
          [line("DELETED", "c", 19), endBookmark(20), line("MODIFIED", "a", 21)],
        ],
      ],
    });
    expect(asked).toEqual(["0 watchList 18"]);
    expect(sunk).toEqual(["L1 at 18: shop/a 9", "L1 at 18: shop/b 3", "L1 at 18: shop/c 7", "M1 at 20: shop/a shop/b", "M shop/a 21"]);
  });

  it("a streamed list has the last version of objects that were changed or recreated meanwhile", async () => {
    const { rows, sunk } = await play({
      streamsAt: "18",
      watches: [
        [
          [line("ADDED", "a", 9), line("ADDED", "b", 3), line("MODIFIED", "a", 19)],
          [line("DELETED", "b", 20), line("ADDED", "b", 21), line("ADDED", "c", 22), line("DELETED", "c", 23), endBookmark(24)],
        ],
      ],
    });
    expect(rows).toEqual(["shop/a 19", "shop/b 21"]);
    expect(sunk.filter((each) => each.includes("shop/a "))).toEqual([
      "L1 at 18: shop/a 9",
      "L1 at 18: shop/a 19",
      expect.stringMatching(/^M1/),
    ]);
  });

  it("[informer T18] a streamed list that breaks off sends no manifest; the next list has a new number", async () => {
    const { sunk } = await play({
      streamsAt: "18",
      watches: [[[line("ADDED", "a", 9)], "close"], [[line("ADDED", "b", 3), endBookmark(20)]]],
    });
    expect(sunk).toEqual(["L1 at 18: shop/a 9", "L2 at 18: shop/b 3", "M2 at 20: shop/b"]);
  });

  it("a requested relist aborts the watch, and requests at least the version reached", async () => {
    const { asked } = await play(
      { resumeFrom: "5", watches: [[[line("ADDED", "a", 7)], 1_000_000]], lists: [page(9, [pod("a", 7)])] },
      5_000,
      (stream) => {
        void Promise.resolve().then(async () => {
          for (let i = 0; i < 50; i++) await Promise.resolve();
          stream.relist("a payload was lost");
        });
      },
    );
    expect(asked).toEqual(["0 watch 5", '0 list {"limit":500,"resourceVersion":"7","resourceVersionMatch":"NotOlderThan"}', "0 watch 9"]);
  });
});

describe("a watch", () => {
  it("passes on events in order", async () => {
    const { sunk } = await play({
      resumeFrom: "5",
      watches: [[[line("ADDED", "a", 6), line("MODIFIED", "a", 7)], [line("DELETED", "a", 8)]]],
    });
    expect(sunk).toEqual(["A shop/a 6", "M shop/a 7", "D shop/a 8"]);
  });

  it("marks an object last written by our own managers", async () => {
    const by = (manager: string): object => ({ managedFields: [{ manager, time: "2026-03-01T10:00:00Z" }] });
    const own = JSON.stringify({ type: "ADDED", object: pod("a", 6, by("deltaloop-replicaset")) });
    const foreign = JSON.stringify({ type: "MODIFIED", object: pod("a", 7, by("kubelet")) });
    const { sunk } = await play({ resumeFrom: "5", watches: [[[own, foreign]]] });
    expect(sunk).toEqual(["A shop/a 6, own", "M shop/a 7"]);
  });

  it("[informer T14] continues from a bookmark, of which only the version is sent", async () => {
    const { asked, sunk } = await play({ resumeFrom: "5", watches: [[[bookmark(50)], new UnansweredError("reset")]] });
    expect(sunk).toEqual(["W 50"]);
    expect(asked).toEqual(["0 watch 5", "800 watch 50"]);
  });

  it("[informer T20] a watch that receives no data for 100 s is aborted and resumed from the last version", async () => {
    const { asked } = await play({
      resumeFrom: "5",
      watches: [[[line("ADDED", "a", 6)], 100_000, new UnansweredError("no byte for 100000 ms")]],
    });
    expect(asked).toEqual(["0 watch 5", "100800 watch 6"]);
  });

  it("[informer T21] an idle but healthy watch is kept", async () => {
    const minute = [60_000, [bookmark(5)]] as const;
    const { asked } = await play({ resumeFrom: "5", watches: [[...minute, ...minute, ...minute, ...minute]] }, 290_000);
    expect(asked).toEqual(["0 watch 5"]);
  });

  it("[informer T22] a watch with a corrupt line drops the connection and resumes before that line, without loss", async () => {
    const { asked, sunk, log } = await play({
      resumeFrom: "5",
      watches: [[[line("ADDED", "a", 6), '{"type":"MODIF', line("ADDED", "c", 8)]], [[line("MODIFIED", "b", 7), line("ADDED", "c", 8)]]],
    });
    expect(asked).toEqual(["0 watch 5", "800 watch 6"]);
    expect(sunk).toEqual(["A shop/a 6", "M shop/b 7", "A shop/c 8"]);
    expect(log.lines.find(({ level }) => level === "error")).toMatchObject({
      message: "watch line cannot be decoded, the stream resumes before it",
      fields: { resource: "pods", rv: "6" },
    });
  });

  it("[informer T22] [informer T87] a watch with a non-integer resourceVersion drops the connection and resumes before that event, and lists the second time", async () => {
    const bad = JSON.stringify({ type: "ADDED", object: pod("bad", 7, { resourceVersion: "abc" }) });
    const { asked, log } = await play({ resumeFrom: "5", watches: [[[bad]], [[bad]]], lists: [page(9, [])] });
    expect(asked.map((each) => each.split(" ").slice(0, 3).join(" "))).toEqual([
      "0 watch 5",
      "800 watch 5",
      '800 list {"limit":500,"resourceVersion":"5","resourceVersionMatch":"NotOlderThan"}',
      "800 watch 9",
    ]);
    expect(log.lines.filter(({ level }) => level === "error").map(({ fields }) => String(fields["why"]))).toEqual(
      Array(2).fill(expect.stringContaining("decimal resourceVersion")),
    );
  });

  it("a watch with an object without a uid logs the position of the object and continues with the next event", async () => {
    const bad = JSON.stringify({ type: "ADDED", object: pod("bad", 7, { uid: undefined }) });
    const { asked, sunk, quarantined } = await play({
      resumeFrom: "5",
      watches: [[[line("ADDED", "a", 6), bad, line("ADDED", "c", 8)], new UnansweredError("reset")]],
    });
    expect(sunk).toEqual(["A shop/a 6", "A shop/c 8"]);
    expect(quarantined).toEqual([expect.stringMatching(/^pods shop\/bad, watch at 7: .*uid/)]);
    expect(asked[1]).toBe("800 watch 8");
  });

  it.each([
    { name: "[informer T07] 410 in the stream", watch: [[line("ADDED", "a", 6), status(410)]] as Watch, next: "list" },
    { name: "[informer T08] 410 as the response", watch: [new KubeApiError({ code: 410, reason: "Expired" })] as Watch, next: "list" },
    { name: "[informer T10] 429 in the stream", watch: [[line("ADDED", "a", 6), status(429)]] as Watch, next: "watch" },
    { name: "a clean end", watch: [[line("ADDED", "a", 6)], "close"] as Watch, next: "watch" },
  ])("a watch continues with a $next after $name", async ({ watch, next }) => {
    const { asked } = await play({ resumeFrom: "5", watches: [watch], lists: [page(9, [])] });
    expect(asked[1]?.split(" ")[1]).toBe(next);
  });
});
