/** The snapshot of one sync, from complete objects: it has only the fields that the controller's views show. */
import { ownControllers, seenThrough } from "@deltaloop/controllers/own";
import type { OwnViewOf } from "@deltaloop/controllers/own";
import { createDigester } from "@deltaloop/kube/pod-template";
import type { Snapshot, VisibleObject } from "@deltaloop/sdk/context";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import type { Definition, KindData, KindId } from "@deltaloop/sdk/definitions";
import { withDefaults } from "./defaults.ts";
import type { GivenObject } from "./given.ts";

const DIGESTER = createDigester("the digest key of the test kit");
const NAMESPACE = "default";

/** A given object with all its metadata. */
export type Whole = VisibleObject & { readonly metadata: { readonly namespace?: string; readonly uid?: string } };

export interface Objects {
  readonly object: GivenObject;
  readonly owned: readonly GivenObject[];
  readonly watched: readonly GivenObject[];
  readonly live: readonly GivenObject[];
  readonly now: Date;
}

/** @throws {Error} if an object cannot be in a snapshot of this controller */
export function snapshotOf(definition: Definition, given: Objects): { readonly snapshot: Snapshot; readonly whole: readonly Whole[] } {
  const { primary, name } = definition;
  const [entry] = ownControllers([definition]);
  const views = entry?.views ?? [];
  const object = wholeOf(primary, withDefaults(primary, given.object), given.now, NAMESPACE);
  const { namespace = NAMESPACE, name: own, uid } = object.metadata;
  const reference = { apiVersion: apiVersionOf(primary), kind: primary.kind, name: own, uid, controller: true };
  const [view] = views;
  const shown = view && seenThrough(view, object, DIGESTER);
  if (shown === undefined) throw new Error(`${name} does not sync ${primary.kind} ${own}: it does not match \`where\``);
  const seen = (role: "owned" | "watched", objects: readonly GivenObject[]): readonly (readonly [Whole, VisibleObject])[] =>
    objects.map((each) => {
      const of = views.find((one) => one.role === role && isOf(one.kind, each));
      const list = role === "owned" ? "owns" : "watches";
      if (of === undefined)
        throw new Error(`${name}: \`${role}\` has ${each.kind ?? "an object without kind"}, which is not in \`${list}\``);
      const metadata = { ...(role === "owned" && { ownerReferences: [reference] }), ...each.metadata };
      const complete = wholeOf(of.kind, { ...each, metadata }, given.now, namespace);
      return [complete, seenIn(of, complete, name)];
    });
  const [owned, watched] = [seen("owned", given.owned), seen("watched", given.watched)];
  const live = given.live.map((each) => {
    const read = definition.reads.find(({ kind }) => isOf(kind, each))?.kind ?? (isOf(primary, each) ? primary : undefined);
    if (read === undefined) throw new Error(`${name}: \`live\` has ${each.kind ?? "an object without kind"}, which is not in \`reads\``);
    return wholeOf(read, each, given.now, namespace);
  });
  return {
    snapshot: { object: shown, owned: owned.map(([, one]) => one), watched: watched.map(([, one]) => one) },
    whole: [...live, object, ...[...owned, ...watched].map(([one]) => one)],
  };
}

function seenIn(view: OwnViewOf, object: Whole, controller: string): VisibleObject {
  const shown = seenThrough(view, object, DIGESTER);
  if (shown !== undefined) return shown;
  const why = view.role === "owned" ? "its controller reference names another kind" : "`only` names another place";
  throw new Error(`${controller} does not see ${view.kind.kind} ${object.metadata.name}: ${why}`);
}

export function isOf(kind: KindId, object: { readonly apiVersion?: string; readonly kind?: string }): boolean {
  return object.kind === kind.kind && object.apiVersion === apiVersionOf(kind);
}

function wholeOf(kind: KindData, { metadata, ...fields }: GivenObject, now: Date, namespace: string): Whole {
  return {
    ...fields,
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      ...(kind.scope === "Namespaced" && { namespace }),
      uid: `uid-of-${kind.kind.toLowerCase()}-${metadata.name}`,
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: now.toISOString().replace(".000Z", "Z"),
      ...metadata,
    } as Whole["metadata"], // a given reference is one as the API server has it
  };
}
