/** Known differences between the in-memory API server and a real one, each with a definition or object that shows it. */
import { isObject, type Json, type JsonObject, listAt, objectAt, objectsAt } from "../../../shared/base/json.ts";
import type { Difference } from "./sequences.ts";
import { comparable, CRDS, type Request } from "./servers.ts";

interface Known {
  readonly name: string;
  readonly why: string;
  is(difference: Pick<Difference, "real" | "ours">): boolean;
  /** Requests; the responses to the last one differ. */
  readonly example: readonly Request[];
}

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
];

/** Returns the causes of a Status without the quoted values. */
function unquoted(body: Json): Json {
  const status = comparable({ code: 0, body, warnings: [] }).body;
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
