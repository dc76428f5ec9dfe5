/** The resources of the kinds that definitions name. */
import { RESOURCES } from "@deltaloop/kube/objects";
import type { Resource, ResourceInfo } from "@deltaloop/kube/objects";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import type { KindData, KindId } from "@deltaloop/sdk/definitions";

/** The resource of a kind: one of this project's table, or `<plural>.<version>.<group>`, which names its path. */
export function resourceOfKind({ group, version, plural }: KindId): Resource {
  const known = Object.hasOwn(RESOURCES, plural) ? RESOURCES[plural as Resource] : undefined; // hasOwn is checked
  const isSame = known?.group === group && known.apiVersion === apiVersionOf({ group, version });
  // the path of every other name is derived from it (shared/kube/http/path.ts)
  return (isSame ? plural : [plural, version, ...(group === "" ? [] : [group])].join(".")) as Resource;
}

export function infoOfKind(kind: KindData): ResourceInfo {
  const { group, version, kind: name } = kind;
  return { path: group === "" ? `api/${version}` : `apis/${group}/${version}`, apiVersion: apiVersionOf(kind), group, kind: name };
}
