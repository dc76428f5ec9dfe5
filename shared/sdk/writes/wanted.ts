/** Validates and completes the result of a `sync`. Its author may use JavaScript, so its types prove nothing. */
import type { Definition } from "../definition/controller.ts";
import { apiVersionOf } from "../definition/kind.ts";
import type { KindData } from "../definition/kind.ts";

/** An object with metadata, of any kind. */
export interface ObjectBody {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid?: string;
    readonly ownerReferences?: readonly OwnerReference[];
    readonly [field: string]: unknown;
  };
  readonly [field: string]: unknown;
}

/** Source: apimachinery pkg/apis/meta/v1/types.go OwnerReference. */
export interface OwnerReference {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** Identifies an object that a controller owns. */
export interface ObjectId {
  readonly kind: KindData;
  /** "" for a cluster-scoped object. */
  readonly namespace: string;
  readonly name: string;
}

/** The object that a sync reconciles, as the decision read it. */
export interface Primary {
  readonly name: string;
  /** "" for a cluster-scoped primary. */
  readonly namespace: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation: number;
}

/** The desired state that a sync returns, completed from the primary: namespaces and owner references. */
export interface Wanted {
  /** Absent: owned objects stay as they are, and none is pruned. */
  readonly apply?: readonly { readonly id: ObjectId; readonly body: ObjectBody }[];
  readonly keep: readonly string[];
  readonly self?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly isRemoved: boolean;
}

/** Objects that one primary may own. */
const OWNED_MAX = 1_000;
const SELF_FORBIDDEN = ["status", "apiVersion", "kind"] as const;
const SELF_METADATA = ["labels", "annotations"];

/** Identifies an object among those of one primary. */
export function idText({ kind: { group, kind }, namespace, name }: ObjectId): string {
  return `${kind}.${group}/${namespace}/${name}`;
}

/** @returns the desired state, or the problems, one line each */
export function wantedBy(
  definition: Definition,
  primary: Primary,
  result: unknown,
): { readonly wanted: Wanted } | { readonly problems: readonly string[] } {
  if (result === undefined) return { wanted: { keep: [], isRemoved: false } };
  if (!isObject(result)) return { problems: [`sync returned ${typeof result}: return an object, or nothing`] };
  const { apply, keep = [], self, status, remove } = result;
  const problems: string[] = [];
  const isRemoved = remove === true;
  if (remove !== undefined && !isRemoved) problems.push("`remove` must be true: leave it out to keep the object");
  if (isRemoved && (apply !== undefined || self !== undefined || status !== undefined))
    problems.push("`remove` together with `apply`, `self` or `status`: return it alone");
  const bodies = apply === undefined ? undefined : listOf("apply", apply, problems);
  const applied = bodies?.flatMap((body) => appliedOf(definition, primary, body, problems));
  problems.push(...repeated((applied ?? []).map(({ id }) => idText(id))).map((id) => `\`apply\` has ${id} twice: keep one`));
  if ((applied?.length ?? 0) > OWNED_MAX)
    problems.push(`\`apply\` has ${applied?.length ?? 0} objects: one primary owns at most ${OWNED_MAX}`);
  const kept = listOf("keep", keep, problems).flatMap((each) => keptOf(definition, primary, each, problems));
  if (status !== undefined && !definition.primary.status)
    problems.push(`\`status\` of ${definition.primary.kind}, which has no status: leave it out`);
  problems.push(...selfProblems(self));
  if (status !== undefined && !isObject(status)) problems.push("`status` must be an object");
  if (problems.length > 0) return { problems };
  return {
    wanted: {
      ...(applied && { apply: applied }),
      keep: kept.map(idText),
      ...(isObject(self) && { self }),
      ...(isObject(status) && { status: withGeneration(definition, primary, status) }),
      isRemoved,
    },
  };
}

function listOf(field: string, value: unknown, problems: string[]): readonly unknown[] {
  if (Array.isArray(value)) return value;
  problems.push(`\`${field}\` must be a list`);
  return [];
}

function appliedOf(
  definition: Definition,
  primary: Primary,
  body: unknown,
  problems: string[],
): readonly { readonly id: ObjectId; readonly body: ObjectBody }[] {
  const { apiVersion, kind: kindName, metadata, ...fields } = isObject(body) ? body : {};
  const owned = definition.owns.find(({ kind }) => kind.kind === kindName && apiVersionOf(kind) === apiVersion);
  if (owned === undefined) {
    problems.push(`\`apply\` has an object of ${text(kindName)} (${text(apiVersion)}), which is not in \`owns\`: add the kind`);
    return [];
  }
  const id = placeOf("apply", owned.kind, primary, metadata, problems);
  if (id === undefined || !isObject(metadata)) return [];
  const reference: OwnerReference = {
    apiVersion: apiVersionOf(definition.primary),
    kind: definition.primary.kind,
    name: primary.name,
    uid: primary.uid,
    controller: true,
    blockOwnerDeletion: true,
  };
  const named = { ...metadata, name: id.name, ...(id.namespace !== "" && { namespace: id.namespace }), ownerReferences: [reference] };
  return [{ id, body: { apiVersion: apiVersionOf(owned.kind), kind: owned.kind.kind, metadata: named, ...fields } }];
}

function keptOf(definition: Definition, primary: Primary, kept: unknown, problems: string[]): readonly ObjectId[] {
  const { kind: kindName, ...place } = isObject(kept) ? kept : {};
  const owned = definition.owns.find(({ kind }) => kind.kind === kindName);
  if (owned === undefined) problems.push(`\`keep\` names ${text(kindName)}, which is not in \`owns\``);
  const id = owned && placeOf("keep", owned.kind, primary, place, problems);
  return id ? [id] : [];
}

/** A namespaced primary writes in its own namespace; under a cluster-scoped one each body names its namespace. */
function placeOf(field: string, kind: KindData, primary: Primary, metadata: unknown, problems: string[]): ObjectId | undefined {
  const { name, namespace } = isObject(metadata) ? metadata : {};
  if (typeof name !== "string" || name === "") {
    problems.push(`\`${field}\` has a ${kind.kind} without metadata.name`);
    return undefined;
  }
  const place = namespace ?? (kind.scope === "Cluster" ? "" : primary.namespace);
  if (kind.scope === "Cluster" && place === "") return { kind, namespace: "", name };
  if (kind.scope === "Namespaced" && typeof place === "string" && place !== "" && [place, ""].includes(primary.namespace))
    return { kind, namespace: place, name };
  problems.push(
    kind.scope === "Cluster"
      ? `\`${field}\` has ${kind.kind} ${name} with a namespace, but the kind is cluster-scoped`
      : primary.namespace === ""
        ? `\`${field}\` has ${kind.kind} ${name} without metadata.namespace, which is required under a cluster-scoped primary`
        : `\`${field}\` has ${kind.kind} ${name} in namespace ${text(place)}: a namespaced primary writes in its own only`,
  );
  return undefined;
}

function selfProblems(self: unknown): readonly string[] {
  if (self === undefined) return [];
  if (!isObject(self)) return ["`self` must be an object"];
  const metadata = isObject(self["metadata"]) ? Object.keys(self["metadata"]) : [];
  const forbidden = [
    ...SELF_FORBIDDEN.filter((field) => field in self),
    ...metadata.filter((field) => !SELF_METADATA.includes(field)).map((field) => `metadata.${field}`),
  ];
  return forbidden.map((field) => `\`self\` sets ${field}, which is not allowed: set only labels, annotations and spec`);
}

/** observedGeneration, where the schema has it and the sync does not set it. */
function withGeneration({ primary: { crd } }: Definition, { generation }: Primary, status: Readonly<Record<string, unknown>>) {
  const isKnown = crd?.status?.properties?.["observedGeneration"] !== undefined;
  return isKnown ? { observedGeneration: generation, ...status } : status;
}

function repeated(ids: readonly string[]): readonly string[] {
  return [...new Set(ids.filter((id, i) => ids.indexOf(id) !== i))];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "no name";
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
