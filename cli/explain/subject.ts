/** An object of a capture, as people name it. */
import { CACHED_RESOURCES, RESOURCES } from "@deltaloop/kube/objects";
import type { CachedResource } from "@deltaloop/kube/objects";
import type { FamilyCensus, Wanted, Subject } from "@deltaloop/replay/explain";
import { UsageError } from "@deltaloop/base";

const SHORT: { readonly [R in CachedResource]: readonly string[] } = {
  deployments: ["deploy"],
  replicasets: ["rs"],
  replicationcontrollers: ["rc"],
  pods: ["po"],
};
const SHOWN_MAX = 10;

/** `deploy/web` or `shop/deploy/web`; kinds as kubectl takes them. @throws {UsageError} */
export function wantedBy(text: string): Wanted {
  const parts = text.split("/");
  const [kind = "", name = ""] = parts.slice(-2);
  const [namespace] = parts;
  const resource = CACHED_RESOURCES.find((each) =>
    [each, each.slice(0, -1), RESOURCES[each].kind.toLowerCase(), ...SHORT[each]].includes(kind.toLowerCase()),
  );
  if (resource === undefined || parts.length < 2 || parts.length > 3 || name === "")
    throw new UsageError(`${text}: name it as deploy/web, rs/web-7f8fb, rc/web, pod/web-x2x4z or shop/deploy/web`);
  return { resource, name, ...(parts.length === 3 && namespace !== undefined && { namespace }) };
}

/** @throws {UsageError} when there is none of that name in the capture, or one in several namespaces: it says which there are */
export function subjectIn(text: string, census: FamilyCensus): Subject {
  const wanted = wantedBy(text);
  const { resource, name } = wanted;
  const [only, ...others] = census.namespaces(wanted);
  if (only === undefined) throw new UsageError(`${text} is not in the capture; ${namesOf(resource, census.names(resource))}`);
  const kind = text.split("/").at(-2) ?? "";
  if (others.length > 0) throw new UsageError(`${text} is in ${[only, ...others].join(" and in ")}: name it as ${only}/${kind}/${name}`);
  return { resource, namespace: only, name };
}

function namesOf(resource: CachedResource, seen: ReadonlySet<string>): string {
  const names = [...seen].toSorted();
  const kind = RESOURCES[resource].kind;
  if (names.length === 0) return `there is no ${kind} at all`;
  const more = names.length - SHOWN_MAX;
  return `of ${kind}s there ${names.length === 1 ? "is" : "are"} ${names.slice(0, SHOWN_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
