// List and watch over HTTP: streamed lists, pages, refusals and resumed watches.
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { HistoryRegressedError, ListWatch, type Listener } from "../../../shared/kube/list-watch/list-watch.ts";
import { AnswerTooLargeError, KubeApiError, UnansweredError } from "../../../shared/kube/client/errors.ts";
import type { KubeWatch, ListPage, WatchFrame, WatchQuery } from "../../../shared/kube/client/kube.ts";
import { NotKubernetesError } from "../../../shared/kube/client/errors.ts";
import { MalformedProtobufError } from "../../../shared/kube/protobuf/decode.ts";
import { POD_FIELDS } from "../../../shared/kube/strip/pod-fields.ts";
import { encodeEvent } from "../../support/protobuf-encoder.ts";
import { recordingLog } from "../recording-log.ts";

type Lines = readonly WatchFrame[];
const IDLE_MS = 1_000_000_000;

/** One watch: groups of lines or waits (ms), then its end: `close` or an error. Without one it stays open. */
type Watch = readonly (Lines | number | Error | "close")[];

interface Script {
  /** The server's newest version at each request; the last value repeats. */
  readonly newest?: readonly (string | Error)[];
  readonly lists?: readonly (ListPage | Error)[];
  readonly watches?: readonly Watch[];
  readonly resumeFrom?: string;
  readonly known?: string;
  /** Whether the listener reads only the fields of POD_FIELDS. */
  readonly reads?: true;
  readonly floor?: string;
  readonly random?: number;
  readonly listed?: () => void;
  readonly room?: (signal: AbortSignal) => Promise<void>;
}

const object = (name: string, rv: number | string) => ({ metadata: { namespace: "shop", name, uid: name, resourceVersion: String(rv) } });
const line = (type: "ADDED" | "MODIFIED" | "DELETED", name: string, rv: number): string =>
  JSON.stringify({ type, object: object(name, rv) });
const bookmark = (rv: number | string): string =>
  JSON.stringify({ type: "BOOKMARK", object: { metadata: { resourceVersion: String(rv) } } });
const end = (rv: number | string): string => {
  const metadata = { resourceVersion: String(rv), annotations: { "k8s.io/initial-events-end": "true" } };
  return JSON.stringify({ type: "BOOKMARK", object: { metadata } });
};
const status = (code: number, message = "because"): string =>
  JSON.stringify({ type: "ERROR", object: { kind: "Status", code, reason: "because", message } });
const page = (rv: number, names: readonly string[]): ListPage => ({
  resourceVersion: String(rv),
  items: names.map((name) => object(name, rv)),
});
const unsupported = new KubeApiError({ code: 422, reason: "Invalid", message: "sendInitialEvents: Forbidden" });
const reset = new UnansweredError("reset");
const nameOf = (item: unknown): string => (item as ReturnType<typeof object>).metadata.name;

/**
 * Plays a script to its end.
 * @returns the requests with their times, and the calls of the listener
 */
async function play(script: Script, forMs = 250_000, meanwhile?: (loop: ListWatch) => Promise<void>) {
  const clock = createVirtualClock(0);
  const asked: string[] = [];
  const queries: WatchQuery[] = [];
  const told: string[] = [];
  const log = recordingLog();
  const ends = new AbortController();
  const [newest, lists, watches] = [[...(script.newest ?? ["999"])], [...(script.lists ?? [])], [...(script.watches ?? [])]];
  const kube: KubeWatch = {
    async newestVersion() {
      const next = (newest.length > 1 ? newest.shift() : newest[0]) ?? reset;
      asked.push(`${clock.now()} newest`);
      if (next instanceof Error) throw next;
      return next;
    },
    async listPage(_, { resourceVersion, resourceVersionMatch = "", limit, continue: token, fields }) {
      const of = fields === undefined ? "" : " fields";
      asked.push(`${clock.now()} list ${token ?? resourceVersion ?? "latest"} ${resourceVersionMatch} ${limit}${of}`.replace("  ", " "));
      const next = lists.shift() ?? reset;
      if (next instanceof Error) throw next;
      return next;
    },
    async *watch(_, query, signal) {
      queries.push(query);
      const of = query.fields === undefined ? "" : " fields";
      asked.push(`${clock.now()} ${query.sendInitialEvents ? "watchList" : "watch"} ${query.resourceVersion}${of}`);
      for (const step of [...(watches.shift() ?? []), IDLE_MS]) {
        if (step === "close") return;
        if (step instanceof Error) throw step;
        if (typeof step === "number") await clock.after(step, signal);
        else yield step;
      }
    },
  };
  let listings = 0;
  const listener: Listener = {
    list: () => {
      const n = ++listings;
      return {
        ...(script.floor !== undefined && { floor: script.floor }),
        page: (items, rv) => void told.push(`${n}: ${items.map(nameOf).join(" ")} not before ${rv}`),
        change: (type, item) => void told.push(`${n}: ${type} ${nameOf(item)}`),
        listed: (rv) => {
          told.push(`${n}: whole at ${rv}`);
          script.listed?.();
        },
      };
    },
    change: (type, item, rv) => void told.push(`${type} ${nameOf(item)} ${rv}`),
    bookmark: (rv) => void told.push(`bookmark ${rv}`),
    ...(script.room && { room: script.room }),
  };
  const { resumeFrom, known, random = 0 } = script;
  const fields = script.reads && POD_FIELDS;
  const loop = new ListWatch({ kube, resource: "pods", fields, resumeFrom, known, clock, random: { next: () => random }, log }, listener);
  let failed: unknown;
  const running = loop.run(ends.signal).catch((error: unknown) => (failed = error));
  await meanwhile?.(loop);
  await clock.advance(forMs);
  ends.abort(new Error("the test has ended"));
  await running;
  return { asked, queries, told, log, failed };
}

describe("LW6 protobuf", () => {
  const frame = (type: string, name: string, rv: number): Buffer => encodeEvent(type, "Pod", object(name, rv));
  const broken = Buffer.from("k8s");

  it("is requested for lists, by pages, and for watches, whose events may be protobuf or JSON", async () => {
    const { asked, told } = await play({
      reads: true,
      newest: ["25"],
      lists: [page(20, ["a", "b"])],
      watches: [[[frame("MODIFIED", "a", 21), line("MODIFIED", "b", 22)], "close"]],
    });
    expect(told).toEqual(["1: a b not before 20", "1: whole at 20", "M a 21", "M b 22"]);
    expect(asked).toEqual(["0 list latest 500 fields", "0 watch 20 fields", "0 newest", "0 watch 22 fields"]);
  });

  it("is no longer requested after a frame of a watch that cannot be decoded, and the watch loses nothing", async () => {
    const { asked, told } = await play({
      reads: true,
      resumeFrom: "5",
      watches: [[[frame("ADDED", "a", 6), broken]], [[line("ADDED", "b", 7)]]],
    });
    expect(told).toEqual(["A a 6", "A b 7"]);
    expect(asked.filter((text) => !text.includes("newest"))).toEqual(["0 watch 5 fields", "800 watch 6"]);
  });

  it("is no longer requested after a page that cannot be decoded", async () => {
    const error = new NotKubernetesError("the response is not protobuf", { cause: new MalformedProtobufError("truncated") });
    const { asked, told } = await play({ reads: true, lists: [error, page(7, ["a"])] });
    expect(told).toEqual(["2: a not before 7", "2: whole at 7"]);
    expect(asked.filter((text) => text.includes("list "))).toEqual(["0 list latest 500 fields", "800 list latest 500"]);
  });
});

describe("WatchList", () => {
  it("[informer T16] delivers objects and changes as they arrive, then reports completion, and continues on the same connection", async () => {
    const { asked, told, queries } = await play({
      newest: ["18"],
      watches: [
        [
          [line("ADDED", "c", 9), line("ADDED", "a", 3)],
          [line("ADDED", "b", 7), line("DELETED", "c", 19), line("MODIFIED", "a", 20)],
          [end(20), line("MODIFIED", "b", 21)],
          [bookmark(30)],
        ],
      ],
    });
    expect(asked).toEqual(["0 newest", "0 watchList 18"]);
    expect(queries[0]).toEqual({
      resourceVersion: "18",
      resourceVersionMatch: "NotOlderThan",
      sendInitialEvents: true,
      allowWatchBookmarks: true,
      timeoutSeconds: 300,
    });
    expect(told).toEqual([
      "1: c not before 18",
      "1: a not before 18",
      "1: b not before 18",
      "1: D c",
      "1: M a",
      "1: whole at 20",
      "M b 21",
      "bookmark 30",
    ]);
  });

  it("[informer T15] a streamed list is not resumed from the version of one of its objects, because they arrive unordered", async () => {
    const half: Watch = [[line("ADDED", "a", 9), line("ADDED", "b", 3), line("ADDED", "c", 7), line("MODIFIED", "c", 10)], reset];
    const { asked, told } = await play({ newest: ["8", "11"], watches: [half, half], lists: [page(12, ["a"])] });
    expect(asked).toEqual([
      "0 newest",
      "0 watchList 8",
      "800 newest",
      "800 watchList 11",
      "2400 list latest 500", // not a list with `resourceVersionMatch=NotOlderThan` and version 10
      "2400 watch 12",
    ]);
    expect(told.slice(8)).toEqual(["3: a not before 12", "3: whole at 12"]);
  });

  it("[informer T17] a bookmark without the initial-events-end annotation neither completes the list nor changes the resume version", async () => {
    const { told, asked } = await play({
      newest: ["18"],
      watches: [[[line("ADDED", "a", 3), bookmark(19)], [line("ADDED", "b", 4)], [end(20)]]],
    });
    expect(told).toEqual(["1: a not before 18", "1: b not before 18", "1: whole at 20"]);
    expect(asked).toHaveLength(2);
  });

  it.each([
    { name: "closes", how: "close" as const },
    { name: "breaks", how: reset },
    { name: "contains an undecodable line", how: ['{"type":"ADD'] },
    { name: "ends without a resourceVersion", how: [end("soon")] },
  ])("[informer T18] a streamed list that $name before it is complete starts again from the beginning", async ({ how }) => {
    const { asked, told } = await play({
      newest: ["18"],
      watches: [[[line("ADDED", "a", 3)], how], [[line("ADDED", "b", 4), end(20)]]],
    });
    expect(asked).toEqual(["0 newest", "0 watchList 18", "800 newest", "800 watchList 18"]);
    expect(told).toEqual(["1: a not before 18", "2: b not before 18", "2: whole at 20"]);
  });

  it("[informer T18] a streamed relist that ends early starts again too, because no watch may continue without a complete list", async () => {
    const { asked, told } = await play({
      resumeFrom: "5",
      newest: ["18"],
      watches: [[[status(410)]], [['{"type":"ADD']], [[end(20)]]],
    });
    expect(asked.slice(2)).toEqual(["0 newest", "0 watchList 18", "800 newest", "800 watchList 18"]);
    expect(told).toEqual(["2: whole at 20"]);
  });

  it("falls back to a paged list after two interruptions; the next list is streamed again", async () => {
    const half: Watch = [[line("ADDED", "a", 3)], "close"];
    const { asked, told } = await play({
      newest: ["18"],
      watches: [half, half, [[status(410)]], [[end(40)]]],
      lists: [page(20, ["a"])],
    });
    expect(asked).toEqual([
      "0 newest",
      "0 watchList 18",
      "800 newest",
      "800 watchList 18",
      "2400 list latest 500",
      "2400 watch 20",
      "2400 newest",
      "2400 watchList 18",
    ]);
    expect(told.slice(2)).toEqual(["3: a not before 20", "3: whole at 20", "4: whole at 40"]);
  });

  it("[informer T19] falls back at once to a paged list if the server does not support streamed lists, and does not request another streamed list", async () => {
    const { asked, told, log } = await play({
      watches: [[unsupported], [[line("ADDED", "b", 21), status(410)]]],
      lists: [page(20, ["a"]), page(30, ["b"])],
    });
    expect(asked).toEqual(["0 newest", "0 watchList 999", "0 list latest 500", "0 watch 20", "0 list 21 NotOlderThan 500", "0 watch 30"]);
    expect(told).toEqual(["1: a not before 20", "1: whole at 20", "A b 21", "2: b not before 30", "2: whole at 30"]);
    // This is a response and not a failure, so that users of a capture or an older server see no error.
    expect(log.lines.filter(({ message }) => message === "watch ended").map(({ level }) => level)).toEqual(["debug"]);
  });

  it("[informer T112] fallback: continues a paged list with smaller pages, at the same position and version, if a page is too large", async () => {
    const tooLarge = new AnswerTooLargeError("the answer to GET /api/v1/pods is larger than 67108864 bytes");
    const { asked, told } = await play({
      watches: [[unsupported]],
      lists: [tooLarge, { ...page(20, ["a"]), continue: "b" }, tooLarge, tooLarge, { ...page(20, ["b"]), continue: "c" }, page(20, ["c"])],
    });
    expect(asked.slice(2)).toEqual([
      "0 list latest 500",
      "0 list latest 250",
      "0 list b 250",
      "0 list b 125",
      "0 list b 62",
      "0 list c 62",
      "0 watch 20",
    ]);
    expect(told).toEqual(["1: a not before 20", "1: b not before 20", "1: c not before 20", "1: whole at 20"]);
  });

  it("[informer T112] fallback: fails on a single object that is too large, logs it, and retries later", async () => {
    const tooLarge = new AnswerTooLargeError("the answer to GET /api/v1/pods is larger than 67108864 bytes");
    const { asked, log } = await play({ watches: [[unsupported]], lists: Array.from({ length: 9 }, () => tooLarge) }, 100);
    expect(asked.at(-1)).toBe("0 list latest 1");
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: "warn",
        message: "list failed",
        fields: expect.objectContaining({ error: expect.stringContaining("GET /api/v1/pods") }),
      }),
    );
  });

  it.each([
    { name: "in the stream, because etcd cannot report progress", watch: [[status(500)]] as Watch },
    { name: "with a 503 response", watch: [new KubeApiError({ code: 503, reason: "ServiceUnavailable" })] as Watch },
  ])(
    "[informer T19] falls back to a paged list once, and streams the next list, if the streamed list is rejected $name",
    async ({ watch }) => {
      const { asked } = await play({ watches: [watch, [[status(410)]], [[end(1_000)]]], lists: [page(20, ["a"])] });
      expect(asked).toEqual(["0 newest", "0 watchList 999", "0 list latest 500", "0 watch 20", "0 newest", "0 watchList 999"]);
    },
  );

  it.each([
    {
      name: "rejected with a 429 response",
      watch: [new KubeApiError({ code: 429, reason: "TooManyRequests", retryAfterSeconds: 7 })] as Watch,
      at: 7_000,
    },
    { name: "ended by a 429 in the stream", watch: [[status(429)]] as Watch, at: 800 },
    { name: "refused a connection", watch: [new UnansweredError("connect ECONNREFUSED")] as Watch, at: 800 },
  ])("a streamed list that is $name is retried after a delay, without a limit on retries", async ({ watch, at }) => {
    const { asked } = await play({ newest: ["18"], watches: [watch, watch, watch, [[end(20)]]] });
    expect(asked[2]).toBe(`${at} newest`);
    expect(asked.filter((each) => each.includes("list"))).toEqual([]);
    expect(asked.filter((each) => each.includes("watchList"))).toHaveLength(4);
  });

  it.each([
    { name: "expired", watch: [[status(410)]] as Watch },
    { name: "too large", watch: [[status(504, "Too large resource version: 18, current: 17")]] as Watch },
  ])(
    "[informer T03] a list whose version is $name requests the newest version at once, and waits before the second retry",
    async ({ watch }) => {
      const { asked } = await play({ newest: ["18", "17"], watches: [watch, watch, [[end(20)]]] });
      expect(asked).toEqual(["0 newest", "0 watchList 18", "0 newest", "0 watchList 17", "800 newest", "800 watchList 17"]);
    },
  );

  it("passes on an object whose resourceVersion is not a number, so that the listener quarantines it", async () => {
    const odd = JSON.stringify({ type: "ADDED", object: object("odd", "abc") });
    const { told, asked } = await play({ newest: ["18"], watches: [[[odd, end(20)]]] });
    expect(told).toEqual(["1: odd not before 18", "1: whole at 20"]);
    expect(asked).toHaveLength(2);
  });

  it("[informer T42] a list from a server that is older than the applied version ends the loop before the first object is delivered", async () => {
    const { failed, told, asked } = await play({ newest: ["90"], floor: "100" });
    expect(failed).toBeInstanceOf(HistoryRegressedError);
    expect(String(failed)).toContain("the list of pods has resourceVersion 90, older than 100, which is already applied");
    expect([told, asked]).toEqual([[], ["0 newest"]]);
  });

  it.each([
    { name: "by pages", watches: [[unsupported]] as readonly Watch[] },
    { name: "as a stream", watches: [[[end(20)]]] as readonly Watch[] },
  ])("LW4 a list ends the loop with the error that `listed` throws: $name", async ({ watches }) => {
    const bug = new Error("the listener's own");
    const listed = (): never => {
      throw bug;
    };
    const { failed, asked } = await play({ watches, lists: [page(20, [])], listed });
    expect(failed).toBe(bug);
    expect(asked.length).toBeLessThanOrEqual(3);
  });

  it("waits for the listener after each group of objects, even before the list is complete", async () => {
    const waits = async (signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    const { told } = await play({ newest: ["18"], watches: [[[line("ADDED", "a", 3)], [line("ADDED", "b", 4), end(20)]]], room: waits });
    expect(told).toEqual(["1: a not before 18"]);
  });

  it("a list is aborted when a relist is requested, and the relist starts immediately", async () => {
    const { told, asked } = await play({ newest: ["18"], watches: [[[line("ADDED", "a", 3)], 10_000], [[end(20)]]] }, 10, async (loop) => {
      for (let i = 0; i < 50; i++) await Promise.resolve();
      loop.relist("somebody needs it");
    });
    expect(asked).toEqual(["0 newest", "0 watchList 18", "0 newest", "0 watchList 18"]);
    expect(told).toEqual(["1: a not before 18", "2: whole at 20"]);
  });
});

describe("a watch", () => {
  it.each([
    { random: 0, seconds: 300 },
    { random: 0.999, seconds: 600 },
  ])("requests bookmarks and a timeout of $seconds s, and no initial events", async ({ random, seconds }) => {
    const { queries } = await play({ resumeFrom: "5", random });
    expect(queries[0]).toEqual({ resourceVersion: "5", allowWatchBookmarks: true, timeoutSeconds: seconds });
  });

  it("a closed watch continues from its last version, bookmarks included, without a list", async () => {
    const { asked, told } = await play({
      resumeFrom: "5",
      watches: [
        [[line("ADDED", "a", 7)], "close"],
        [[bookmark(9)], "close"],
      ],
    });
    expect(asked).toEqual(["0 newest", "0 watch 5", "0 newest", "0 watch 7", "0 newest", "0 watch 9"]);
    expect(told).toEqual(["A a 7", "bookmark 9"]);
  });

  it("[informer T12] a watch that ends within a second without events is retried with increasing delays", async () => {
    const { asked } = await play({ resumeFrom: "5", watches: [["close"], [200, "close"], ["close"]] });
    expect(asked.filter((each) => each.includes("watch"))).toEqual(["0 watch 5", "800 watch 5", "2600 watch 5", "5800 watch 5"]);
  });

  it("[informer T09] a watch whose connection is refused continues at the same version without a list when the server is back", async () => {
    const refused = new UnansweredError("connect ECONNREFUSED");
    const { asked } = await play({
      resumeFrom: "12",
      newest: [refused, "12"],
      watches: [[refused], [new KubeApiError({ code: 429, reason: "TooManyRequests", retryAfterSeconds: 7 })]],
    });
    expect(asked).toEqual(["0 newest", "800 newest", "800 watch 12", "2400 newest", "2400 watch 12", "9400 newest", "9400 watch 12"]);
  });

  it("[informer T11] a watch with internal errors is retried for 30 s, and then replaced by a list", async () => {
    const watches = Array.from({ length: 7 }, () => [[status(500)]]);
    const { asked } = await play({ resumeFrom: "5", watches: [...watches, [[end(1_000)]]] });
    expect(asked.filter((each) => each.includes("watch"))).toEqual([
      ...[0, 800, 2_400, 5_600, 12_000, 24_800, 50_400].map((ms) => `${ms} watch 5`),
      "50400 watchList 999",
    ]);
  });

  it.each([
    { name: "request", code: 401, script: { resumeFrom: "5", watches: [[new KubeApiError({ code: 401, reason: "Unauthorized" })]] } },
    { name: "request", code: 403, script: { resumeFrom: "5", watches: [[new KubeApiError({ code: 403, reason: "Forbidden" })]] } },
    { name: "stream", code: 401, script: { resumeFrom: "5", watches: [[[status(401)]]] } },
    {
      name: "request for the newest version",
      code: 401,
      script: { resumeFrom: "5", newest: [new KubeApiError({ code: 401 }), "9"] },
    },
  ])("a watch whose $name is rejected with $code logs the error, waits, and continues at its version", async ({ script }) => {
    const { asked, log } = await play(script);
    expect(log.lines.filter(({ level }) => level === "error")).toEqual([
      expect.objectContaining({ message: "the API server denies access", fields: expect.objectContaining({ resource: "pods" }) }),
    ]);
    expect(asked.at(-1)).toBe("800 watch 5");
    expect(asked.filter((each) => each.includes("ist"))).toEqual([]);
  });

  it("a watch whose list is rejected with 403 logs each rejection, and retries", async () => {
    const forbidden = new KubeApiError({ code: 403, reason: "Forbidden" });
    const { asked, log } = await play({ newest: [forbidden], lists: [forbidden, page(20, [])] });
    expect(log.lines.filter(({ level }) => level === "error").map(({ message }) => message)).toEqual(
      Array(2).fill("the API server denies access"),
    );
    expect(asked).toEqual(["0 newest", "0 list latest 500", "800 list latest 500", "800 watch 20"]);
  });
});

describe("a check before a watch is resumed", () => {
  it("[informer T52] lists immediately if the server's newest version is behind, because a watch would be silent until it catches up", async () => {
    const { asked, told, log } = await play({
      newest: ["1200", "1000"],
      resumeFrom: "1200",
      watches: [
        [100_000, new UnansweredError("no byte for 100000 ms")],
        [[line("ADDED", "a", 3), end(1_001)], [line("MODIFIED", "a", 1_002)]],
      ],
    });
    expect(asked).toEqual(["0 newest", "0 watch 1200", "100800 newest", "100800 newest", "100800 watchList 1000"]);
    expect(told).toEqual(["1: a not before 1000", "1: whole at 1001", "M a 1002"]);
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: "error",
        message: "the API server was restored to an older revision",
        fields: { resource: "pods", rv: "1200", newest: "1000" },
      }),
    );
  });

  it("[informer T52] lists if the server is behind the version up to which a lane is known to be complete", async () => {
    const { asked } = await play({ newest: ["1100"], resumeFrom: "1000", known: "1200", watches: [[[end(1_100)]]] });
    expect(asked).toEqual(["0 newest", "0 newest", "0 watchList 1100"]);
  });

  it("[informer T52] the check does not list if the server is at the same version or no list has been made yet", async () => {
    const { asked } = await play({ newest: ["1200"], resumeFrom: "1100", known: "1200" });
    expect(asked).toEqual(["0 newest", "0 watch 1100"]);
  });

  it("the first watch after a list is not checked", async () => {
    const { asked } = await play({ watches: [[unsupported]], lists: [page(20, [])] });
    expect(asked).toEqual(["0 newest", "0 watchList 999", "0 list latest 500", "0 watch 20"]);
  });

  it("backs off between lists while the server's newest version stays behind", async () => {
    const tooLarge = new KubeApiError({ code: 504, message: "Too large resource version" });
    const { asked } = await play({ newest: ["1000"], resumeFrom: "1200", watches: [[tooLarge], [tooLarge]] }, 5_000);
    expect(asked).toEqual([
      "0 newest",
      "0 newest",
      "0 watchList 1000",
      "800 newest",
      "800 watchList 1000",
      "2400 newest",
      "2400 watchList 1000",
    ]);
  });
});
