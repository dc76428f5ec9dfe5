// Every write that upstream's deployment-controller made in the recorded clusters must be one that our sync makes too, from
// the Deployment that upstream wrote on and a state of the ReplicaSets and pods that its caches could have had at that time.
// Would catch: any difference in sizes, names, hashes, revisions, annotations, statuses, conditions or their order.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import type { Condition } from "../../shared/api/wire.ts";
import { shareOf } from "../support/share.ts";
import { Cluster, type Json, type Live } from "../unit/deployment/cluster.ts";

const CONTROLLER = "system:serviceaccount:kube-system:deployment-controller";
/** How many changes upstream's caches may lag behind the API server. */
const LAG_MAX = 40;
/** How much of a capture a check looks at; all in the project `long`. Writes of two kinds take turns, so it is no half. */
const CHECKED = 0.6;
const CAPTURES = [
  { name: "rolling-update", writes: 27 },
  { name: "rollover", writes: 62 },
  { name: "recreate", writes: 22 },
  { name: "pause-resume", writes: 57 },
  { name: "undo", writes: 68 },
];

interface AuditEntry {
  readonly verb: string;
  readonly requestReceivedTimestamp: string;
  readonly user: { readonly username: string };
  readonly objectRef: { readonly resource: string; readonly subresource?: string };
  readonly responseStatus: { readonly code: number };
  readonly requestObject: Live;
  readonly responseObject: Live;
}

interface WatchLine {
  readonly r: string;
  readonly type: string;
  readonly object: Live;
}

function readLines<T>(file: string): readonly T[] {
  const text = gunzipSync(readFileSync(new URL(`../captures/${file}.jsonl.gz`, import.meta.url))).toString();
  return text
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as T); // our own captures, whose form informer §18 gives
}

interface Change {
  readonly version: number;
  readonly deleted: boolean;
  readonly object: Live;
}

function changesOf(name: string): readonly Change[] {
  const lines = readLines<WatchLine>(`${name}.watch`).filter(
    ({ r, type }) => ["deployments", "replicasets", "pods"].includes(r) && ["ADDED", "MODIFIED", "DELETED"].includes(type),
  );
  return lines
    .map(({ type, object }) => ({ version: Number(object.metadata.resourceVersion), deleted: type === "DELETED", object }))
    .toSorted((a, b) => a.version - b.version);
}

/** All objects after the first `count` changes, but the Deployment as upstream had it. */
function stateAfter(changes: readonly Change[], count: number, d: Live): readonly Live[] {
  const state = new Map<string, Live>();
  for (const { deleted, object } of changes.slice(0, count)) {
    const id = `${object.kind} ${object.metadata.name}`;
    if (deleted) state.delete(id);
    else if (object.kind !== "Deployment") state.set(id, object);
  }
  return [...state.values(), d];
}

/** What a write says, without what depends on the moment: times within a second of it are `<now>`. */
function said({ kind, metadata, spec, status }: Live, nowMs: number): unknown {
  const time = (text: string | undefined): string | undefined =>
    text !== undefined && Math.abs(Date.parse(text) - nowMs) < 2000 ? "<now>" : text;
  if (kind === "Deployment") {
    const { conditions = [], ...counters } = (status ?? {}) as Json & { readonly conditions?: readonly Condition[] };
    const revision = metadata.annotations?.["deployment.kubernetes.io/revision"];
    return {
      revision,
      counters,
      conditions: conditions.map((each) => ({
        ...each,
        lastUpdateTime: time(each.lastUpdateTime),
        lastTransitionTime: time(each.lastTransitionTime),
      })),
    };
  }
  const { name, labels, annotations, ownerReferences } = metadata;
  return { name, labels, annotations, ownerReferences, spec };
}

/** The writes our sync makes in that state, as they were stored. */
async function ourWrites(state: readonly Live[], deployment: string, nowMs: number): Promise<readonly unknown[]> {
  const cluster = await Cluster.of(state.toSorted(byOwnership), { nowMs });
  const before = cluster.api.changes().length;
  // A sync that fails half-way has made its writes all the same.
  await cluster.sync(deployment).catch(() => undefined);
  const stored = cluster.api.changes(before).filter(({ type }) => type !== "DELETED");
  return stored.map(({ object }) => said(cluster.given(object), nowMs));
}

const KINDS = ["Deployment", "ReplicaSet", "Pod"];

/** Owners first. */
function byOwnership(a: Live, b: Live): number {
  return KINDS.indexOf(a.kind ?? "") - KINDS.indexOf(b.kind ?? "");
}

describe.each(CAPTURES)("$name", ({ name, writes }) => {
  const changes = changesOf(name);
  const entries = readLines<AuditEntry>(`${name}.audit`).filter(
    ({ user, verb, objectRef, responseStatus }) =>
      user.username === CONTROLLER &&
      ["create", "update", "patch", "delete"].includes(verb) &&
      objectRef.resource !== "events" &&
      responseStatus.code < 300,
  );

  it("has as many writes of upstream as are looked at here", () => expect(entries).toHaveLength(writes));

  const labelled = entries.map((entry, index) => ({
    index,
    entry,
    label: `${entry.verb} ${entry.objectRef.resource} ${entry.responseObject.metadata.name}`,
  }));
  const looked = shareOf(labelled, writes * CHECKED);
  it.each(looked)("$index $label", async ({ entry: { requestObject, responseObject, objectRef, requestReceivedTimestamp } }) => {
    const nowMs = Date.parse(requestReceivedTimestamp);
    const before = changes.filter(({ version }) => version < Number(responseObject.metadata.resourceVersion)).length;
    const want = said(responseObject, nowMs);
    const versions = changes.slice(0, before).filter(({ object }) => object.kind === "Deployment");
    const isStatus = objectRef.resource === "deployments";
    const wrote = requestObject.metadata.resourceVersion;
    let nearest: unknown;
    for (let lag = 0; lag <= LAG_MAX && before - lag > 0; lag++) {
      // The Deployment is none of the state: without its last change, that is the same as a moment ago.
      if (lag > 0 && changes[before - lag]?.object.kind === "Deployment") continue;
      // The Deployment of a status write is known by the version it was written on; of another write, it is the newest or the one before.
      const candidates = isStatus
        ? versions.filter(({ object }) => object.metadata.resourceVersion === wrote)
        : versions.slice(-2).toReversed();
      for (const { object: d } of candidates) {
        const got = await ourWrites(stateAfter(changes, before - lag, d), d.metadata.name, nowMs);
        nearest ??= got;
        if (got.some((each) => same(each, want))) return;
      }
    }
    expect(nearest).toContainEqual(want);
  });
});

function same(a: unknown, b: unknown): boolean {
  return canonical(a) === canonical(b);
}

function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
