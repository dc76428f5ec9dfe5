/** What perform() remembers from call to call within one run, and the two things every part of it does with answers. */
import type { Cached } from "../../api/cached.ts";
import { ownerOfCached } from "../../api/owner-id.ts";
import { controllerRef } from "../../api/owner-references.ts";
import { CONTROLLER_INFO, objectKey, splitKey } from "../../api/resources.ts";
import type { CachedResource, ObjectKey } from "../../api/resources.ts";
import type { KubeObject } from "../../api/wire.ts";
import { writeThrough } from "../../cache/write-through.ts";
import { describeError } from "../../ports/describe-error.ts";
import type { Row, WriteThrough } from "../../ports/store.ts";
import { EVENTS_PER_SYNC_MAX, eventBody } from "../event-recorder.ts";
import type { Answer, RunGateway, SeenRow } from "../gateway.ts";
import { loggedNote } from "../logged.ts";
import type { Run, SyncPorts } from "../run.ts";
import type { EventNote, Owner } from "../writes.ts";
import type { LiveOwner } from "./live-owner.ts";

export interface Session {
  /** The door for this run's owner. */
  gateway?: RunGateway;
  /** The one live read of the owner. */
  live?: Promise<LiveOwner>;
  /** Pod names drawn so far. */
  names: number;
  events: number;
  /** Rows as the snapshot shows them, and then as we wrote them: the Store compares, so a row that moved costs a second look. */
  readonly known: ReadonlyMap<CachedResource, Map<ObjectKey, Row | undefined>>;
}

/** A run is one object from take to done, so what hangs on it lives as long as the sync, and is never shared. */
const sessions = new WeakMap<Run, Session>();

export function sessionOf(run: Run): Session {
  let session = sessions.get(run);
  if (session === undefined) sessions.set(run, (session = newSession(run)));
  return session;
}

function newSession({ controller, snapshot }: Run): Session {
  const { primary, dependents } = CONTROLLER_INFO[controller];
  const rows = [...snapshot.dependents, ...snapshot.orphans];
  return {
    names: 0,
    events: 0,
    known: new Map([
      [primary, new Map(snapshot.primary ? [[snapshot.primary.key, snapshot.primary]] : [])],
      [dependents, new Map<ObjectKey, Row | undefined>(rows.map((row) => [row.key, row]))],
    ]),
  };
}

/** The only way to a mutating call: through a gateway that is bound to the owner whose key was taken. */
export function runGateway(ports: Pick<SyncPorts, "gateway">, run: Run): RunGateway {
  const session = sessionOf(run);
  return (session.gateway ??= ports.gateway.forRun({ ...splitKey(run.key), uid: run.snapshot.primary?.uid ?? "" }));
}

/**
 * The dependent of that key and uid as this run has seen it last: in its own answers, else in its snapshot. A decision may still
 * mean the object of the snapshot after an answer brought another one of that name; the API server then refuses it by its uid.
 */
export function seenRow(run: Run, namespace: string, { name, uid }: { readonly name: string; readonly uid: string }): SeenRow | undefined {
  const { snapshot, controller } = run;
  const key = objectKey(namespace, name);
  const known = sessionOf(run).known.get(CONTROLLER_INFO[controller].dependents)?.get(key);
  const isMeant = (row: Row): boolean => row.key === key && row.uid === uid;
  const row = known && isMeant(known) ? known : (snapshot.dependents.find(isMeant) ?? snapshot.orphans.find(isMeant));
  return row && seenAs(row.object);
}

function seenAs(object: Cached): SeenRow {
  const isPod = !("metadata" in object);
  const { namespace, name, uid } = isPod ? object : object.metadata;
  const controller = isPod ? object.owner : controllerRef(object.metadata);
  return { namespace, name, uid, ...(controller && { controller }) };
}

export interface AnswersOf<R extends CachedResource> {
  readonly resource: R;
  readonly objects?: readonly KubeObject[];
  /** Keys that nothing stood under when the run began: names we made up. */
  readonly absent?: readonly ObjectKey[];
  readonly lower?: readonly string[];
  readonly plan?: WriteThrough["plan"];
  readonly hold?: WriteThrough["hold"];
  readonly gone?: WriteThrough["gone"];
  readonly ownStatus?: boolean;
}

/** Writes answers through (one call of the Store), if there is anything to write. Answers the objects as cached. */
export async function save<R extends CachedResource>(
  ports: SyncPorts,
  run: Run,
  { resource, objects = [], absent = [], lower = [], plan = [], hold = [], gone = [], ownStatus = false }: AnswersOf<R>,
): Promise<readonly Cached<R>[]> {
  const ownerUid = run.snapshot.primary?.uid;
  if (ownerUid === undefined || objects.length + lower.length + plan.length + hold.length + gone.length === 0) return [];
  const known = sessionOf(run).known.get(resource);
  for (const key of absent) if (!known?.has(key)) known?.set(key, undefined);
  const cached = await writeThrough(ports, run, {
    resource,
    objects,
    ...(known && { known }),
    ownerUid,
    lower,
    plan,
    hold,
    gone,
    ownStatus,
  });
  for (const object of cached) {
    const row = rowOf(resource, object);
    known?.set(row.key, row);
  }
  for (const { key } of gone) known?.delete(key);
  return cached;
}

function rowOf(resource: CachedResource, object: Cached): Row {
  const { namespace, name, uid, resourceVersion: rv } = "metadata" in object ? object.metadata : object;
  const owner = ownerOfCached(resource, object);
  return { key: objectKey(namespace, name), uid, rv, ...(owner !== undefined && { owner }), gone: false, object };
}

/** Emits Events about the owner, each tried once. Never fails; the caller awaits it before the sync ends. */
export async function emitEvents(ports: SyncPorts, run: Run, owner: Owner, notes: readonly EventNote[]): Promise<void> {
  const session = sessionOf(run);
  const { controller, key, token, snapshot } = run;
  const emit = async (note: EventNote): Promise<void> => {
    ports.trace?.({ controller, key, kind: "event", note: loggedNote(note) });
    if (session.events >= EVENTS_PER_SYNC_MAX || !run.mayWrite()) return;
    const context = {
      controller,
      owner,
      nowMs: ports.clock.now(),
      token,
      index: session.events++,
      ...(snapshot.primary && { resourceVersion: snapshot.primary.rv }),
    };
    try {
      await runGateway(ports, run).create({ resource: "events", namespace: owner.namespace, body: eventBody(note, context) });
    } catch (error) {
      ports.log.warn("event not written", { key, reason: note.reason, error: describeError(error) });
    }
  };
  await Promise.all(notes.map(emit));
}

/** The object of an answer. @throws {Error} if nothing was sent: shadow mode ends before any call. */
export function storedObject(answer: Answer): KubeObject | undefined {
  if (answer.kind === "notSent") throw new Error("a shadow run made a call");
  return answer.object;
}
