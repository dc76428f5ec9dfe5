/** What the calls of one run share: the gateway, the live owner, the rows read, and the write-through of answers. */
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
  /** Keys without a row when the run began: generated names. */
  readonly absent?: readonly ObjectKey[];
  readonly lower?: readonly string[];
  readonly plan?: WriteThrough["plan"];
  readonly hold?: WriteThrough["hold"];
  readonly gone?: WriteThrough["gone"];
  readonly marks?: WriteThrough["marks"];
  readonly ownStatus?: boolean;
  /** Set if nothing comes after this: returns the sync's result from the objects as they will be cached. */
  readonly finalResult?: (objects: readonly Cached[]) => Succeeded;
}

export interface ListOptions {
  readonly selector: Selector;
  readonly foresee?: Owner;
}

/** Rows as the snapshot shows them, and then as we wrote them: the Store compares, so a row that moved costs a second look. */
type KnownRows = ReadonlyMap<CachedResource, Map<ObjectKey, Row | undefined>>;

/** Lives from take to done, for one run. A sync without writes uses nothing of it, so each part is created on first use. */
export class RunCalls {
  readonly ports: SyncPorts;
  run: Run;
  /** Pod names drawn so far. */
  names = 0;
  /** How the run was ended by its last write-through, if it was. */
  done: DoneResult | undefined;
  readonly #events: RunEvents;
  #gateway: RunGateway | undefined;
  #live: Promise<LiveOwner> | undefined;
  /** `#live` is of before the last live list of dependents was answered. */
  #isOlderThanList = false;
  #foreseen: { readonly sentMs: number; readonly object: Promise<KubeObject | undefined> } | undefined;
  #rows: KnownRows | undefined;
  /** Goes with the next write-through: a mark alone is worth no call of the Store. */
  #mark: NonNullable<WriteThrough["marks"]> = [];

  constructor(ports: SyncPorts, run: Run) {
    this.ports = ports;
    this.run = run;
    this.#events = new RunEvents(ports, run);
  }

  /** The only way to a mutating call: bound to the owner whose key was taken. */
  get gateway(): RunGateway {
    const { key, snapshot } = this.run;
    return (this.#gateway ??= this.ports.gateway.forRun({ ...splitKey(key), uid: snapshot.primary?.uid ?? "" }));
  }

  /** Read once per run, failures included, and written through if the cache shows another version. */
  liveOwner(owner: Owner): Promise<LiveOwner> {
    return (this.#live ??= this.#foreseenOwner(owner));
  }

  /** For pod creates: as `liveOwner`, or this invocation's own last write on the owner (HO1, HO2). */
  ownerToCreate(owner: Owner): Promise<LiveOwner> {
    const own = this.#live === undefined ? this.#ownResponse(owner) : undefined;
    return own ? Promise.resolve(own) : this.liveOwner(owner);
  }

  /**
   * Read after what is to be adopted was listed: an owner that was deleted meanwhile, and let go of it, adopts nothing.
   * Source: pkg/controller/controller_ref_manager.go CanAdopt.
   */
  ownerToAdopt(owner: Owner): Promise<LiveOwner> {
    if (this.#isOlderThanList) this.#live = undefined;
    this.#isOlderThanList = false;
    return (this.#live ??= this.#readOwner(owner, this.#get(owner)));
  }

  /** Dependents as they are at this moment. With `foresee` that owner is read beside them, if it was not, for writes to come. */
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

  /** The run decides on `snapshot` from here on, which is newer than the one of its take. */
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
    // The row of that version in Redis may be forged; this is the API server's object.
    return object && liveOf(object, strip(resource, object, this.ports.digester), false);
  }

  #get({ resource, namespace, name }: Owner): Promise<KubeObject | undefined> {
    return this.ports.reader.get(resource, namespace, name);
  }

  /** Reads the owner again if the list before it was slow, or if the owner was unreadable or missing then. */
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
    // An equal version is an equal object; the primary's row is of the owner's resource.
    const cached = written ?? (primary?.object as Cached<Owner["resource"]>);
    return liveOf(live, cached, order !== undefined && order > 0);
  }

  /**
   * The dependent of that key and uid as this run has seen it last: in its own answers, else in its snapshot. A decision may still
   * mean the object of the snapshot after an answer brought another one of that name; the API server then refuses it by its uid.
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
   * Writes calls down before they are made. A registration that was not answered may be carried out yet, by a Store that was only slow,
   * and would hold the owner for OP_DEADLINE_MS though nobody makes its calls: it is taken back right behind.
   *
   * @throws StolenError without the lease
   */
  async register(
    intents: Parameters<SyncPorts["store"]["registerIntents"]>[2],
    takenBack: Pick<WriteThrough, "lower" | "plan">,
  ): Promise<void> {
    let answer;
    try {
      answer = await this.ports.store.registerIntents(this.run, this.run.snapshot.primary?.uid ?? "", intents);
    } catch (error) {
      this.saveLate({ resource: "pods", ...takenBack });
      throw error;
    }
    if (answer === "stolen") throw new StolenError();
  }

  /** As `save`, for a run that ends now because its Store does not answer: sent without waiting for the answer. */
  saveLate(answers: AnswersOf<"pods">): void {
    this.save(answers).catch(() => undefined); // then the ops' deadline ends what they hold
  }

  /** Writes answers through (one call of the Store), if there is anything to write. Answers the objects as cached. */
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
    // Events are sent while the key is leased.
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

  /** Reports it. Never fails. */
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

/** The object of an answer. @throws {Error} if nothing was sent: shadow mode ends before any call. */
export function storedObject(answer: Answer): KubeObject | undefined {
  if (answer.kind === "notSent") throw new Error("a shadow run made a call");
  return answer.object;
}
