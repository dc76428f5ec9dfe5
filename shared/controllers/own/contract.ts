/** The writes that a user controller may send, from its definition. */
import type { Definition, KindData } from "@deltaloop/sdk/definitions";
import type { ContractRow } from "../kit/write-gateway/contract.ts";
import { resourceOfKind } from "./resources.ts";

const APPLY = "application/apply-patch+yaml";
const JSON_PATCH = "application/json-patch+json";
const OWNER = ["apiVersion", "kind", "name", "uid", "controller"].map((field) => `/metadata/ownerReferences/0/${field}`);
const IS_CONTROLLER = { "/metadata/ownerReferences/0/controller": true };
const PRECONDITIONS = ["/uid", "/resourceVersion"];
const IDENTITY = ["/metadata/uid", "/metadata/resourceVersion"];
/** Accepts every body: the controller's author decides which fields it sets. */
const ALL = [""];
/** The only JSON patch: it replaces managedFields, and fails for another object or version. */
const MANAGED_FIELDS: Pick<ContractRow<string>, "verb" | "type" | "require" | "values" | "allow"> = {
  verb: "patch",
  type: JSON_PATCH,
  require: ["/0/value", "/2/value"],
  values: {
    "/0/op": "test",
    "/0/path": "/metadata/uid",
    "/1/op": "replace",
    "/1/path": "/metadata/managedFields",
    "/2/op": "replace",
    "/2/path": "/metadata/resourceVersion",
  },
  allow: ["/0", "/1", "/2"],
};

export function contractOf({ primary, owns }: Definition): readonly ContractRow<string>[] {
  const resource = resourceOfKind(primary);
  const self = { resource, of: "self" } as const;
  return [
    ...owns.flatMap(({ kind }) => ownedRows(kind)),
    { what: `apply fields of ${primary.kind}`, verb: "patch", type: APPLY, ...self, require: IDENTITY, allow: ALL },
    ...(primary.status
      ? [
          {
            what: `apply the status of ${primary.kind}`,
            verb: "patch",
            type: APPLY,
            subresource: "status",
            ...self,
            require: IDENTITY,
            allow: ALL,
          } as const,
        ]
      : []),
    { what: `release fields of ${primary.kind}`, ...self, ...MANAGED_FIELDS },
    { what: `delete ${primary.kind}`, verb: "delete", ...self, require: PRECONDITIONS, allow: PRECONDITIONS },
    { what: "create an Event", verb: "create", resource: "events", of: "event", require: ["/involvedObject/uid"], allow: ALL },
    {
      what: "count an Event",
      verb: "patch",
      resource: "events",
      type: "application/strategic-merge-patch+json",
      of: "event",
      require: ["/count"],
      allow: ["/count", "/lastTimestamp", "/message"],
    },
  ];
}

function ownedRows(kind: KindData): readonly ContractRow<string>[] {
  const resource = resourceOfKind(kind);
  const name = kind.kind;
  const applied = ["/metadata/uid", ...OWNER];
  return [
    {
      what: `create ${name}`,
      verb: "create",
      resource,
      of: "new",
      require: ["/metadata/name", ...OWNER],
      values: IS_CONTROLLER,
      allow: ALL,
    },
    { what: `apply ${name}`, verb: "patch", type: APPLY, resource, of: "owned", require: applied, values: IS_CONTROLLER, allow: ALL },
    { what: `upgrade the managedFields of ${name} to server-side apply`, resource, of: "owned", ...MANAGED_FIELDS },
    { what: `prune ${name}`, verb: "delete", resource, of: "owned", require: PRECONDITIONS, allow: PRECONDITIONS },
  ];
}
