/** The state of a world in a form that two runs can be compared in: without uids, versions, times and random names. */
import { isObject } from "@deltaloop/base";
import type { JsonObject } from "@deltaloop/base";
import type { KindData } from "@deltaloop/sdk/definitions";
import { differenceOf } from "../decide/twice.ts";
import { resourceId } from "./kinds.ts";
import type { Objects } from "./objects.ts";

/** Objects by `<kind> <namespace>/<name>`. */
export type EndState = ReadonlyMap<string, unknown>;

/** Kinds that the cluster changes by itself. */
const BACKGROUND = new Set(["nodes"]);
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z$/;

interface Meta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly generation?: number;
  readonly generateName?: string;
  readonly labels?: unknown;
  readonly annotations?: unknown;
  readonly finalizers?: unknown;
  readonly deletionTimestamp?: unknown;
  readonly ownerReferences?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly uid: string;
    readonly controller?: boolean;
  }[];
  readonly managedFields?: readonly { readonly manager?: string; readonly subresource?: string }[];
}

export async function endState(kinds: readonly KindData[], objects: Objects): Promise<EndState> {
  const all: (readonly [KindData, JsonObject])[] = [];
  for (const kind of kinds) if (!BACKGROUND.has(resourceId(kind))) for (const object of await objects.list(kind)) all.push([kind, object]);
  const uids = new Set(all.map(([, object]) => metaOf(object).uid));
  const state = new Map<string, unknown>();
  const rows = all.map(([kind, object]) => [nameOf(kind, metaOf(object)), comparable(kind, object, uids)] as const);
  for (const [name, object] of rows.toSorted(([a, x], [b, y]) => order(`${a} ${JSON.stringify(x)}`, `${b} ${JSON.stringify(y)}`))) {
    let nth = 1;
    while (state.has(nth === 1 ? name : `${name} (${nth})`)) nth++;
    state.set(nth === 1 ? name : `${name} (${nth})`, object);
  }
  return state;
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** The first difference: `Service shop/a is missing`. */
export function differenceBetween(expected: EndState, found: EndState): string | undefined {
  for (const name of new Set([...expected.keys(), ...found.keys()])) {
    if (!found.has(name)) return `${name} is missing`;
    if (!expected.has(name)) return `${name} exists, which it does not without the crash`;
    const different = differenceOf(expected.get(name), found.get(name));
    if (different !== undefined) return `${name}: ${different.replace(", then ", " without the crash, and here ")}`;
  }
  return undefined;
}

function metaOf(object: JsonObject): Meta {
  return object["metadata"] as unknown as Meta; // a stored object
}

/** Names of pods are random. */
function nameOf({ kind }: KindData, { name, namespace, generateName, ownerReferences = [] }: Meta): string {
  const owner = kind === "Pod" ? ownerReferences.find(({ controller }) => controller)?.name : undefined;
  const shown = generateName !== undefined ? `${generateName}*` : owner !== undefined ? `${owner}-*` : name;
  return `${kind} ${namespace === undefined ? "" : `${namespace}/`}${shown}`;
}

function comparable({ kind }: KindData, object: JsonObject, uids: ReadonlySet<string>): unknown {
  const { generation = 0, labels, annotations, finalizers, deletionTimestamp, ownerReferences, managedFields = [] } = metaOf(object);
  const { metadata: _, apiVersion: __, status, ...fields } = object;
  const isPod = kind === "Pod" && ownerReferences !== undefined; // started by a built-in controller, on any node
  return {
    metadata: {
      ...{ labels, annotations, finalizers, isDeleting: deletionTimestamp !== undefined },
      owners: ownerReferences?.map((owner) => `${owner.kind} ${owner.name}${uids.has(owner.uid) ? "" : ", which was deleted"}`),
      managers: [...new Set(managedFields.map(({ manager = "", subresource = "" }) => `${manager} ${subresource}`.trim()))].sort(),
    },
    ...(isPod
      ? { phase: isObject(status) ? status["phase"] : undefined }
      : { ...(withoutTimes(fields, generation) as object), status: withoutTimes(status, generation) }),
  };
}

/** Conditions are in the order in which they were added. */
function sorted(list: readonly unknown[]): readonly unknown[] {
  const typeOf = (each: unknown): string | undefined => (isObject(each) && typeof each["type"] === "string" ? each["type"] : undefined);
  return list.every((each) => typeOf(each) !== undefined) ? list.toSorted((a, b) => order(typeOf(a) ?? "", typeOf(b) ?? "")) : list;
}

/** observedGeneration becomes the number of changes that are not observed yet. */
function withoutTimes(value: unknown, generation: number): unknown {
  if (Array.isArray(value)) return sorted(value.map((each: unknown) => withoutTimes(each, generation)));
  if (typeof value === "string" && TIME.test(value)) return "a time";
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, field]) => [
      name,
      name === "observedGeneration" && typeof field === "number" ? generation - field : withoutTimes(field, generation),
    ]),
  );
}
