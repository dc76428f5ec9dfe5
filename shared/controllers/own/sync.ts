/** One sync of a user controller: snapshot, `sync`, decision, writes. The function itself runs elsewhere, behind `OwnFunctions`. */
import { messageOf } from "@deltaloop/kube/objects";
import type { ObjectKey } from "@deltaloop/kube/objects";
import type { Snapshot, VisibleObject } from "@deltaloop/sdk/context";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import type { KindId } from "@deltaloop/sdk/definitions";
import { decideWrites, idText, wantedBy } from "@deltaloop/sdk/writes";
import type { OwnWrite, Wanted } from "@deltaloop/sdk/writes";
import type { OwnRun, Succeeded, SyncPorts } from "../kit/run.ts";
import type { KeySync, SyncEnd } from "../kit/sync/key-sync.ts";
import type { EventNote } from "../kit/writes.ts";
import { cachedOf, observe, snapshotOf } from "./observed.ts";
import type { OwnObserved } from "./observed.ts";
import { Failures, SyncFailure } from "./failures.ts";
import { heldBy, objectOfRecord } from "./held.ts";
import type { Held } from "./held.ts";
import { OwnCalls } from "./perform.ts";
import { ownFields } from "./project.ts";
import type { OwnControllerEntry } from "./registry.ts";
import { resourceOfKind } from "./resources.ts";
import { Stability } from "./stability.ts";
import type { Unstable } from "./stability.ts";
import { describe, recordId, shownId } from "./write-names.ts";

/** Runs the functions that developers write. */
export interface OwnFunctions {
  /** @returns what `sync` returned, not yet checked. @throws {SyncFailure} what it threw, or why it never ended */
  sync(call: OwnCall): Promise<unknown>;
}

export interface OwnCall {
  readonly controller: string;
  readonly key: ObjectKey;
  readonly snapshot: Snapshot;
  readonly nowMs: number;
  /** A quorum read of the whole object. */
  live(kind: KindId, name: string, namespace: string): Promise<VisibleObject | undefined>;
}

/** One sync, for its line of output. */
export interface OwnReport {
  readonly controller: string;
  readonly key: ObjectKey;
  /** Each write with its reason; in shadow mode those that would be sent. */
  readonly writes: readonly { readonly what: string; readonly why: string }[];
  /** In shadow mode: writes that would not be sent, since the name is taken. */
  readonly blocked?: readonly { readonly what: string; readonly why: string }[];
  readonly isShadow: boolean;
  readonly durationMs: number;
  /** Why it ends early, or what failed. */
  readonly note?: string;
  readonly failures: number;
}

export interface OwnSyncOptions {
  readonly functions: OwnFunctions;
  readonly report: (report: OwnReport) => void;
}

/** How long nothing is sent for an object after another writer's revert, so that two writers do not alternate. */
const CONTESTED_MS = 300_000;
const DONE: SyncEnd = { result: { kind: "done" } };
const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

export function ownKeySync(entry: OwnControllerEntry, options: OwnSyncOptions): KeySync {
  const memory = { stability: new Stability(), failures: new Failures() };
  return { run: (ports, run) => syncOwn(entry, options, ports, run, memory) };
}

/** What a process remembers of earlier syncs. */
interface Memory {
  readonly stability: Stability;
  readonly failures: Failures;
}

async function syncOwn(
  entry: OwnControllerEntry,
  options: OwnSyncOptions,
  ports: SyncPorts,
  run: OwnRun,
  { stability, failures }: Memory,
): Promise<SyncEnd> {
  const startedMs = ports.clock.now();
  const isShadow = ports.gateway.mode === "shadow";
  const say: Acting["say"] = (writes, note, blocked = []) =>
    options.report({
      ...{ controller: entry.name, key: run.key, isShadow, durationMs: ports.clock.now() - startedMs, failures: run.snapshot.failures },
      writes: writes.map((write) => ({ what: describe(write), why: write.why })),
      ...(note !== undefined && { note }),
      ...(blocked.length > 0 && { blocked }),
    });
  const row = run.snapshot.primary;
  if (row === undefined || row.gone || cachedOf(row).metadata.deletionTimestamp !== undefined) return DONE;
  const observed = observe(entry, row, run.snapshot);
  const isOut = ownFields(cachedOf(row)).isOut === true;
  const calls = new OwnCalls(ports, run, entry, observed, row);
  try {
    const returned = isOut ? { apply: [] } : await options.functions.sync(callOf(entry, ports, run, snapshotOf(entry, row, run.snapshot)));
    return await act(entry, ports, run, { observed, row, returned, isOut, say, stability, calls });
  } catch (error) {
    say([], `sync failed: ${messageOf(error)}`);
    if (!isShadow) {
      const note = failures.noteOf(row.uid, error, calls.failed, run.snapshot.failures);
      if (note) await calls.emitOfLive(note);
    }
    throw error;
  }
}

function callOf(entry: OwnControllerEntry, { reader, clock }: SyncPorts, { key }: OwnRun, snapshot: Snapshot): OwnCall {
  return {
    controller: entry.name,
    key,
    snapshot,
    nowMs: clock.now(),
    live: async (kind, name, namespace) => {
      const found = await reader.get(resourceOfKind(kind), namespace, name);
      // a whole object, of which the controller's types name what they use
      return found && ({ ...found, apiVersion: apiVersionOf(kind), kind: kind.kind } as unknown as VisibleObject);
    },
  };
}

interface Acting {
  readonly observed: OwnObserved;
  readonly row: NonNullable<OwnRun["snapshot"]["primary"]>;
  readonly returned: unknown;
  readonly isOut: boolean;
  readonly say: (writes: readonly OwnWrite[], note?: string, blocked?: OwnReport["blocked"]) => void;
  readonly stability: Stability;
  readonly calls: OwnCalls;
}

async function act(
  entry: OwnControllerEntry,
  ports: SyncPorts,
  run: OwnRun,
  { observed, row, returned, isOut, say, stability, calls }: Acting,
): Promise<SyncEnd> {
  const { definition } = entry;
  const nowMs = ports.clock.now();
  const checked = wantedBy(definition, observed.primary, returned);
  if ("problems" in checked) throw new SyncFailure(checked.problems.join("; "), checked.problems.join("; "));
  const asked = isOut ? {} : askedBy(returned, nowMs, definition.resync);
  const refused = heldBy(observed.records);
  const held = refused.filter(({ untilMs }) => untilMs > nowMs);
  const wanted = withApplied(entry, checked.wanted, refused, observed, row, nowMs);
  const digest = (text: string): string => ports.digester.content(text);
  const decided = decideWrites(definition, wanted, observed, digest, nowMs);
  const isHeld = (write: OwnWrite): boolean => held.some(({ id }) => id === recordId(write));
  const unstable =
    ports.gateway.mode === "shadow"
      ? []
      : stability.admit(
          observed.primary.uid,
          decided.writes.filter((write) => !isHeld(write)),
          recordId,
          () => othersText(entry, run),
          nowMs,
        );
  const isIncomplete = held.length > 0 || decided.contested.length > 0 || unstable.length > 0;
  const writes = decided.writes.filter(
    (write) => !isHeld(write) && !unstable.some((each) => each.write === write) && !(isIncomplete && write.kind === "prune"),
  );
  const again = soonest([
    asked.againMs,
    ...[...held, ...unstable].map(({ untilMs }) => untilMs - nowMs),
    ...decided.contested.map(() => CONTESTED_MS),
  ]);
  const result: Succeeded = again === undefined ? { kind: "done" } : { kind: "again", afterMs: again };
  if (ports.gateway.mode === "shadow") {
    const taken = await calls.taken(writes);
    const blocked = taken.flatMap(({ write, why }) => (why === undefined ? [] : [{ what: describe(write), why }]));
    const isSent = (write: OwnWrite): boolean =>
      !taken.some((each) => each.write === write) && !(blocked.length > 0 && write.kind === "prune");
    say(writes.filter(isSent), undefined, blocked);
    return { result };
  }
  const stale = staleRecords(wanted, observed);
  const events = [...(asked.events ?? []), ...decided.contested.map(contestedNote), ...unstable.map(unstableNote)];
  const isAllWritten = !isOut && stale.length === 0 && events.length === 0 && refused.length === 0;
  try {
    const performed = await calls.perform(
      writes,
      decided.needsLiveRead && writes.some(isGuarded),
      isIncomplete,
      isAllWritten ? result : undefined,
    );
    if (performed.kind === "gone") {
      say([], "the primary is gone");
      return DONE;
    }
    if (performed.kind === "again") {
      say(writes, performed.why);
      return { result: { kind: "again", afterMs: OUTDATED_MS } };
    }
    if (isOut) await calls.release();
    calls.emit(events);
    await calls.forget(stale);
    const notes = [
      ...calls.held().flatMap(({ id, reason, untilMs }) => (untilMs > nowMs ? [`${shownId(id)}: ${reason}`] : [])),
      ...unstable.map((each) => `${unstableText(each)}: waits ${Math.ceil((each.untilMs - nowMs) / 1_000)} s`),
    ];
    say(
      writes.filter((write) => !performed.held.includes(write)),
      notes.length === 0 ? undefined : notes.join(", "),
    );
    // The status reports a hold in the next sync, and its end too.
    const hasEnded = refused.some(({ id }) => !calls.held().some((each) => each.id === id));
    if (hasEnded || (performed.isHeld && !isIncomplete)) return { result: { kind: "again", afterMs: 0 } };
    return { result, ...(calls.done && { done: calls.done }) };
  } finally {
    await calls.sendEvents();
  }
}

/** Delay before an outdated decision is repeated. Usually the write-through of the live object enqueues the key earlier. */
const OUTDATED_MS = 100;

function isGuarded({ kind }: OwnWrite): boolean {
  return kind === "create" || kind === "prune" || kind === "remove";
}

function contestedNote(id: string): EventNote {
  return { type: "Warning", reason: "Contested", message: `another writer keeps changing ${shownId(id)}: find it in managedFields` };
}

function unstableNote(each: Unstable): EventNote {
  return { type: "Warning", reason: "Unstable", message: `${unstableText(each)}: make the result depend on the snapshot alone` };
}

function unstableText({ write, fields }: Unstable): string {
  return `${shownId(recordId(write))} differs in each sync (${fields.join(", ")})`;
}

/** What a sync saw that others may have changed: the primary's generation, labels and status of owned objects, watched objects. */
function othersText({ views }: OwnControllerEntry, { snapshot: { primary, slices } }: OwnRun): string {
  const seen = views.map(({ name, role }) =>
    (slices?.get(name) ?? []).map((row) => {
      if (role !== "owned") return role === "watched" ? row.rv : undefined;
      const { metadata, status } = cachedOf(row);
      return [metadata.labels, metadata.annotations, metadata.deletionTimestamp, status];
    }),
  );
  return JSON.stringify([primary === undefined ? undefined : cachedOf(primary).metadata.generation, seen]);
}

/** `Applied=False` while a name is taken, if the status has conditions. */
function withApplied(
  { definition: { primary } }: OwnControllerEntry,
  wanted: Wanted,
  held: readonly Held[],
  { primary: { generation } }: OwnObserved,
  row: Acting["row"],
  nowMs: number,
): Wanted {
  // An attempt after the back-off may fail again: until it has succeeded, the condition stays.
  const unapplied = held.filter(
    ({ id }) => id === "self" || id === "status" || wanted.apply?.some((each) => idText(each.id) === id) === true,
  );
  const [first] = unapplied;
  if (first === undefined || wanted.status === undefined || primary.crd?.status?.properties?.["conditions"] === undefined) return wanted;
  const listOf = (
    status: unknown,
  ): readonly { readonly type?: string; readonly status?: string; readonly lastTransitionTime?: string }[] => {
    const conditions = (status as { readonly conditions?: unknown } | undefined)?.conditions;
    return Array.isArray(conditions) ? conditions : [];
  };
  const before = listOf(cachedOf(row).status).find(({ type }) => type === "Applied");
  const lastTransitionTime =
    before?.status === "False" && before.lastTransitionTime !== undefined
      ? before.lastTransitionTime
      : `${new Date(nowMs).toISOString().slice(0, -".000Z".length)}Z`;
  const condition = {
    type: "Applied",
    status: "False",
    reason: first.reason,
    message: unapplied.map(({ id, reason }) => `${shownId(id)}: ${reason}`).join(", "),
    lastTransitionTime,
    observedGeneration: generation,
  };
  const others = listOf(wanted.status).filter(({ type }) => type !== "Applied");
  return { ...wanted, status: { ...wanted.status, conditions: [...others, condition] } };
}

/** Records of objects that neither exist nor are wanted. */
function staleRecords({ apply, keep }: Wanted, { records, rows }: OwnObserved): readonly string[] {
  if (apply === undefined) return [];
  const wanted = new Set([...apply.map(({ id }) => `${id.kind.kind}.${id.kind.group}/${id.namespace}/${id.name}`), ...keep]);
  return [...records.keys()].filter((id) => {
    const object = objectOfRecord(id);
    return object !== "self" && object !== "status" && !wanted.has(object) && !rows.has(object);
  });
}

interface Asked {
  readonly againMs?: number;
  readonly events?: readonly EventNote[];
}

/** `again`, `resync` and `events` of a result. @throws {Error} with one line */
function askedBy(returned: unknown, nowMs: number, resync: string | undefined): Asked {
  const { again, events } = (returned ?? {}) as { readonly again?: unknown; readonly events?: unknown }; // wantedBy has refused other types
  const againMs = soonest([
    again === undefined ? undefined : again instanceof Date ? again.getTime() - nowMs : durationMs("again", again),
    resync === undefined ? undefined : durationMs("resync", resync),
  ]);
  return { ...(againMs !== undefined && { againMs }), ...(events !== undefined && { events: notesOf(events) }) };
}

function notesOf(events: unknown): readonly EventNote[] {
  if (!Array.isArray(events)) throw wrong("`events` must be a list");
  return events.map((event: unknown): EventNote => {
    const { type, reason, message } = (event ?? {}) as Readonly<Record<string, unknown>>;
    if ((type === "Normal" || type === "Warning") && typeof reason === "string" && typeof message === "string")
      return { type, reason, message };
    throw wrong("`events` has an entry without type (Normal or Warning), reason and message");
  });
}

/** @param value that the message quotes */
function wrong(problem: string, value?: unknown): SyncFailure {
  return new SyncFailure(value === undefined ? problem : `${problem}, not "${String(value)}"`, problem);
}

/** Milliseconds of `30s`. @throws {Error} that names `field` */
export function durationMs(field: string, text: unknown): number {
  const [, number, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(String(text)) ?? [];
  const ms = Number(number) * (UNITS_MS[unit] ?? NaN);
  if (Number.isFinite(ms)) return ms;
  throw wrong(`\`${field}\` must be a Date or a duration such as "10m"`, text);
}

function soonest(all: readonly (number | undefined)[]): number | undefined {
  const times = all.filter((ms): ms is number => ms !== undefined && Number.isFinite(ms));
  return times.length === 0 ? undefined : Math.max(0, Math.min(...times));
}
