// Events: the requests of the recorder, and the digests of earlier Events that the Store keeps.
import { describe, expect, it } from "vitest";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { eventNanos, type Correlated } from "../../../shared/kube/events/event-correlator.ts";
import { eventRequests, happeningsOf, type ToldNote } from "../../../shared/controllers/kit/event-recorder.ts";
import type { EventNote } from "../../../shared/controllers/kit/writes.ts";

const FIRST_MS = Date.parse("2026-03-01T10:00:00.123Z");
const NANOS = eventNanos(FIRST_MS, 7);
const OTHER_NANOS = eventNanos(FIRST_MS, 8);
const TELLER = { controller: "replicaset", token: "t", resourceVersion: "7" } as const;
const OWNER = { resource: "replicasets", namespace: "shop", name: "web", uid: "u" } as const;

function told(message: string, { atMs = FIRST_MS, type = "Warning", reason = "FailedCreate", name = "web" } = {}): ToldNote {
  return { owner: { ...OWNER, name }, note: { type: type as EventNote["type"], reason, message }, atMs };
}

function correlated(fields: Partial<Correlated> = {}): Correlated {
  return { nanos: NANOS, count: 1, isCombined: false, isHeldBack: false, ...fields };
}

describe("eventRequests", () => {
  it("makes an Event as upstream's recorder does", () => {
    const note = told("Created pod: web-x", { type: "Normal", reason: "SuccessfulCreate" });
    expect(eventRequests([note], [correlated()], TELLER)).toEqual([
      {
        kind: "create",
        namespace: "shop",
        body: {
          apiVersion: "v1",
          kind: "Event",
          metadata: { name: `web.${NANOS}`, namespace: "shop" },
          involvedObject: { apiVersion: "apps/v1", kind: "ReplicaSet", namespace: "shop", name: "web", uid: "u", resourceVersion: "7" },
          reason: "SuccessfulCreate",
          message: "Created pod: web-x",
          type: "Normal",
          count: 1,
          firstTimestamp: "2026-03-01T10:00:00Z",
          lastTimestamp: "2026-03-01T10:00:00Z",
          source: { component: "replicaset-controller" },
          reportingComponent: "replicaset-controller",
        },
      },
    ]);
  });

  it("patches count, message and timestamp of an earlier Event, or creates the whole Event if it has expired", () => {
    const again = { count: 3, lastTimestamp: "2026-03-01T10:01:00Z", message: "no" };
    expect(eventRequests([told("no", { atMs: FIRST_MS + 60_000 })], [correlated({ count: 3 })], TELLER)).toMatchObject([
      {
        kind: "patch",
        namespace: "shop",
        name: `web.${NANOS}`,
        body: again,
        ifMissing: { metadata: { name: `web.${NANOS}` }, firstTimestamp: "2026-03-01T10:00:00Z", ...again },
      },
    ]);
  });

  it("omits the reporting controller from aggregated Events, as upstream does", () => {
    const [request] = eventRequests([told("no")], [correlated({ isCombined: true })], TELLER);
    expect(request).toMatchObject({ kind: "create", body: { message: "(combined from similar events): no", count: 1 } });
    expect(request?.body).not.toHaveProperty("reportingComponent");
  });

  it.each<{ readonly name: string; readonly said: readonly Correlated[]; readonly want: readonly object[] }>([
    {
      name: "sends no Event that the rate limiter suppresses",
      said: [correlated({ isHeldBack: true }), correlated({ count: 2, isHeldBack: true })],
      want: [],
    },
    {
      name: "sends one request per Event, with its latest state: create of a new Event",
      said: [correlated(), correlated({ count: 2 }), correlated({ count: 3 })],
      want: [
        { kind: "create", body: { count: 3, message: "2", lastTimestamp: "2026-03-01T10:00:02Z", firstTimestamp: "2026-03-01T10:00:00Z" } },
      ],
    },
    {
      name: "sends one request per Event, with its latest state: patch of an existing Event",
      said: [correlated({ count: 8 }), correlated({ count: 9 }), correlated({ count: 10, isHeldBack: true })],
      want: [{ kind: "patch", body: { count: 9, message: "1", lastTimestamp: "2026-03-01T10:00:01Z" } }],
    },
    {
      name: "sends one request for each of several Events",
      said: [correlated(), correlated({ nanos: OTHER_NANOS, count: 5 }), correlated({ count: 2 })],
      want: [
        { kind: "create", body: { count: 2, message: "2" } },
        { kind: "patch", name: `web.${OTHER_NANOS}`, body: { count: 5, message: "1" } },
      ],
    },
  ])("$name", ({ said, want }) => {
    const notes = said.map((_, i) => told(String(i), { atMs: FIRST_MS + 1_000 * i }));
    expect(eventRequests(notes, said, TELLER)).toMatchObject(want);
    expect(eventRequests(notes, said, TELLER)).toHaveLength(want.length);
  });

  it("shortens the name of an Event if its owner's name would make it too long for the API server", () => {
    const long = "a".repeat(253);
    expect(eventRequests([told("no", { name: long })], [correlated()], TELLER)).toMatchObject([
      { body: { metadata: { name: expect.stringMatching(/^[0-9a-f-]{36}$/u) as string }, involvedObject: { name: long } } },
    ]);
  });
});

describe("happeningsOf", () => {
  const digester = createDigester("key");
  const of = (...notes: readonly ToldNote[]) => happeningsOf(notes, TELLER, digester);

  it("stores only digests and a time of an Event, without its text", () => {
    const [happening] = of(told("s3cret"));
    expect(JSON.stringify(happening)).not.toMatch(/s3cret|web|shop|FailedCreate/u);
    expect(Object.values(happening ?? {}).map((text) => text.length)).toEqual([22, 22, 22, 16]);
    expect(happeningsOf([told("s3cret")], TELLER, createDigester("another"))[0]?.key).not.toBe(happening?.key);
  });

  it.each<{ readonly name: string; readonly other: ToldNote; readonly same: readonly string[] }>([
    { name: "the same Event", other: told("no"), same: ["source", "group", "key"] },
    { name: "another message", other: told("yes"), same: ["source", "group"] },
    { name: "another reason", other: told("no", { reason: "FailedDelete" }), same: ["source"] },
    { name: "another type", other: told("no", { type: "Normal" }), same: [] },
    { name: "another object", other: told("no", { name: "db" }), same: [] },
    { name: "an Event of another owner", other: { ...told("no"), owner: { ...OWNER, uid: "u2" } }, same: [] },
  ])("distinguishes Events as upstream's aggregation keys do: $name", ({ other, same }) => {
    const [a, b] = of(told("no"), other).map((each) => new Map(Object.entries(each)));
    expect(["source", "group", "key"].filter((part) => a?.get(part) === b?.get(part))).toEqual(same);
  });

  it("generates unique names within one millisecond, within one run and across two runs", () => {
    const one = of(told("a"), told("b"), told("a"));
    const two = happeningsOf([told("a")], { ...TELLER, token: "other" }, digester);
    expect(new Set([...one, ...two].map(({ nanos }) => nanos)).size).toBe(4);
  });
});
