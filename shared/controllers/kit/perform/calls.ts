/** State shared by the calls of one run: the write gateway, the live owner, the rows read, and the write-through of responses. */
import type { Cached, CachedResource, ObjectKey, KubeObject } from "@deltaloop/kube/objects";
import { ownerOfCached, controllerRef, compareResourceVersions, CONTROLLER_INFO, objectKey, splitKey } from "@deltaloop/kube/objects";
import { formatSelector, type Selector } from "@deltaloop/kube/selectors";
import { strip } from "@deltaloop/kube/strip";
import type { KubeList } from "@deltaloop/kube/client";
import { writeThrough } from "../../cache/write-through.ts";
import type { DoneResult, Row, Snapshot, WriteThrough } from "@deltaloop/store/ports";
import { StolenError, toError } from "../errors.ts";
import type { Answer, RunGateway, SeenRow } from "../write-gateway/gateway.ts";
import { RECENT_MS } from "../read-your-writes.ts";
import { outcomeOf } from "../outcome.ts";
import type { Run, Succeeded, SyncPorts } from "../run.ts";
import { Sealed } from "../sealed.ts";
import type { EventNote, Owner } from "../writes.ts";
import { RunEvents } from "./events.ts";
import type { LiveOwner } from "./live-owner.ts";

export interface AnswersOf<R extends CachedResource> {
  readonly resource: R;
  readonly objects?: readonly KubeObject[];
  /** Keys known to have had no row when the run began: those of generated names. */
  readonly absent?: readonly ObjectKey[];
  readonly lower?: readonly string[];
  readonly plan?: WriteThrough["plan"];
  readonly hold?: WriteThrough["hold"];
  readonly gone?: WriteThrough["gone"];
  readonly marks?: WriteThrough["marks"];
  readonly ownStatus?: boolean;
  /** Returns the sync's result from the objects as they will be cached; set on the run's last write. */
  readonly finalResult?: (objects: readonly Cached[]) => Succeeded;
}

export interface ListOptions {
  readonly selector: Selector;
  readonly foresee?: Owner;
}

/**
 * Rows of the snapshot, updated with this run's writes. The Store compares them with its own, so an outdated row only costs another read.
 */
type KnownRows = ReadonlyMap<CachedResource, Map<ObjectKey, Row | undefined>>;

/** The state of one run, from `take` to `done`. Each part is created on first use, because a sync without writes needs none. */
export class RunCalls {
  readonly ports: SyncPorts;
  run: Run;
  /** Number of pod names drawn for the owner so far (IT5). */
  drawn: number;
  /** The result of the run, if the last write-through ended it. */
  done: DoneResult | undefined;
  readonly #events: RunEvents;
  #gateway: RunGateway | undefined;
  #live: Promise<LiveOwner> | undefined;
  /** Whether `#live` was read before the last live list of dependents. */
  #isOlderThanList = false;
  #foreseen: { readonly sentMs: number; readonly object: Promise<KubeObject | undefined> } | undefined;
  #rows: KnownRows | undefined;
  /** Decision marks (decision-basis.ts) to store with the next write-through, to save a call of the Store. */
  #mark: NonNullable<WriteThrough["marks"]> = [];

  constructor(ports: SyncPorts, run: Run) {
    this.ports = ports;
    this.run = run;
    this.drawn = run.snapshot.drawn ?? 0;
    this.#events = new RunEvents(ports, run);
  }

  /** Sends all mutating calls of the run; bound to the owner whose key was taken. */
  get gateway(): RunGateway {
    const { key, snapshot } = this.run;
    return (this.#gateway ??= this.ports.gateway.forRun({ ...splitKey(key), uid: snapshot.primary?.uid ?? "" }));
  }

  /** Reads the owner once per run, failures included, and writes it through if the cache has another version. */
  liveOwner(owner: Owner): Promise<LiveOwner> {
    return (this.#live ??= this.#foreseenOwner(owner));
  }

  /** Same as `liveOwner`, for pod creates. May return this invocation's own last write on the owner instead (HO1, HO2). */
  ownerToCreate(owner: Owner): Promise<LiveOwner> {
    const own = this.#live === undefined ? this.#ownResponse(owner) : undefined;
    return own ? Promise.resolve(own) : this.liveOwner(owner);
  }

  /**
   * Reads the owner after its dependents were listed, so that an owner that was deleted in the meantime does not adopt pods that it
   * released.
   * Source: pkg/controller/controller_ref_manager.go CanAdopt.
   */
  ownerToAdopt(owner: Owner): Promise<LiveOwner> {
    if (this.#isOlderThanList) this.#live = undefined;
    this.#isOlderThanList = false;
    return (this.#live ??= this.#readOwner(owner, this.#get(owner)));
  }

  /** Lists dependents live. `foresee`: the owner to read in parallel, unless this run has read it already; later writes need it. */
  async list(resource: CachedResource, namespace: string, options: ListOptions): Promise<readonly KubeObject[]> {
    return (await this.listWithVersion(resource, namespace, options)).items;
  }

  async listWithVersion(resource: CachedResource, namespace: string, { selector, foresee }: ListOptions): Promise<KubeList> {
    const { reader, gateway, clock } = this.ports;
    const listing = reader.list(resource, namespace, { labelSelector: formatSelector(selector) });
    if (foresee && gateway.mode === "act" && this.#live === undefined)
      this.#foreseen = { sentMs: clock.now(), object: this.#get(foresee).catch(() => undefined) };
    const list = await listing;
    this.#isOlderThanList = this.#live !== undefined;
    return list;
  }

  /** Makes the run decide on `snapshot`, which is newer than the snapshot of its take. */
  goOnWith(snapshot: Snapshot, marks: NonNullable<WriteThrough["marks"]>): Snapshot {
    this.run = { ...this.run, snapshot };
    this.#mark = marks;
    return snapshot;
  }

  /** HO1, HO2: keeps a write's response for the follow-up sync. */
  remember(object: KubeObject, sentMs: number): void {
    this.ports.readYourWrites?.put(object, sentMs);
  }

  /** HO2: called before a write on the object is sent. */
  forget(uid: string): void {
    this.ports.readYourWrites?.drop(uid);
  }

  #ownResponse({ resource, uid }: Owner): LiveOwner | undefined {
    const { primary } = this.run.snapshot;
    if (primary?.uid !== uid) return undefined;
    const object = this.ports.readYourWrites?.get(uid, primary.rv, this.ports.clock.now());
    // The row of that version in Redis may be forged; this object is from the API server.
    return object && liveOf(object, strip(resource, object, this.ports.digester), false);
  }

  #get({ resource, namespace, name }: Owner): Promise<KubeObject | undefined> {
    return this.ports.reader.get(resource, namespace, name);
  }

  /** Returns the owner that was read in parallel with the list. Reads it again if that read is too old, failed, or found nothing. */
  async #foreseenOwner(owner: Owner): Promise<LiveOwner> {
    const { clock } = this.ports;
    const foreseen = this.#foreseen;
    this.#foreseen = undefined;
    if (foreseen === undefined || clock.now() - foreseen.sentMs >= RECENT_MS) return this.#readOwner(owner, this.#get(owner));
    this.#isOlderThanList = true;
    return this.#readOwner(
      owner,
      foreseen.object.then((object) => object ?? this.#get(owner)),
    );
  }

  async #readOwner({ resource, uid }: Owner, reading: Promise<KubeObject | undefined>): Promise<LiveOwner> {
    let live: KubeObject | undefined;
    try {
      live = await reading;
    } catch (error) {
      return { kind: "failed", error: toError(error) };
    }
    if (live === undefined) return { kind: "missing" };
    const { primary } = this.run.snapshot;
    const order = primary?.uid === live.metadata.uid ? compareResourceVersions(primary.rv, live.metadata.resourceVersion) : undefined;
    const [written] = order === 0 ? [] : await this.save({ resource, objects: [live] });
    if (live.metadata.uid !== uid) return { kind: "otherUid", uid: live.metadata.uid };
    // Equal versions are equal objects. The primary has the owner's resource type.
    const cached = written ?? (primary?.object as Cached<Owner["resource"]>);
    return liveOf(live, cached, order !== undefined && order > 0);
  }

  /**
   * The dependent with that key and uid as this run last saw it: in its responses, otherwise in its snapshot. If a response showed another
   * object of that name, a decision may still refer to the snapshot's object; the API server then rejects the call by its uid precondition.
   */
  seenRow(namespace: string, { name, uid }: { readonly name: string; readonly uid: string }): SeenRow | undefined {
    const { snapshot, controller } = this.run;
    const key = objectKey(namespace, name);
    const known = this.#known.get(CONTROLLER_INFO[controller].dependents)?.get(key);
    const isMeant = (row: Row): boolean => row.key === key && row.uid === uid;
    const row = known && isMeant(known) ? known : (snapshot.dependents.find(isMeant) ?? snapshot.orphans.find(isMeant));
    return row && seenAs(row.object);
  }

  /**
   * Registers the intents of calls before they are sent. If the request times out, a slow Store may still execute it, and the owner would
   * be blocked for OP_DEADLINE_MS although no call is sent. So a second request then revokes it.
   *
   * @throws StolenError without the lease
   */
  async register(
    intents: Parameters<SyncPorts["store"]["registerIntents"]>[2],
    takenBack: Pick<WriteThrough, "lower" | "plan">,
    drawn?: number,
  ): Promise<void> {
    let answer;
    try {
      answer = await this.ports.store.registerIntents(this.run, this.run.snapshot.primary?.uid ?? "", intents, drawn);
    } catch (error) {
      this.saveLate({ resource: "pods", ...takenBack });
      throw error;
    }
    if (answer === "stolen") throw new StolenError();
  }

  /**
   * After a rejected create, resets the counter of generated pod names to the names that were sent. If this call fails, the next run
   * generates other names.
   */
  async drawAgainFrom(index: number): Promise<void> {
    if (index >= this.drawn || !this.run.mayWrite()) return;
    this.drawn = index;
    const ownerUid = this.run.snapshot.primary?.uid ?? "";
    await this.ports.store.registerIntents(this.run, ownerUid, [], index).catch(() => undefined);
  }

  /** Same as `save`, but does not wait for the response, for a run that ends because the Store does not answer. */
  saveLate(answers: AnswersOf<"pods">): void {
    this.save(answers).catch(() => undefined); // if this call also fails, the deadline of the intents releases the owner
  }

  /** Writes responses through in one call of the Store, if there are any. Returns the objects as cached. */
  async save<R extends CachedResource>(answers: AnswersOf<R>): Promise<readonly Cached<R>[]> {
    const { resource, objects = [], absent = [], lower = [], plan = [], hold = [], gone = [], finalResult } = answers;
    const { ownStatus = false } = answers;
    const marks = [...this.#mark, ...(answers.marks ?? [])];
    const ownerUid = this.run.snapshot.primary?.uid;
    if (
      ownerUid === undefined ||
      objects.length + lower.length + plan.length + hold.length + gone.length + (answers.marks ?? []).length === 0
    )
      return [];
    this.#mark = [];
    const known = this.#known.get(resource);
    for (const key of absent) if (!known?.has(key)) known?.set(key, undefined);
    // Events must be sent while the key is leased, so a run with Events is not ended here.
    const ends =
      finalResult && !this.#events.hasNotes ? { ends: (all: readonly Cached[]) => outcomeOf(finalResult(all), this.run.snapshot) } : {};
    const written = {
      resource,
      objects,
      ...(known && { known }),
      ownerUid,
      lower,
      plan,
      hold,
      gone,
      marks,
      ownStatus,
      ...leftOf(this.run, ownStatus),
      ...ends,
    };
    const { objects: cached, done } = await writeThrough(this.ports, this.run, written);
    this.done ??= done;
    for (const object of cached) {
      const row = rowOf(resource, object);
      known?.set(row.key, row);
    }
    for (const { key } of gone) known?.delete(key);
    return cached;
  }

  get #known(): KnownRows {
    return (this.#rows ??= snapshotRows(this.run));
  }

  /** Records an Event about the owner, to be sent later. */
  emit(owner: Owner, notes: readonly EventNote[]): void {
    this.#events.note(owner, notes);
  }

  /** Sends the recorded Events. Never fails. */
  sendEvents(): Promise<void> {
    return this.#events.send(() => this.gateway);
  }
}

function leftOf({ snapshot: { left } }: Run, ownStatus: boolean): { readonly left?: number } {
  return ownStatus && left !== undefined ? { left } : {};
}

function liveOf(live: KubeObject, cached: Cached<Owner["resource"]>, isCacheAhead: boolean): LiveOwner {
  return { kind: "live", object: new Sealed(live, cached.spec.template?.digest ?? "no template"), cached, isCacheAhead };
}

function snapshotRows({ controller, snapshot }: Run): KnownRows {
  const { primary, dependents } = CONTROLLER_INFO[controller];
  const rows = [...snapshot.dependents, ...snapshot.orphans];
  return new Map([
    [primary, new Map(snapshot.primary ? [[snapshot.primary.key, snapshot.primary]] : [])],
    [dependents, new Map<ObjectKey, Row | undefined>(rows.map((row) => [row.key, row]))],
  ]);
}

export function rowOf(resource: CachedResource, object: Cached): Row {
  const { namespace, name, uid, resourceVersion: rv } = "metadata" in object ? object.metadata : object;
  const owner = ownerOfCached(resource, object);
  return { key: objectKey(namespace, name), uid, rv, ...(owner !== undefined && { owner }), gone: false, object };
}

function seenAs(object: Cached): SeenRow {
  const isPod = !("metadata" in object);
  const { namespace, name, uid } = isPod ? object : object.metadata;
  const controller = isPod ? object.owner : controllerRef(object.metadata);
  return { namespace, name, uid, ...(controller && { controller }) };
}

/** The object of a response. @throws {Error} if nothing was sent, which is a bug: shadow mode ends before any call. */
export function storedObject(answer: Answer): KubeObject | undefined {
  if (answer.kind === "notSent") throw new Error("bug: a run in shadow mode sent a write");
  return answer.object;
}
