/** The owners of relevant fields: `managedFields` without values. */
import { defined, isObject, listIn, objectIn, textIn, textsIn } from "./fields.ts";
import type { Json } from "./fields.ts";

export interface FieldManager {
  readonly manager: string;
  readonly operation?: string;
  readonly subresource?: string;
  readonly time?: string;
  /**
   * Fields that the manager owns: `replicas`, `paused`, `strategy`, `minReadySeconds`, `volumes`, `container web`, `web.image`,
   * `web.resources`, `web.env.COLOR`, `label app`, `annotation a/b`.
   */
  readonly owns: readonly string[];
}

const SPEC = ["replicas", "paused", "strategy", "minReadySeconds"];
/** Fields of the template whose change may cause an incident. */
const POD_SPEC = [
  "volumes",
  "nodeSelector",
  "affinity",
  "tolerations",
  "topologySpreadConstraints",
  "priorityClassName",
  "serviceAccountName",
];
const PROBES = ["livenessProbe", "readinessProbe", "startupProbe"];
const CONTAINER = ["image", "resources", "command", "args", "envFrom", "volumeMounts", "lifecycle", "securityContext", ...PROBES];
/** Limits for one object; more indicates an attack. */
const [ENTRIES_MAX, OWNS_MAX] = [50, 500];

/** Returns the field managers in an object's metadata, or in a capture's evidence. */
export function managersIn(object: Json): readonly FieldManager[] {
  const stored = listIn(object, "managers");
  const entries = stored.length > 0 ? stored : listIn(object, "managedFields");
  return entries.slice(0, ENTRIES_MAX).flatMap((entry) => {
    const manager = textIn(entry, "manager");
    if (manager === undefined) return [];
    const owns = isObject(entry["fieldsV1"]) ? ownedIn(entry["fieldsV1"]) : textsIn(entry, "owns");
    const known = defined({
      operation: textIn(entry, "operation"),
      subresource: textIn(entry, "subresource"),
      time: textIn(entry, "time"),
    });
    return [{ manager, ...known, owns: owns.slice(0, OWNS_MAX) }];
  });
}

function ownedIn(fields: Json): readonly string[] {
  const spec = objectIn(fields, "f:spec");
  const podSpec = objectIn(objectIn(objectIn(fields, "f:spec"), "f:template"), "f:spec");
  const metadata = objectIn(fields, "f:metadata");
  const named = (field: string, word: string): readonly string[] =>
    Object.keys(objectIn(metadata, field)).flatMap((key) => (key.startsWith("f:") ? [`${word} ${key.slice(2)}`] : []));
  return [
    ...SPEC.filter((field) => Object.hasOwn(spec, `f:${field}`)),
    ...POD_SPEC.filter((field) => Object.hasOwn(podSpec, `f:${field}`)),
    ...["f:containers", "f:initContainers"].flatMap((field) => Object.entries(objectIn(podSpec, field)).flatMap(containerFields)),
    ...named("f:labels", "label"),
    ...named("f:annotations", "annotation"),
  ];
}

/** The fields of one container, `k:{"name":"web"}`. */
function containerFields([key, value]: readonly [string, unknown]): readonly string[] {
  const name = nameIn(key);
  if (name === undefined || !isObject(value)) return [];
  return [
    ...(Object.hasOwn(value, "f:name") ? [`container ${name}`] : []),
    ...CONTAINER.flatMap((field) => (Object.hasOwn(value, `f:${field}`) ? [`${name}.${field}`] : [])),
    ...Object.keys(objectIn(value, "f:env")).flatMap((each) => {
      const variable = nameIn(each);
      return variable === undefined ? [] : [`${name}.env.${variable}`];
    }),
  ];
}

function nameIn(key: string): string | undefined {
  return /^k:\{"name":"([^"\\]{1,253})"\}$/.exec(key)?.[1];
}
