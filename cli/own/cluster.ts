/** Checks that `dev` makes on a cluster before it runs user controllers. Each problem is one line. */
import type { KubeClient } from "@deltaloop/kube/http";
import { isForbidden, isNotFound } from "@deltaloop/kube/client";
import { isObject } from "@deltaloop/base";
import { crdManifest, kindsOf, rightsOf } from "@deltaloop/sdk/definitions";
import type { Definition, KindData, Right } from "@deltaloop/sdk/definitions";

type Client = Pick<KubeClient, "json">;

const READS = ["get", "list", "watch"];
const REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";

/** Kinds that the cluster lacks, and CRDs that differ from their definition. */
export async function kindProblems(client: Client, definitions: readonly Definition[]): Promise<readonly string[]> {
  const kinds = new Map(definitions.flatMap(kindsOf).map((kind) => [`${kind.plural}.${kind.version}.${kind.group}`, kind]));
  const problems = await Promise.all([...kinds.values()].map((kind) => problemOf(client, kind)));
  return problems.flat();
}

async function problemOf(client: Client, kind: KindData): Promise<readonly string[]> {
  const { group, version, plural, crd } = kind;
  const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
  const list = await found(client, path);
  const resources = isObject(list) && Array.isArray(list["resources"]) ? list["resources"] : [];
  const isServed = resources.some((each: unknown) => isObject(each) && each["name"] === plural);
  const hint = crd ? "apply what `deltaloop manifests FILE` prints" : "install its CRD, or correct the declaration";
  if (!isServed) return [`the cluster lacks the kind ${kind.kind} (${plural}.${group === "" ? "v1" : group}, ${version}): ${hint}`];
  if (crd === undefined) return [];
  const stored = await found(client, `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${plural}.${group}`);
  if (!isObject(stored)) return [];
  const fields = differences(versionOf(crdManifest(kind), version), versionOf(stored, version), "");
  return fields.length === 0
    ? []
    : [`the CRD ${plural}.${group} differs from ${kind.kind} in ${fields.slice(0, FIELDS_SHOWN).join(", ")}: ${hint}`];
}

const FIELDS_SHOWN = 5;

async function found(client: Client, path: string): Promise<unknown> {
  try {
    return await client.json({ method: "GET", path });
  } catch (error) {
    if (isNotFound(error) || isForbidden(error)) return undefined;
    throw error;
  }
}

/** The schema and the subresources, which decide what a controller can read and write. */
function versionOf(crd: unknown, name: string): unknown {
  const spec = isObject(crd) ? crd["spec"] : undefined;
  const versions = isObject(spec) && Array.isArray(spec["versions"]) ? spec["versions"] : [];
  const version: unknown = versions.find((each: unknown) => isObject(each) && each["name"] === name);
  if (!isObject(version)) return {};
  const schema = isObject(version["schema"]) ? version["schema"]["openAPIV3Schema"] : undefined;
  return { schema, subresources: Object.keys(isObject(version["subresources"]) ? version["subresources"] : {}).toSorted() };
}

/** Paths at which two values differ, in terms of the objects' own fields. */
function differences(wanted: unknown, stored: unknown, path: string): readonly string[] {
  if (isObject(wanted) && isObject(stored)) {
    return [...new Set([...Object.keys(wanted), ...Object.keys(stored)])].flatMap((key) =>
      differences(wanted[key], stored[key], key === "schema" || key === "properties" ? path : `${path}.${key}`),
    );
  }
  return JSON.stringify(wanted) === JSON.stringify(stored) ? [] : [path === "" ? "." : path.slice(1)];
}

/** `create deployments.apps`, once for each permission that is missing. Optional permissions are those of results that `sync` may never return. */
export async function missingRights(client: Client, definitions: readonly Definition[], act: boolean): Promise<readonly string[]> {
  const asked = definitions
    .flatMap(rightsOf)
    .flatMap((right) => (right.optional ? [] : right.verbs.filter((verb) => act || READS.includes(verb)).map((verb) => ({ verb, right }))));
  const answers = await Promise.all(
    asked.map(async ({ verb, right }) => ((await isAllowed(client, verb, right)) ? [] : [rightText(verb, right)])),
  );
  return [...new Set(answers.flat())];
}

/** The verbs and kinds that a controller may write. */
export function writtenBy(definition: Definition): readonly string[] {
  const writes = rightsOf(definition).flatMap((right) => {
    const verbs = right.verbs.filter((verb) => !READS.includes(verb));
    return verbs.length === 0 ? [] : [{ right, verbs }];
  });
  return writes.map(({ right, verbs }) => `${rightText(verbs.join(", "), right)}${right.optional ? " (only if `sync` returns it)" : ""}`);
}

/** Whether the credentials may do everything, as those of cluster-admin. */
export function isClusterAdmin(client: Client): Promise<boolean> {
  return isAllowed(client, "*", { group: "*", resource: "*", verbs: [] });
}

async function isAllowed(client: Client, verb: string, { group, resource, name, namespace }: Right): Promise<boolean> {
  const [plural = "", subresource] = resource.split("/");
  const resourceAttributes = { verb, group, resource: plural, subresource, name, namespace };
  const body = { apiVersion: "authorization.k8s.io/v1", kind: "SelfSubjectAccessReview", spec: { resourceAttributes } };
  const answer = await client.json({ method: "POST", path: REVIEWS, body });
  const { status } = answer as { readonly status?: { readonly allowed?: boolean } }; // the response to a review
  return status?.allowed === true;
}

function rightText(verb: string, { group, resource, name, namespace }: Right): string {
  const [plural = "", subresource] = resource.split("/");
  const what = `${plural}${group === "" ? "" : `.${group}`}${subresource === undefined ? "" : `/${subresource}`}`;
  return `${verb} ${what}${name === undefined ? "" : ` "${name}"`}${namespace === undefined ? "" : ` in namespace ${namespace}`}`;
}
