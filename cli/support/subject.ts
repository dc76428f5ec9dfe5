/** An object of a capture, as people name it. */
import { CACHED_RESOURCES, RESOURCES } from "../../shared/api/resources.ts";
import type { CachedResource } from "../../shared/api/resources.ts";
import type { ObjectChange } from "../../shared/replay/explain/changes.ts";
import type { Subject } from "../../shared/replay/explain/story.ts";
import { UsageError } from "./usage-error.ts";

const SHORT: { readonly [R in CachedResource]: readonly string[] } = {
  deployments: ["deploy"],
  replicasets: ["rs"],
  replicationcontrollers: ["rc"],
  pods: ["po"],
};
const SHOWN_MAX = 10;

/**
 * `deploy/web` or `shop/deploy/web`; kinds as kubectl takes them.
 *
 * @throws {UsageError} when there is none of that name in the capture, or one in several namespaces: it says which there are
 */
export function subjectIn(text: string, changes: readonly ObjectChange[]): Subject {
  const parts = text.split("/");
  const [kind = "", name = ""] = parts.slice(-2);
  const namespace = parts.length === 3 ? parts[0] : undefined;
  const resource = CACHED_RESOURCES.find((each) =>
    [each, each.slice(0, -1), RESOURCES[each].kind.toLowerCase(), ...SHORT[each]].includes(kind.toLowerCase()),
  );
  if (resource === undefined || parts.length < 2 || parts.length > 3 || name === "")
    throw new UsageError(`${text}: name it as deploy/web, rs/web-7f8fb, rc/web, pod/web-x2x4z or shop/deploy/web`);
  const there = changes.filter((change) => change.resource === resource);
  const found = new Set(
    there
      .filter((change) => change.name === name && (namespace ?? change.namespace) === change.namespace)
      .map((change) => change.namespace),
  );
  const [only, other] = found;
  if (only === undefined) throw new UsageError(`${text} is not in the capture; ${namesOf(resource, there)}`);
  if (other !== undefined) throw new UsageError(`${text} is in ${[...found].join(" and in ")}: name it as ${only}/${kind}/${name}`);
  return { resource, namespace: only, name };
}

function namesOf(resource: CachedResource, changes: readonly ObjectChange[]): string {
  const names = [...new Set(changes.map(({ namespace, name }) => `${namespace}/${name}`))].toSorted();
  const kind = RESOURCES[resource].kind;
  if (names.length === 0) return `there is no ${kind} at all`;
  const more = names.length - SHOWN_MAX;
  return `of ${kind}s there ${names.length === 1 ? "is" : "are"} ${names.slice(0, SHOWN_MAX).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
