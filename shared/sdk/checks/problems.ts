/** Mistakes of definitions that types do not catch. Each is one line, names the controller or kind, and says what to do. */
import type { Definition, OwnedData, WatchedData } from "../definition/controller.ts";
import { isMetadataOnly } from "../definition/kind.ts";
import type { KindData } from "../definition/kind.ts";
import type { Mask } from "../definition/see.ts";
import { crdProblems } from "./crd-problems.ts";
import { nodeAt, pathsOf } from "./paths.ts";

const NAME_LENGTH_MAX = 32;
const CONCURRENCY_MAX = 100;
const DNS_LABEL = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/;
/** Source: apimachinery pkg/util/validation/validation.go IsQualifiedName. */
const QUALIFIED_NAME = /^(?:[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;
const DURATION = /^\d+(?:\.\d+)?(?:ms|s|m|h|d)$/;

/** The problems of all definitions that run in one process. `taken`: names of other controllers. */
export function problemsOf(definitions: readonly Definition[], taken: readonly string[] = []): readonly string[] {
  const kinds = new Map(definitions.flatMap(kindsOf).map((kind) => [JSON.stringify(kind), kind]));
  return [
    ...definitions.flatMap((definition, i) => {
      const others = [...taken, ...definitions.slice(0, i).map(({ name }) => name)];
      return [...nameProblems(definition, others), ...definitionProblems(definition)];
    }),
    ...[...kinds.values()].flatMap(crdProblems),
    ...[...Map.groupBy(kinds.values(), ({ group, kind }) => `${kind}.${group}`)].flatMap(([kind, same]) =>
      same.length > 1 ? [`${kind}: is declared in ${same.length} ways: declare it once, and import it`] : [],
    ),
  ];
}

/** The kinds that a definition names. */
export function kindsOf({ primary, owns, watches, reads }: Definition): readonly KindData[] {
  return [primary, ...[...owns, ...watches, ...reads].map(({ kind }) => kind)];
}

function nameProblems({ name }: Definition, others: readonly string[]): readonly string[] {
  if (!DNS_LABEL.test(name) || name.length > NAME_LENGTH_MAX)
    return [`"${name}": \`name\` must be a DNS label of at most ${NAME_LENGTH_MAX} characters: use a-z, 0-9 and - as in "team-guard"`];
  return others.includes(name) ? [`"${name}": the name is taken by another controller: choose another one`] : [];
}

function definitionProblems(definition: Definition): readonly string[] {
  const { primary, owns, watches, reads, concurrency, resync, annotations } = definition;
  const problems = [
    ...whereProblems(definition),
    ...maskProblems("see", primary, definition.see),
    ...annotations.flatMap((key) => keyProblem("annotations", key)),
    ...owns.flatMap((owned) => ownedProblems(primary, owned)),
    ...twice(owns).map((kind) => `\`owns\` has ${kind} twice: keep one`),
    ...watches.flatMap((watched) => watchProblems(primary, watched)),
    ...[...watches, ...reads].flatMap(({ kind, place }) =>
      place && kind.scope === "Cluster"
        ? [`\`only\` of ${kind.kind} has a namespace, but the kind is cluster-scoped: name it without \`only\``]
        : [],
    ),
  ];
  if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > CONCURRENCY_MAX)
    problems.push(`\`concurrency\` must be a whole number from 1 to ${CONCURRENCY_MAX}, not ${concurrency}`);
  if (resync !== undefined && !(DURATION.test(resync) && Number.parseFloat(resync) > 0))
    problems.push(`\`resync\` must be a duration such as "10m", not "${resync}"`);
  return problems.map((problem) => `${definition.name}: ${problem}`);
}

function whereProblems({ primary, where }: Definition): readonly string[] {
  const { labels = {}, annotations = {}, namespaces = [], fields = {} } = where;
  return [
    ...Object.keys(labels).flatMap((key) => keyProblem("where.labels", key)),
    ...Object.keys(annotations).flatMap((key) => keyProblem("where.annotations", key)),
    ...Object.keys(fields).flatMap((path) => pathProblem("where.fields", primary, path.split("."))),
    ...namespaces.flatMap((name) =>
      DNS_LABEL.test(name) ? [] : [`\`where.namespaces\` has "${name}", which is not a valid namespace name`],
    ),
    ...(namespaces.length > 0 && primary.scope === "Cluster"
      ? [`\`where.namespaces\` is set, but ${primary.kind} is cluster-scoped: select by labels`]
      : []),
  ];
}

function ownedProblems(primary: KindData, { kind, see }: OwnedData): readonly string[] {
  const problems = maskProblems(`owns of ${kind.kind}`, kind, see);
  if (primary.scope === "Cluster" || kind.scope === "Namespaced") return problems;
  return [
    ...problems,
    `a namespaced ${primary.kind} cannot own the cluster-scoped ${kind.kind}: make the primary cluster-scoped, or read it by \`watches\``,
  ];
}

function watchProblems(primary: KindData, { kind, by, see, place }: WatchedData): readonly string[] {
  const what = `watches of ${kind.kind}`;
  const problems = [...maskProblems(what, kind, see)];
  if ("label" in by) problems.push(...keyProblem(`${what}: label`, by.label));
  if ("annotation" in by) problems.push(...keyProblem(`${what}: annotation`, by.annotation));
  if ("name" in by && primary.scope !== kind.scope)
    problems.push(`\`${what}\`: { name: "same" } needs two kinds of one scope: use { label }, { annotation } or { all }`);
  if ("namespace" in by && (kind.kind !== "Namespace" || kind.group !== "" || primary.scope === "Cluster"))
    problems.push(`\`${what}\`: { namespace: "own" } maps a Namespace to the namespaced primaries in it: use another mapping`);
  if ("all" in by && by.all === "namespace" && (kind.scope === "Cluster" || primary.scope === "Cluster"))
    problems.push(`\`${what}\`: { all: "namespace" } needs two namespaced kinds: use { all: "cluster" }`);
  const maps = ["label", "annotation", "name", "namespace", "all"].some((name) => name in by);
  if (!maps) problems.push(`\`${what}\`: \`by\` must be { label }, { annotation }, { name: "same" }, { namespace: "own" } or { all }`);
  if (place?.name !== undefined && !("all" in by))
    problems.push(`\`${what}\` names one object: map it to every primary by { all: "namespace" } or { all: "cluster" }`);
  return problems;
}

function maskProblems(what: string, kind: KindData, see: Mask): readonly string[] {
  if (isMetadataOnly(kind) && (typeof see !== "object" || Object.keys(see).length > 0))
    return [`\`${what}\` shows only the metadata of a ${kind.kind}: read its data by \`live\``];
  return pathsOf(see).flatMap((path) => (path.length === 0 ? [] : pathProblem(what, kind, path)));
}

function pathProblem(what: string, kind: KindData, path: readonly string[]): readonly string[] {
  const shown = path.join(".");
  const node = nodeAt(kind, path);
  if (node === "absent")
    return [`\`${what}\` has the path ${shown}, which the schema of ${kind.kind} lacks: correct it, or add it to the schema`];
  if (node !== "unknown" && node.hidden) return [`\`${what}\` has the path ${shown}, which is never visible: read it by \`live\``];
  return [];
}

function keyProblem(what: string, key: string): readonly string[] {
  return QUALIFIED_NAME.test(key) ? [] : [`\`${what}\` has "${key}", which is not a valid key: use one as in "example.com/team"`];
}

function twice(owns: readonly OwnedData[]): readonly string[] {
  return [...Map.groupBy(owns, ({ kind: { group, kind } }) => `${kind}.${group}`)].flatMap(([, [first, second]]) =>
    first && second ? [first.kind.kind] : [],
  );
}
