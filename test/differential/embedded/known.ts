/** Answers of the in-memory API server that differ from a real one's, each with a definition or object that shows it. */
import { isObject, type Json, type JsonObject, listAt, objectAt, objectsAt } from "../../../shared/base/json.ts";
import type { Difference } from "./sequences.ts";
import { comparable, differencesOf, type Request } from "./servers.ts";

interface Known {
  readonly name: string;
  readonly why: string;
  is(difference: Pick<Difference, "real" | "ours">): boolean;
  /** Requests, of which the last is answered differently. */
  readonly example: readonly Request[];
}

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

function definition(kind: string, schema: JsonObject, version: JsonObject = {}): JsonObject {
  const plural = `${kind.toLowerCase()}s`;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.known.example.com` },
    spec: {
      group: "known.example.com",
      scope: "Namespaced",
      names: { plural, kind },
      versions: [{ name: "v1", served: true, storage: true, schema: { openAPIV3Schema: schema }, ...version }],
    },
  };
}

export const KNOWN: readonly Known[] = [
  {
    name: "Go structs",
    why: "an error about all versions or a whole schema quotes them as they were sent; upstream prints its Go struct",
    is: ({ real, ours }) => real.code === ours.code && JSON.stringify(unquoted(real.body)) === JSON.stringify(unquoted(ours.body)),
    example: [{ method: "POST", path: CRDS, body: definition("Quoted", { type: "object" }, { storage: false }) }],
  },
  {
    name: "embedded metadata",
    why: "the metadata of an embedded resource have the type of its schema in managed fields; upstream's is ObjectMeta",
    is: ({ real, ours }) =>
      real.code === ours.code && differencesOf(real, ours).every((line) => /^body\.metadata\.managedFields.*f:metadata/u.test(line)),
    example: [
      {
        method: "POST",
        path: CRDS,
        body: definition("Embedding", {
          type: "object",
          properties: { spec: { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true } },
        }),
      },
      {
        method: "PATCH",
        path: "/apis/known.example.com/v1/namespaces/default/embeddings/a?fieldManager=a",
        contentType: "application/apply-patch+yaml",
        body: {
          apiVersion: "known.example.com/v1",
          kind: "Embedding",
          metadata: { name: "a" },
          spec: { apiVersion: "v1", kind: "Pod", metadata: { name: "x" } },
        },
      },
    ],
  },
];

/** The causes of a Status, without the values that they quote. */
function unquoted(body: Json): Json {
  const status = comparable({ code: 0, body }).body;
  if (!isObject(status)) return status;
  const causes = objectsAt(objectAt(status, "details"), "causes").map(({ field = "", message = "" }) => {
    const quoted = /^Invalid value: [[{].*[\]}]: (.*)$/su.exec(String(message));
    return `${String(field)}: ${quoted?.[1] ?? String(message)}`;
  });
  return listAt(objectAt(status, "details"), "causes").length > 0 ? causes.toSorted() : null;
}

export function isKnown(difference: Pick<Difference, "real" | "ours">): boolean {
  return KNOWN.some((known) => known.is(difference));
}
