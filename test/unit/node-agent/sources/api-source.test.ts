// Would catch: a pod of this node that is missed or kept too long, a list that loses pods after a broken connection, a source that retries
// without back-off, and a malformed pod that stops all others.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createKubeHttp } from "../../../../shared/kube/http/kube-http.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createSeededRandom } from "../../../../shared/base/memory/random.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import type { Resource } from "../../../../shared/kube/objects/resources.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { createApiServer } from "../../../../shared/api-server/api-server.ts";
import { serveHttp } from "../../../../shared/api-server/http.ts";
import { runApiSource } from "../../../../shared/node-agent/sources/api-source.ts";
import type { ApiSourceOptions } from "../../../../shared/node-agent/sources/api-source.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import type { KubeWatch, ListQuery, WatchQuery } from "../../../../shared/kube/client/kube.ts";
import { recordingLog } from "../../recording-log.ts";

let stop = new AbortController();
let running: Promise<void> = Promise.resolve();
beforeEach(() => {
  stop = new AbortController();
});
afterEach(async () => {
  stop.abort();
  await running;
});

function start(given: Pick<ApiSourceOptions, "kube" | "clock">) {
  const lists: (readonly NodePod[])[] = [];
  const log = recordingLog();
  let wake: (() => void) | undefined;
  const emit = (pods: readonly NodePod[]): void => {
    lists.push(pods);
    wake?.();
  };
  running = runApiSource({ ...given, nodeName: "n1", emit, log, random: createSeededRandom(1) }, stop.signal);
  return {
    log,
    /** Returns each list as `name:phase` or `name`, joined. */
    seen: () =>
      lists.map((pods) => pods.map(({ metadata, status }) => `${metadata.name}${status?.phase === "Running" ? ":Running" : ""}`).join(" ")),
    async until(holds: (pods: readonly NodePod[]) => boolean) {
      for (;;) {
        const last = lists.at(-1);
        if (last !== undefined && holds(last)) return last;
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
  };
}

describe("with an API server", () => {
  async function serve() {
    const server = createApiServer({ clock: createSystemClock(), random: createSeededRandom(1), firstRevision: 9_007_199_254_740_993n });
    const http = await serveHttp(server);
    const kube = createKubeHttp({ server: http.url, component: "node" });
    const create = (name: string, nodeName = "n1") =>
      kube.create({
        resource: "pods",
        namespace: "default",
        body: { metadata: { name }, spec: { nodeName, containers: [{ name: "c", image: "i" }] } },
      });
    return { server, kube, create, close: () => http.close() };
  }
  const names = (pods: readonly NodePod[]): string => pods.map(({ metadata }) => metadata.name).join(" ");

  it("follows only the pods of its node, across ended, expired and broken watches", async () => {
    const { server, kube, create, close } = await serve();
    try {
      await create("a");
      await create("elsewhere", "n2");
      const source = start({ kube, clock: createSystemClock() });
      const [a] = await source.until((pods) => names(pods) === "a");
      expect(a?.spec.restartPolicy).toBe("Always");
      await create("b");
      await create("elsewhere2", "n2");
      await source.until((pods) => names(pods) === "a b");

      await kube.patch({
        resource: "pods",
        namespace: "default",
        name: "a",
        subresource: "status",
        type: "application/merge-patch+json",
        body: { status: { phase: "Running" } },
      });
      await source.until((pods) => pods[0]?.status?.phase === "Running");

      const uid = a?.metadata.uid ?? "";
      await kube.delete({ resource: "pods", namespace: "default", name: "a", preconditions: { uid } });
      await source.until((pods) => pods[0]?.metadata.deletionTimestamp !== undefined);
      await kube.delete({ resource: "pods", namespace: "default", name: "a", preconditions: { uid }, gracePeriodSeconds: 0 });
      await source.until((pods) => names(pods) === "b");

      server.closeWatches("pods");
      await create("c");
      await source.until((pods) => names(pods) === "b c");
      server.compact();
      server.expireWatches("pods");
      await create("d");
      await source.until((pods) => names(pods) === "b c d");
      expect(source.seen().every((list) => !list.includes("elsewhere"))).toBe(true);
    } finally {
      stop.abort();
      await running;
      server.close();
      await close();
    }
  });
});

describe("requests and deliveries of the API source", () => {
  const object = (name: string, rv: string, phase = "Pending"): object => ({
    metadata: { name, namespace: "shop", uid: `uid-${name}`, resourceVersion: rv },
    spec: { containers: [{ name: "c", image: "i" }] },
    status: { phase },
  });
  const line = (type: string, of: object): string => JSON.stringify({ type, object: of });
  const bookmark = (rv: string): string => line("BOOKMARK", { metadata: { resourceVersion: rv } });
  const status = (code: number): string => line("ERROR", { kind: "Status", code, reason: "Expired" });
  const IDLE = "idle";

  /** Responds to lists and watches in order; after the last response, nothing follows. */
  function scripted(
    lists: readonly (Error | { readonly rv: string; readonly items: readonly unknown[]; readonly next?: string })[],
    watches: readonly (Error | readonly (readonly string[] | Error | typeof IDLE)[])[],
    { streamsLists = false } = {},
  ) {
    const clock = createVirtualClock(0);
    const asked: { readonly at: number; readonly query: ListQuery | WatchQuery }[] = [];
    const [listsLeft, watchesLeft] = [[...lists], [...watches]];
    const kube: KubeWatch<Resource> = {
      async listPage(_resource, query, signal) {
        asked.push({ at: clock.now(), query });
        const answer = listsLeft.shift();
        if (answer === undefined) return await silence(signal);
        if (answer instanceof Error) throw answer;
        return { resourceVersion: answer.rv, items: answer.items, ...(answer.next !== undefined && { continue: answer.next }) };
      },
      newestVersion: async () => "9999",
      async *watch(_resource, query, signal) {
        if (query.sendInitialEvents && !streamsLists) throw new KubeApiError({ code: 422, reason: "Invalid" });
        asked.push({ at: clock.now(), query });
        const answer = watchesLeft.shift();
        if (answer instanceof Error) throw answer;
        for (const group of answer ?? [IDLE]) {
          if (group instanceof Error) throw group;
          if (group === IDLE) await silence(signal);
          else yield group;
        }
      },
    };
    return { kube, clock, asked };
  }

  const wait = (): Promise<void> => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));

  it("lists all pages of its node, watches from there with bookmarks, and delivers changes that arrive together at once", async () => {
    const { kube, clock, asked } = scripted(
      [
        { rv: "10", items: [object("a", "3")], next: "token" },
        { rv: "10", items: [object("b", "4")] },
      ],
      [
        [
          [line("ADDED", object("c", "11")), line("MODIFIED", object("a", "12", "Running"))],
          [bookmark("20")],
          [line("DELETED", object("b", "21"))],
          IDLE,
        ],
      ],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual(["a b", "a:Running b c", "a:Running c"]);
    const fieldSelector = "spec.nodeName=n1";
    expect(asked.map(({ query }) => query)).toEqual([
      { fieldSelector, limit: 500 },
      { fieldSelector, limit: 500, continue: "token" },
      { fieldSelector, resourceVersion: "10", allowWatchBookmarks: true, timeoutSeconds: expect.any(Number) as number },
    ]);
  });

  it("delivers a streamed list once, when it is complete, including changes made in the meantime", async () => {
    const end = line("BOOKMARK", { metadata: { resourceVersion: "20", annotations: { "k8s.io/initial-events-end": "true" } } });
    const group = [line("ADDED", object("a", "3")), line("ADDED", object("b", "4")), line("ADDED", object("c", "5"))];
    const more = [line("DELETED", object("c", "18")), line("MODIFIED", object("a", "19", "Running")), end];
    const { kube, clock } = scripted([], [[group, more, [line("DELETED", object("b", "21"))], IDLE]], { streamsLists: true });
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual(["a:Running b", "a:Running"]);
    stop.abort();
    await running;
  });

  it("resumes a watch from the last event or bookmark, without a list", async () => {
    const { kube, clock, asked } = scripted(
      [{ rv: "10", items: [object("a", "3")] }],
      [[[line("ADDED", object("b", "11"))], [bookmark("30")]], [[line("ADDED", object("c", "31"))], new UnansweredError("reset")], [IDLE]],
    );
    const source = start({ kube, clock });
    await wait();
    await clock.advance(2_000);
    expect(source.seen()).toEqual(["a", "a b", "a b c"]);
    expect(asked.slice(1).map(({ query }) => query.resourceVersion)).toEqual(["10", "30", "31"]);
  });

  it.each([
    { name: "in the stream", watch: [[line("ADDED", object("b", "11"))], [status(410)]] },
    { name: "before the stream", watch: new KubeApiError({ code: 410, reason: "Expired" }) },
  ])("lists again immediately when the resourceVersion has expired ($name), and removes pods that are gone", async ({ watch }) => {
    const { kube, clock, asked } = scripted(
      [
        { rv: "10", items: [object("a", "3")] },
        { rv: "40", items: [object("c", "33")] },
      ],
      [watch, [IDLE]],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen().at(-1)).toBe("c");
    expect(asked.map(({ at }) => at)).toEqual([0, 0, 0, 0]);
    expect(asked.at(-1)?.query.resourceVersion).toBe("40");
  });

  it("keeps its pods while the API server is unavailable, and backs off up to a minute", async () => {
    const away = new UnansweredError("connection refused");
    const { kube, clock, asked } = scripted(
      [{ rv: "10", items: [object("a", "3")] }],
      Array.from({ length: 12 }, () => away),
    );
    const source = start({ kube, clock });
    await wait();
    await clock.advance(10 * 60_000);
    expect(source.seen()).toEqual(["a"]);
    const gaps = asked
      .slice(1)
      .map(({ at }, index, all) => at - (all[index - 1]?.at ?? at))
      .slice(1);
    gaps.forEach((gap, index) => {
      const least = Math.min(800 * 2 ** index, 30_000);
      expect(gap).toBeGreaterThanOrEqual(least);
      expect(gap).toBeLessThan(least * 2);
    });
    expect(gaps.length).toBeGreaterThan(8);
  });

  it("delivers nothing before a list is complete", async () => {
    const { kube, clock } = scripted(
      [
        { rv: "10", items: [object("a", "3")], next: "token" },
        new UnansweredError("reset"),
        { rv: "20", items: [object("a", "3"), object("b", "15")] },
      ],
      [[IDLE]],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual([]);
    await clock.advance(1_600);
    expect(source.seen()).toEqual(["a b"]);
  });

  it("delivers an empty list, so that the source is ready", async () => {
    const { kube, clock } = scripted([{ rv: "10", items: [] }], [[IDLE]]);
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual([""]);
  });

  it("reports an invalid pod, keeps its last version, and processes the other pods", async () => {
    const broken = { metadata: { name: "broken", namespace: "shop", uid: "u", resourceVersion: "3" }, spec: {} };
    const { kube, clock, asked } = scripted(
      [{ rv: "10", items: [broken, 7, object("a", "3")] }],
      [
        [
          [line("MODIFIED", { ...object("a", "11"), spec: { containers: [] } }), line("ADDED", object("b", "12"))],
          [line("DELETED", object("a", "13"))],
          IDLE,
        ],
      ],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual(["a", "a b", "b"]);
    expect(source.log.lines.filter(({ level }) => level === "error").map(({ fields }) => fields["pod"])).toEqual([
      "shop/broken",
      "undefined/undefined",
      "shop/a",
    ]);
    expect(asked).toHaveLength(2);
  });

  it("keeps a pod unchanged if it is invalid in a new list", async () => {
    const { kube, clock } = scripted(
      [
        { rv: "10", items: [object("a", "3"), object("b", "4")] },
        { rv: "40", items: [{ ...object("a", "33"), spec: {} }] },
      ],
      [[[status(410)]], [IDLE]],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual(["a b", "a"]);
  });

  it("after a second undecodable line, lists with resourceVersionMatch=NotOlderThan", async () => {
    const { kube, clock, asked } = scripted([{ rv: "10", items: [] }], [[["{torn"]], [["{torn"]]]);
    start({ kube, clock });
    await wait();
    await clock.advance(2_000);
    expect(asked.at(-1)?.query).toEqual({
      fieldSelector: "spec.nodeName=n1",
      limit: 500,
      resourceVersion: "10",
      resourceVersionMatch: "NotOlderThan",
    });
  });

  it("drops the connection at an undecodable line, and keeps the earlier lines", async () => {
    const { kube, clock, asked } = scripted(
      [{ rv: "10", items: [] }],
      [[[line("ADDED", object("a", "11")), "{torn", line("ADDED", object("b", "12"))]], [[line("ADDED", object("b", "12"))], IDLE]],
    );
    const source = start({ kube, clock });
    await wait();
    expect(source.seen()).toEqual(["", "a"]);
    await clock.advance(2_000);
    expect(source.seen()).toEqual(["", "a", "a b"]);
    expect(asked.at(-1)?.query.resourceVersion).toBe("11");
  });

  it("the source ends when it is stopped, even while it waits", async () => {
    const { kube, clock } = scripted([new UnansweredError("refused")], []);
    start({ kube, clock });
    await wait();
    expect(clock.nextDueMs()).toBeDefined();
    stop.abort();
    await running;
    expect(clock.nextDueMs()).toBeUndefined();
  });
});

/** Waits until the signal aborts. */
function silence(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }));
}
