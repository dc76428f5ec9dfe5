/**
 * Sends the own writes of one sync, and stores what was sent.
 *
 * OW1 nothing is created, pruned or removed before this run has read the primary live. If it no longer exists, has another uid or is being
 *     deleted, the sync ends.
 * OW2 every answer is written through together with the record of its write, so that the same write is not sent again.
 * OW3 an object is pruned only if every write before it has succeeded.
 * OW4 a name that is taken, and an object that another user controller manages, are held: nothing is sent for them until a back-off ends.
 * OW5 an own write is repeated safely, so none has an intent. A create whose answer was lost finds its object.
 * OW6 the writes of one stage (stages.ts) are sent at once. The next stage, and the end of the run, wait for all of them.
 * OW7 the last write-through ends the run in the same call of the Store, if nothing else is left to do (WQ8).
 */
import { objectKey } from "@deltaloop/kube/objects";
import type { CachedObject, KubeObject, ObjectKey } from "@deltaloop/kube/objects";
import type { DoneResult, RecordChange, Row } from "@deltaloop/store/ports";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import { afterAnswer, afterTaken, idText, managerOf, recordOf, sentText, stagesOf } from "@deltaloop/sdk/writes";
import type { LastWrite, ObjectBody, OwnWrite } from "@deltaloop/sdk/writes";
import { writeThrough } from "../cache/write-through.ts";
import { cachedAs } from "../cache/cache-registry.ts";
import type { KnownRows } from "../cache/prepare.ts";
import { LeaseEndsError, toError } from "../kit/errors.ts";
import { inTurn } from "../kit/in-turn.ts";
import { outcomeOf } from "../kit/outcome.ts";
import { RunEvents } from "../kit/perform/events.ts";
import type { OwnRun, Succeeded, SyncPorts } from "../kit/run.ts";
import type { EventNote } from "../kit/writes.ts";
import type { RunGateway } from "../kit/write-gateway/gateway.ts";
import { heldBy, heldId, holdRecord } from "./held.ts";
import type { Held } from "./held.ts";
import { cachedOf, idOf, keyOfId } from "./observed.ts";
import type { OwnObserved } from "./observed.ts";
import { ownFields, seenOf } from "./project.ts";
import type { OwnControllerEntry } from "./registry.ts";
import { OwnRequests } from "./requests.ts";
import type { OwnViewOf } from "./views.ts";
import { describe, recordId } from "./write-names.ts";

/** The result of a write, as far as later writes of the sync depend on it. */
type Sent =
  | { readonly kind: "next" }
  /** The write is held (OW4): other objects are still written, but nothing is pruned. */
  | { readonly kind: "held" }
  /** The decision is outdated: the key is synced again. */
  | { readonly kind: "again"; readonly why: string }
  | { readonly kind: "failed"; readonly error: Error };

export type PerformedOwn =
  /** `held`: writes that were refused and are held from now on. `isHeld`: these, or earlier ones. */
  | { readonly kind: "done"; readonly isHeld: boolean; readonly held: readonly OwnWrite[] }
  /** The primary is gone or being deleted: nothing else is sent, not even an Event. */
  | { readonly kind: "gone" }
  | { readonly kind: "again"; readonly why: string };

export class OwnCalls {
  readonly #ports: SyncPorts;
  readonly #run: OwnRun;
  readonly #entry: OwnControllerEntry;
  readonly #observed: OwnObserved;
  readonly #row: Row;
  readonly #gateway: RunGateway;
  readonly #requests: OwnRequests;
  readonly #events: RunEvents;
  readonly #records: Map<string, LastWrite>;
  /** The primary's version after this run's last write on it. */
  #version: string;
  #hasWrittenPrimary = false;
  /** The result of the run, once the Store has ended it (OW7). */
  done: DoneResult | undefined;
  /** `create Deployment shop/a`, the write whose failure has ended the run. */
  failed: string | undefined;

  constructor(ports: SyncPorts, run: OwnRun, entry: OwnControllerEntry, observed: OwnObserved, row: Row) {
    this.#ports = ports;
    this.#run = run;
    this.#entry = entry;
    this.#observed = observed;
    this.#row = row;
    const { namespace, name, uid, resourceVersion } = observed.primary;
    this.#gateway = ports.gateway.forRun({ namespace, name, uid });
    this.#requests = new OwnRequests(ports.reader, this.#gateway, entry, observed);
    this.#events = new RunEvents(ports, run);
    this.#records = new Map(observed.records);
    this.#version = resourceVersion;
  }

  /** @param finalResult of the sync, if nothing follows a last write that succeeds */
  async perform(
    writes: readonly OwnWrite[],
    needsLiveRead: boolean,
    isHeldBefore: boolean,
    finalResult?: Succeeded,
  ): Promise<PerformedOwn> {
    if (needsLiveRead) {
      const read = await this.#readPrimary();
      if (read !== "same") return read === "gone" ? { kind: "gone" } : { kind: "again", why: "the primary changed" };
    }
    const held: OwnWrite[] = [];
    const stages = stagesOf(writes);
    for (const [index, stage] of stages.entries()) {
      const isHeld = isHeldBefore || held.length > 0;
      if (isHeld && stage[0]?.kind === "prune") continue; // OW3
      const isLast = index === stages.length - 1 && stage.length === 1 && !isHeld;
      const sent = await this.#sendAtOnce(stage, isLast ? finalResult : undefined);
      const again = sent.find((each) => each.kind === "again");
      if (again) return again;
      held.push(...stage.filter((_, i) => sent[i]?.kind === "held"));
    }
    return { kind: "done", isHeld: isHeldBefore || held.length > 0, held };
  }

  /** @throws {Error} the first failure, once all have ended, so that no write outlives the run's lease */
  async #sendAtOnce(stage: readonly OwnWrite[], finalResult: Succeeded | undefined): Promise<readonly Sent[]> {
    let isEnding = false;
    const sent = await inTurn(
      stage,
      () => !isEnding,
      async (write): Promise<Sent> => {
        const one = await this.#send(write, finalResult).catch((error: unknown): Sent => ({ kind: "failed", error: toError(error) }));
        isEnding ||= one.kind === "failed" || one.kind === "again";
        return one;
      },
    );
    for (const [i, one] of sent.entries()) {
      if (one?.kind !== "failed") continue;
      const write = stage[i];
      this.failed = write && describe(write);
      throw one.error;
    }
    return sent.filter((one) => one !== undefined);
  }

  /**
   * Creates that would not succeed, since an object has the name: why, or no reason if it is the primary's own, which the cache lacks yet.
   * Sends reads only.
   */
  async taken(writes: readonly OwnWrite[]): Promise<readonly { readonly write: OwnWrite; readonly why?: string }[]> {
    const creates = writes.filter((write) => write.kind === "create");
    const read = async (write: (typeof creates)[number]): Promise<{ readonly found: KubeObject | undefined } | Error> =>
      await this.#requests.readLive(this.#requests.viewOf(write.id), write.id).then((found) => ({ found }), toError);
    const answers = await inTurn(creates, () => true, read);
    return creates.flatMap((write, i) => {
      const answer = answers[i];
      if (answer instanceof Error) throw answer;
      if (answer?.found === undefined) return [];
      const next = afterTaken(write, answer.found as unknown as ObjectBody); // a whole object
      return [{ write, ...(next.kind === "backOff" && { why: `${next.event}: ${next.message}` }) }];
    });
  }

  /** Objects that are held after this run's answers. */
  held(): readonly Held[] {
    return heldBy(this.#records);
  }

  emit(notes: readonly EventNote[]): void {
    const { kind, views } = { kind: this.#entry.definition.primary, views: this.#entry.views };
    const { namespace, name, uid } = this.#observed.primary;
    const about = { resource: views[0].resource, apiVersion: apiVersionOf(kind), kind: kind.kind, namespace, name, uid };
    this.#events.note(about, notes);
  }

  /** Sends the Event if the primary exists and is not being deleted. Never fails. */
  async emitOfLive(note: EventNote): Promise<void> {
    const { uid } = this.#observed.primary;
    const live = await this.#requests.readLive(this.#entry.views[0], this.#observed.primary).catch(() => undefined);
    if (live?.metadata.uid !== uid || live.metadata.deletionTimestamp !== undefined) return;
    this.emit([note]);
    await this.sendEvents();
  }

  /** Never fails. */
  sendEvents(): Promise<void> {
    return this.#events.send(() => this.#gateway);
  }

  /** Removes records of what no longer exists and is no longer wanted. */
  async forget(ids: readonly string[]): Promise<void> {
    if (ids.length > 0)
      await this.#save(
        this.#entry.views[0],
        {},
        ids.map((id) => ({ id })),
      );
  }

  /** After `where` no longer matches: the fields that `self` set stay, without a field manager. */
  async release(): Promise<void> {
    if (ownFields(cachedOf(this.#row)).isManaged !== true) return;
    const { definition, views } = this.#entry;
    const live = await this.#requests.readLive(views[0], this.#observed.primary);
    if (live?.metadata.uid !== this.#observed.primary.uid) return;
    const manager = managerOf(definition.name);
    const entries = (live as unknown as ObjectBody).metadata["managedFields"];
    const others = (Array.isArray(entries) ? entries : []).filter(
      (entry: { readonly manager?: string; readonly subresource?: string }) => entry.manager !== manager || entry.subresource === "status",
    );
    // An entry of the status stays, and alone is no reason for a request.
    if (Array.isArray(entries) && others.length === entries.length) return;
    const answer = await this.#requests.jsonPatch(views[0], live, [
      { op: "replace", path: "/metadata/managedFields", value: others.length === 0 ? [{}] : others },
      { op: "replace", path: "/metadata/resourceVersion", value: live.metadata.resourceVersion },
    ]);
    await this.#save(views[0], { object: answer }, [{ id: "self" }]);
  }

  async #readPrimary(): Promise<"same" | "changed" | "gone"> {
    const [view] = this.#entry.views;
    const live = await this.#requests.readLive(view, this.#observed.primary);
    if (live === undefined || live.metadata.uid !== this.#observed.primary.uid || live.metadata.deletionTimestamp !== undefined)
      return "gone";
    if (live.metadata.resourceVersion === this.#row.rv) return "same";
    const cached = this.#project(view, live);
    if (sentText(seenOf(cached)) === sentText(seenOf(cachedOf(this.#row)))) {
      this.#version = live.metadata.resourceVersion;
      return "same";
    }
    await this.#save(view, { object: live }, []);
    return "changed";
  }

  async #send(write: OwnWrite, finalResult: Succeeded | undefined): Promise<Sent> {
    if (!this.#run.mayWrite()) throw new LeaseEndsError();
    const { name } = this.#entry.definition;
    let answer = await this.#requests.attempt(write, this.#version, false);
    let next = afterAnswer(write, answer, name);
    if (next.kind === "force") {
      answer = await this.#requests.attempt(write, this.#version, true);
      next = afterAnswer(write, answer, name);
      if (next.kind === "force") next = { kind: "decideAgain" };
    }
    if (next.kind === "look" && write.kind === "create") {
      const found = await this.#requests.readLive(this.#requests.viewOf(write.id), write.id);
      next = afterTaken(write, found as ObjectBody | undefined);
      // Created by an earlier run, whose answer was lost: what it sent then is unknown, so it has no record and is applied next.
      if (next.kind === "record") {
        await this.#save(this.#requests.viewOf(write.id), { object: found }, []);
        return { kind: "next" };
      }
    }
    switch (next.kind) {
      case "record":
        await this.#keep(write, next.object as unknown as KubeObject, finalResult);
        return { kind: "next" };
      case "done":
        if (write.kind === "prune" && "deleted" in answer) await this.#keepPruned(write, answer.deleted);
        return { kind: "next" };
      case "backOff":
        await this.#hold(write, next.event, next.message);
        return { kind: "held" };
      case "look":
      case "force":
      case "decideAgain":
        await this.#refresh(write);
        return { kind: "again", why: `${describe(write)} was refused: the object has changed` };
    }
  }

  /** OW2. */
  async #keep(write: OwnWrite, object: KubeObject, finalResult: Succeeded | undefined): Promise<void> {
    if (write.kind === "prune" || write.kind === "remove") return;
    const view = "id" in write ? this.#requests.viewOf(write.id) : this.#entry.views[0];
    const id = recordId(write);
    const cached = this.#project(view, object);
    const own = ownFields(cached);
    const { uid, resourceVersion } = object.metadata;
    const readVersion = "readVersion" in write ? (this.#requests.turnedVersion(id) ?? write.readVersion) : this.#version;
    const record = recordOf(
      {
        sent: this.#ports.digester.content(sentText(write.body)),
        generation: this.#observed.primary.generation,
        isRevert: "isRevert" in write && write.isRevert,
        ...(write.kind !== "create" && { readVersion }),
      },
      { uid, resourceVersion, content: (write.kind === "status" ? own.status : own.content) ?? "" },
      this.#records.get(id),
      this.#ports.clock.now(),
    );
    if (!("id" in write)) this.#version = resourceVersion;
    const ended = this.#records.has(heldId(id)) ? [{ id: heldId(id) }] : [];
    await this.#save(view, { object: cached }, [{ id, record }, ...ended], finalResult);
  }

  /** OW2. An object with finalizers still exists after its delete. */
  async #keepPruned({ id, uid }: Extract<OwnWrite, { readonly kind: "prune" }>, deleted: KubeObject | undefined): Promise<void> {
    const isEnding = deleted?.metadata.deletionTimestamp !== undefined;
    const change = isEnding ? { object: deleted } : { gone: [{ key: keyOfId(id), uid }] };
    await this.#save(this.#requests.viewOf(id), change, [{ id: idText(id) }]);
  }

  /** OW4. */
  async #hold(write: OwnWrite, reason: "NameTaken" | "Contested", message: string): Promise<void> {
    const id = heldId(recordId(write));
    this.emit([{ type: "Warning", reason, message }]);
    const record = holdRecord(this.#records.get(id), this.#observed.primary.uid, reason, this.#ports.clock.now());
    await this.#save(this.#entry.views[0], {}, [{ id, record }]);
  }

  /** Reads the object of a rejected write, so that the next decision sees it. */
  async #refresh(write: OwnWrite): Promise<void> {
    const [view, id] =
      "id" in write ? ([this.#requests.viewOf(write.id), write.id] as const) : ([this.#entry.views[0], this.#observed.primary] as const);
    const live = await this.#requests.readLive(view, id);
    const row = "id" in write ? this.#observed.rows.get(idText(write.id)) : undefined;
    if (live !== undefined) return await this.#save(view, { object: live }, []);
    if (row !== undefined) await this.#save(view, { gone: [{ key: row.key, uid: row.uid }] }, []);
  }

  #project({ name }: OwnViewOf, object: KubeObject): CachedObject {
    return cachedAs(this.#ports.registry, name, object, this.#ports.digester) as CachedObject; // a view of this module
  }

  /** @param object whole, or as `#project` returns it, which is projected only once */
  async #save(
    view: OwnViewOf,
    {
      object,
      gone,
    }: {
      readonly object?: KubeObject | CachedObject | undefined;
      readonly gone?: readonly { readonly key: ObjectKey; readonly uid: string }[];
    },
    records: readonly RecordChange[],
    finalResult?: Succeeded,
  ): Promise<void> {
    const ends = finalResult ? { ends: () => outcomeOf(finalResult, this.#run.snapshot) } : {};
    const { namespace = "", name = "" } = object?.metadata ?? {};
    const known = object && this.#knownRows(view, objectKey(namespace, name));
    if (view.role === "primary" && object) this.#hasWrittenPrimary = true;
    const { done } = await writeThrough(this.#ports, this.#run, {
      resource: view.name,
      objects: object === undefined ? [] : [object],
      ownerUid: this.#observed.primary.uid,
      ...(known && { known }),
      ...(gone && { gone }),
      ...(records.length > 0 && { records }),
      ...ends,
    });
    this.done ??= done;
    for (const { id, record } of records) {
      if (record === undefined) this.#records.delete(id);
      else this.#records.set(id, record);
    }
  }

  /** The row of a key as the snapshot has it, so that the Store need not read it first. */
  #knownRows(view: OwnViewOf, key: ObjectKey): KnownRows | undefined {
    if (view.role !== "primary") return new Map([[key, this.#observed.rows.get(idText(idOf(view.kind, key)))]]);
    return this.#hasWrittenPrimary ? undefined : new Map([[key, this.#row]]);
  }
}
