/**
 * Records the writes of user controllers where they reach the API server, and checks each.
 *
 * WR1 no write changes an object that the primary of its run does not own.
 * WR2 no object is created, pruned or removed before the primary was read live in the same run.
 * WR3 no apply creates an object.
 */
import type { KeySync, OwnSync, WriteGateway } from "@deltaloop/controllers/kit";
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
type Run = Parameters<OwnSync["own"]>[1];
type Peek = (resource: string, namespace: string, name: string) => JsonObject | undefined;
interface Target {
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
}

const APPLY = "application/apply-patch+yaml";

export function createRecorder(clock: Clock, peek: Peek): Recorder {
  let writes: WorldWrite[] = [];
  const created = new Map<string, number>();
  const wrong: string[] = [];

  const ofRun = (definition: Definition, run: Run, real: RunGateway, hasRead: () => boolean): RunGateway => {
    const { name: controller, primary, owns } = definition;
    const note = (what: string): void => void writes.push({ controller, key: run.key, what, at: new Date(clock.now()) });
    const break_ = (what: string, why: string): void => void wrong.push(`${controller} ${run.key}: ${what}, ${why}`);
    const ownedKind = (resource: string): KindData | undefined => owns.find(({ kind }) => resourceOfKind(kind) === resource)?.kind;
    const [namespace = "", name = ""] = [run.key.slice(0, run.key.indexOf("/")), run.key.slice(run.key.indexOf("/") + 1)];
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
      if (!hasRead()) break_(what, "before the primary was read live");
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
        if (isPrimary(request)) {
          const answer = await real.patch(request, row);
          note(request.subresource === "status" ? "status" : isApply ? "self" : "release");
          return answer;
        }
        if (kind === undefined) return await real.patch(request, row); // the count of an Event
        const what = `apply ${nameOf(kind, request.namespace, request.name)}`;
        const isThere = before(kind, request, what);
        const answer = await real.patch(request, row);
        if (!isThere) break_(what, "which had been deleted");
        if (isApply) note(what);
        return answer;
      },
      async delete(request, row) {
        const kind = ownedKind(request.resource);
        const what = isPrimary(request) ? "remove" : kind ? `prune ${nameOf(kind, request.namespace, request.name)}` : "delete";
        guarded(what);
        if (kind !== undefined && !isPrimary(request)) before(kind, request, what);
        const answer = await real.delete(request, row);
        note(what);
        return answer;
      },
    };
  };

  return {
    keySync(definition, { sync, ...limits }) {
      if (!("own" in sync)) return { sync, ...limits };
      const own: OwnSync["own"] = (ports, run) => {
        let hasRead = false;
        const { primary } = definition;
        const reader = {
          ...ports.reader,
          get: (...args: Parameters<typeof ports.reader.get>) => {
            const [resource, namespace, name] = args;
            if (resource === resourceOfKind(primary) && `${namespace}/${name}` === run.key) hasRead = true;
            return ports.reader.get(...args);
          },
        };
        const gateway: WriteGateway = {
          ...ports.gateway,
          forRun: (owner) => ofRun(definition, run, ports.gateway.forRun(owner), () => hasRead),
        };
        return sync.own({ ...ports, reader, gateway }, run);
      };
      return { sync: { own }, ...limits };
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
