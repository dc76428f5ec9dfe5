/** An object of a capture, in kubectl's spelling. */
import { CACHED_RESOURCES, RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { FamilyCensus, Wanted, Subject } from "@deltaloop/replay/explain";
import { UsageError } from "@deltaloop/base";

const SHORT: { readonly [R in CachedResource]: string } = {
  deployments: "deploy",
  replicasets: "rs",
  replicationcontrollers: "rc",
  pods: "po",
};
const SPELLED = "deploy/web, rs/web-7f8fb, rc/web or pod/web-x2x4z";
const SHOWN_MAX = 10;

/** Returns a name in kubectl's form: `deployment.apps/web`, `pod/web-x2x4z`. */
export function objectName(resource: CachedResource, name: string): string {
  const { kind, group } = RESOURCES[resource];
  return `${kind.toLowerCase()}${group === "" ? "" : `.${group}`}/${name}`;
}

/** Parses kubectl's forms (`deploy/web`, `deployment.apps/web`) and `shop/deploy/web`. @throws {UsageError} */
export function wantedBy(text: string, given?: string): Wanted {
  const parts = text.split("/");
  const [kind = "", name = ""] = parts.slice(-2);
  const namespace = parts.length === 3 ? parts[0] : given;
  const resource = CACHED_RESOURCES.find((each) => spellings(each).includes(kind.toLowerCase()));
  if (resource === undefined && parts.length === 2) throw new UsageError(`${text}: kind ${kind} is not supported: write ${SPELLED}`);
  if (resource === undefined || parts.length < 2 || parts.length > 3 || name === "")
    throw new UsageError(`${text} is not an object: write ${SPELLED}, with -n NAMESPACE if needed`);
  return { resource, name, ...(namespace !== undefined && { namespace }) };
}

export function isObjectName(text: string): boolean {
  const [kind = "", name = "", ...more] = text.split("/");
  return name !== "" && more.length === 0 && CACHED_RESOURCES.some((each) => spellings(each).includes(kind.toLowerCase()));
}

function spellings(resource: CachedResource): readonly string[] {
  const { group } = RESOURCES[resource];
  const names = [resource, resource.slice(0, -1)];
  return [...names, SHORT[resource], ...(group === "" ? [] : names.flatMap((name) => [`${name}.${group}`, `${name}.v1.${group}`]))];
}

/**
 * Finds an object in a capture.
 *
 * @throws {UsageError} if the capture has no object of that name, or several in different namespaces, which the message lists
 */
export function subjectIn(text: string, census: FamilyCensus, given?: string): Subject {
  const wanted = wantedBy(text, given);
  const { resource, name } = wanted;
  const [only, ...others] = census.namespaces(wanted);
  if (only === undefined) throw new UsageError(`${text} is not in the capture; ${namesOf(resource, census.names(resource))}`);
  if (others.length > 0) throw new UsageError(`${text} is in the namespaces ${[only, ...others].join(", ")}: add -n ${only}`);
  return { resource, namespace: only, name };
}

function namesOf(resource: CachedResource, seen: ReadonlySet<string>): string {
  const names = [...seen].toSorted();
  const { kind } = RESOURCES[resource];
  if (names.length === 0) return `it has no ${kind}`;
  const more = names.length - SHOWN_MAX;
  return `its ${kind}s are ${names.slice(0, SHOWN_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
