/**
 * Records the writes of user controllers where they reach the API server, and checks each.
 *
 * WR1 no write changes an object that the primary of its run does not own.
 * WR2 no object is created, pruned or removed before the primary was read live in the same run.
 * WR3 no apply creates an object.
 * WR4 an apply carries the uid, and every other change the uid and resourceVersion, of what the decision read.
 * WR5 every answer is written through before the run ends, unless its process dies.
 */
import type { KeySync, WriteGateway } from "@deltaloop/controllers/kit";
import type { OwnReport } from "@deltaloop/controllers/own";
import { resourceOfKind } from "@deltaloop/controllers/own";
import type { Clock, JsonObject } from "@deltaloop/base";
import { controllerRef } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import type { Definition, KindData } from "@deltaloop/sdk/definitions";
import { resourceId } from "./kinds.ts";

/** One write of a controller. */
export interface WorldWrite {
  readonly controller: string;
  /** The primary: `<namespace>/<name>`, or `/<name>` if it is cluster-scoped. */
  readonly key: string;
  /** `create Deployment shop/a`, `apply …`, `prune …`, `self`, `status`, `remove`, or `release` of the fields that `self` set. */
  readonly what: string;
  /** Absent if the run ended before it reported: its process died. */
  readonly why?: string;
  readonly at: Date;
}

export interface Recorder {
  keySync(definition: Definition, keySync: KeySync): KeySync;
  /** Adds the reasons to the writes of the run that has ended. */
  report(report: OwnReport): void;
  writes(): readonly WorldWrite[];
  /** How often each object was created: `<controller> <kind> <namespace>/<name>`. */
  created(): ReadonlyMap<string, number>;
  /** Writes that broke a rule. */
  wrong(): readonly string[];
}

type RunGateway = ReturnType<WriteGateway["forRun"]>;
type Run = Parameters<KeySync["run"]>[1];
interface RunState {
  hasRead: boolean;
  /** Writes since the last write-through. */
  unsaved: string[];
}
type Peek = (resource: string, namespace: string, name: string) => JsonObject | undefined;
interface Target {
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
}

interface Identity {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

const NO_IDENTITY = "without uid and resourceVersion";
const APPLY = "application/apply-patch+yaml";

export function createRecorder(clock: Clock, peek: Peek): Recorder {
  let writes: WorldWrite[] = [];
  const created = new Map<string, number>();
  const wrong: string[] = [];

  const ofRun = (definition: Definition, run: Run, real: RunGateway, state: RunState): RunGateway => {
    const { name: controller, primary, owns } = definition;
    const note = (what: string): void => {
      writes.push({ controller, key: run.key, what, at: new Date(clock.now()) });
      if (what !== "remove") state.unsaved.push(what);
    };
    const break_ = (what: string, why: string): void => void wrong.push(`${controller} ${run.key}: ${what}, ${why}`);
    const ownedKind = (resource: string): KindData | undefined => owns.find(({ kind }) => resourceOfKind(kind) === resource)?.kind;
    const [namespace, name] = [run.key.slice(0, run.key.indexOf("/")), run.key.slice(run.key.indexOf("/") + 1)];
    const isPrimary = (to: Target): boolean =>
      to.resource === resourceOfKind(primary) && to.name === name && (to.namespace === namespace || primary.scope === "Cluster");
    const before = (kind: KindData, to: Target, what: string): boolean => {
      const found = peek(resourceId(kind), to.namespace, to.name);
      if (found === undefined) return false;
      const reference = controllerRef((found as unknown as KubeObject).metadata); // a stored object
      const isOwned = reference?.kind === primary.kind && reference.name === name && reference.uid === run.snapshot.primary?.uid;
      if (!isOwned) break_(what, "which the primary does not own");
      return true;
    };
    const guarded = (what: string): void => {
      if (!state.hasRead) break_(what, "before the primary was read live");
    };
    return {
      async create(request) {
        const kind = ownedKind(request.resource);
        if (kind === undefined) return await real.create(request); // an Event
        const { metadata } = request.body as { readonly metadata: { readonly name: string } }; // the contract requires the name
        const what = `create ${nameOf(kind, request.namespace, metadata.name)}`;
        guarded(what);
        const answer = await real.create(request);
        note(what);
        const id = `${controller} ${nameOf(kind, request.namespace, metadata.name)}`;
        created.set(id, (created.get(id) ?? 0) + 1);
        return answer;
      },
      async patch(request, row) {
        const kind = ownedKind(request.resource);
        const isApply = request.type === APPLY;
        const { metadata = {} } = isApply ? (request.body as { readonly metadata?: Identity }) : {}; // an apply has metadata
        if (isPrimary(request)) {
          const sent = request.subresource === "status" ? "status" : "self";
          if (isApply && (metadata.uid === undefined || metadata.resourceVersion === undefined)) break_(sent, NO_IDENTITY);
          const answer = await real.patch(request, row);
          note(request.subresource === "status" ? "status" : isApply ? "self" : "release");
          return answer;
        }
        if (kind === undefined) return await real.patch(request, row); // the count of an Event
        const what = `apply ${nameOf(kind, request.namespace, request.name)}`;
        const isThere = before(kind, request, what);
        if (isApply && metadata.uid === undefined) break_(what, "without its uid");
        const answer = await real.patch(request, row);
        if (!isThere) break_(what, "which was deleted");
        if (isApply) note(what);
        return answer;
      },
      async delete(request, row) {
        const kind = ownedKind(request.resource);
        const what = isPrimary(request) ? "remove" : kind ? `prune ${nameOf(kind, request.namespace, request.name)}` : "delete";
        guarded(what);
        const { uid, resourceVersion } = request.preconditions as Identity; // a controller under test may omit it
        if (uid === undefined || resourceVersion === undefined) break_(what, NO_IDENTITY);
        if (kind !== undefined && !isPrimary(request)) before(kind, request, what);
        const answer = await real.delete(request, row);
        note(what);
        return answer;
      },
    };
  };

  return {
    keySync(definition, keySync) {
      const recorded: KeySync["run"] = async (ports, run) => {
        const state: RunState = { hasRead: false, unsaved: [] };
        const { primary, name: controller } = definition;
        const reader = {
          ...ports.reader,
          get: (...args: Parameters<typeof ports.reader.get>) => {
            const [resource, namespace, name] = args;
            if (resource === resourceOfKind(primary) && `${namespace}/${name}` === run.key) state.hasRead = true;
            return ports.reader.get(...args);
          },
        };
        const gateway: WriteGateway = {
          ...ports.gateway,
          forRun: (owner) => ofRun(definition, run, ports.gateway.forRun(owner), state),
        };
        const store: typeof ports.store = {
          ...ports.store,
          writeThrough: async (...args) => {
            const saved = await ports.store.writeThrough(...args);
            state.unsaved = [];
            return saved;
          },
        };
        const end = await keySync.run({ ...ports, reader, gateway, store }, run);
        for (const what of state.unsaved) wrong.push(`${controller} ${run.key}: ${what}, whose response was not written through`);
        return end;
      };
      return { ...keySync, run: recorded };
    },
    report({ controller, key, writes: reported }) {
      const reasons = new Map(reported.map(({ what, why }) => [what, why]));
      writes = writes.map((write) => {
        const why = write.controller === controller && write.key === key && write.why === undefined ? reasons.get(write.what) : undefined;
        return why === undefined ? write : { ...write, why };
      });
    },
    writes: () => writes,
    created: () => created,
    wrong: () => wrong,
  };
}

/** `Deployment shop/a`. */
function nameOf({ kind }: KindData, namespace: string, name: string): string {
  return `${kind} ${namespace === "" ? "" : `${namespace}/`}${name}`;
}
