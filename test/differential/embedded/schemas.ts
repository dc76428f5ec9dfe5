/** Random CustomResourceDefinitions, some of them invalid, with valid and invalid objects, on both servers. */
import { isObject, type Json, type JsonObject } from "../../../shared/base/json.ts";
import { eventually } from "../../support/eventually.ts";
import { type Dice, diceOf } from "../dice.ts";
import { agree, APPLY, ask, CRDS, MERGE, type Request, type Servers } from "./servers.ts";
import { disturbed } from "./disturb.ts";
import type { Difference } from "./sequences.ts";

const GROUP = "schemas.example.com";
/** Delay in ms: upstream holds creates for up to two seconds after it has accepted a definition's names. */
const ESTABLISHED_MS = 2_100;
const OBJECTS = 6;
const CREATED = 201;

interface Declared {
  readonly seed: number;
  readonly schema: JsonObject;
  readonly path: string;
  readonly kind: string;
}

export interface SchemaResult {
  readonly differences: readonly Difference[];
  readonly requests: number;
  /** Number of rejected definitions. */
  readonly refused: number;
}

/** Creates the definitions of all seeds, then writes their objects. */
export async function compareSchemas(servers: Servers, seeds: readonly number[]): Promise<SchemaResult> {
  const differences: Difference[] = [];
  const declared: Declared[] = [];
  let requests = 0;
  let refused = 0;
  const compare = async (seed: number, step: string, request: Request): Promise<boolean> => {
    const [real, ours] = await Promise.all([ask(servers.real, request), ask(servers.ours, request)]);
    requests += 1;
    if (!agree(real, ours)) differences.push({ seed, step, request, real, ours });
    return real.code === CREATED && ours.code === CREATED;
  };
  for (const seed of seeds) {
    const { crd, schema, kind } = randomDefinition(seed);
    const isDeclared = await compare(seed, "definition", { method: "POST", path: CRDS, body: crd });
    if (isDeclared) declared.push({ seed, schema, kind, path: `/apis/${GROUP}/v1/namespaces/default/${kind.toLowerCase()}s` });
    else refused += 1;
  }
  for (const { path, kind } of declared)
    for (const send of [servers.real, servers.ours])
      await eventually(`${kind} is served`, async () => {
        const { body } = await send("GET", path);
        return isObject(body) && body["kind"] === `${kind}List`;
      });
  await new Promise((resolve) => setTimeout(resolve, ESTABLISHED_MS));
  for (const one of declared) {
    await compareObjects(one, compare);
    await compareDisturbed(one, compare);
  }
  return { differences, requests, refused };
}

/**
 * Sends a request to both servers and compares the responses.
 * @returns whether both created the object
 */
type Compare = (seed: number, step: string, request: Request) => Promise<boolean>;

async function compareObjects(one: Declared, compare: Compare): Promise<void> {
  const dice = diceOf(one.seed + 1_000_000);
  for (let i = 0; i < OBJECTS; i += 1) {
    const name = `o${i}`;
    const object = (): JsonObject => withHead(one, name, valueOf(one.schema, dice, false));
    const strict = dice.chance(0.3) ? "?fieldValidation=Strict" : "";
    const isCreated = await compare(one.seed, `create ${name}`, { method: "POST", path: one.path + strict, body: object() });
    if (!isCreated) continue;
    const { spec = {} } = object();
    await compare(one.seed, `patch ${name}`, { method: "PATCH", path: `${one.path}/${name}`, body: { spec }, contentType: MERGE });
    const apply = `${one.path}/${name}?fieldManager=a&force=true`;
    await compare(one.seed, `apply ${name}`, { method: "PATCH", path: apply, body: object(), contentType: APPLY });
  }
}

const VALIDATIONS = ["", "fieldValidation=Warn", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=Some"];

/** Compares objects that may have several mistakes, with each setting of `fieldValidation`. */
async function compareDisturbed(one: Declared, compare: Compare): Promise<void> {
  const dice = diceOf(one.seed + 2_000_000);
  for (let i = 0; i < OBJECTS; i += 1) {
    const name = `p${i}`;
    const path = `${one.path}/${name}`;
    const object = (): JsonObject => {
      const unknownMeta = dice.chance(0.1) ? { other: 1 } : {};
      const { metadata, ...rest } = withHead(one, name, disturbed(valueOf(one.schema, dice, true), one.schema, dice));
      return { ...rest, metadata: { ...(metadata as JsonObject), ...unknownMeta } }; // generated below
    };
    const query = (): string => dice.pick([...VALIDATIONS.slice(0, -1), ...VALIDATIONS]);
    const whole = withHead(one, name, valueOf(one.schema, dice, true));
    await compare(one.seed, `create ${name}`, { method: "POST", path: `${one.path}?${query()}`, body: object() });
    await compare(one.seed, `create ${name} again`, { method: "POST", path: `${one.path}?${query()}`, body: whole });
    const { spec = {} } = object();
    await compare(one.seed, `patch ${name}`, { method: "PATCH", path: `${path}?${query()}`, body: { spec }, contentType: MERGE });
    for (const round of [1, 2]) {
      const apply = `${path}?fieldManager=a&force=true&${query()}`;
      await compare(one.seed, `apply ${name} ${round}`, { method: "PATCH", path: apply, body: object(), contentType: APPLY });
    }
    const replace = { path: "/spec", op: "add", value: object()["spec"] ?? {} };
    await compare(one.seed, `JSON patch ${name}`, {
      method: "PATCH",
      path: `${path}?${query()}`,
      body: [replace] as unknown as JsonObject, // a JSON patch is a list
      contentType: "application/json-patch+json",
    });
  }
}

function withHead({ kind }: Declared, name: string, value: Json): JsonObject {
  return { ...(value as JsonObject), apiVersion: `${GROUP}/v1`, kind, metadata: { name } }; // a value of the root's type is an object
}

function randomDefinition(seed: number): { readonly crd: JsonObject; readonly schema: JsonObject; readonly kind: string } {
  const dice = diceOf(seed);
  const kind = `Thing${seed}`;
  const plural = `${kind.toLowerCase()}s`;
  const hasStatus = dice.chance(0.3);
  const schema: JsonObject = {
    type: "object",
    ...(dice.chance(0.3) && { required: ["spec"] }),
    properties: { spec: objectSchema(dice, 0), ...(hasStatus && { status: objectSchema(dice, 1) }) },
  };
  const crd: JsonObject = {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${GROUP}` },
    spec: {
      group: GROUP,
      scope: "Namespaced",
      names: { plural, kind },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: schema },
          ...(hasStatus && { subresources: { status: {} } }),
        },
      ],
    },
  };
  if (dice.chance(0.4)) dice.pick(MISTAKES)(crd, schema, dice);
  return { crd, schema, kind };
}

const specOf = (crd: JsonObject): JsonObject => crd["spec"] as JsonObject; // generated above
const versionOf = (crd: JsonObject): JsonObject => (specOf(crd)["versions"] as JsonObject[])[0] as JsonObject; // generated above

function someProperty(schema: JsonObject, dice: Dice): JsonObject {
  const spec = (schema["properties"] as JsonObject)["spec"] as JsonObject; // generated above
  const properties = (spec["properties"] ?? {}) as JsonObject; // generated below
  const names = Object.keys(properties);
  return names.length === 0 ? spec : (properties[dice.pick(names)] as JsonObject); // generated below
}

/** Mistakes that make a definition invalid. */
const MISTAKES: readonly ((crd: JsonObject, schema: JsonObject, dice: Dice) => void)[] = [
  (crd) => void (specOf(crd)["scope"] = "Everywhere"),
  (crd) => void (specOf(crd)["group"] = "example"),
  (crd) => void ((specOf(crd)["names"] as JsonObject)["kind"] = "Not-A-Kind_"),
  (crd) => void ((specOf(crd)["names"] as JsonObject)["shortNames"] = ["A"]),
  (crd) => void (versionOf(crd)["storage"] = false),
  (crd) => void (versionOf(crd)["name"] = "V1"),
  (crd) => void delete versionOf(crd)["schema"],
  (crd) => void (versionOf(crd)["additionalPrinterColumns"] = [{ name: "A", type: "text", jsonPath: "spec.a" }]),
  (crd) => void (versionOf(crd)["subresources"] = { scale: { specReplicasPath: ".a.b", statusReplicasPath: "" } }),
  (_crd, schema) => void (schema["x-kubernetes-preserve-unknown-fields"] = false),
  (_crd, schema) => void (schema["additionalProperties"] = { type: "string" }),
  (_crd, schema) => void (schema["type"] = "array"),
  (_crd, schema) => void (schema["nullable"] = true),
  (_crd, schema) =>
    void ((schema["properties"] as JsonObject)["metadata"] = { type: "object", properties: { labels: { type: "object" } } }),
  (_crd, schema, dice) => void delete someProperty(schema, dice)["type"],
  (_crd, schema, dice) => {
    const { default: _default, format: _format, ...property } = someProperty(schema, dice);
    (schema["properties"] as JsonObject)["extra"] = { ...property, type: "text" }; // generated above
  },
  (_crd, schema, dice) => void (someProperty(schema, dice)["uniqueItems"] = true),
  (_crd, schema, dice) => void (someProperty(schema, dice)["$ref"] = "#/definitions/x"),
  (_crd, schema, dice) => void (someProperty(schema, dice)["default"] = { unknown: 1 }),
  (_crd, schema, dice) => void (someProperty(schema, dice)["x-kubernetes-list-type"] = dice.pick(["map", "set", "other"])),
  (_crd, schema, dice) => void (someProperty(schema, dice)["x-kubernetes-map-type"] = "set"),
  (_crd, schema, dice) => void (someProperty(schema, dice)["x-kubernetes-list-map-keys"] = ["a"]),
  (_crd, schema, dice) => void (someProperty(schema, dice)["anyOf"] = [{ type: "string" }]),
  (_crd, schema, dice) => void (someProperty(schema, dice)["allOf"] = [{ properties: { zz: { minLength: 1 } } }]),
  (_crd, schema, dice) => void (someProperty(schema, dice)["not"] = { default: 1 }),
  (_crd, schema, dice) =>
    void Object.assign(someProperty(schema, dice), { "x-kubernetes-int-or-string": true, "x-kubernetes-embedded-resource": true }),
];

const NAMES = ["a", "b", "c", "d"];
const TEXTS = ["x", "yy", "zzz", "1", "", "2026-01-01T00:00:00Z", "10.0.0.1", "1h", "x-y"];
const FORMATS = ["date-time", "ipv4", "duration", "uri", "byte", "unknown", "hostname"];
const DEPTH_MAX = 3;

function objectSchema(dice: Dice, depth: number): JsonObject {
  const names = NAMES.filter(() => dice.chance(0.7));
  const properties = Object.fromEntries(names.map((name) => [name, fieldSchema(dice, depth + 1)]));
  return {
    type: "object",
    ...(names.length > 0 && { properties }),
    ...(names.length > 0 && dice.chance(0.3) && { required: [dice.pick(names)] }),
    ...(dice.chance(0.1) && { "x-kubernetes-preserve-unknown-fields": true }),
    ...(dice.chance(0.1) && { maxProperties: 2 }),
    ...(dice.chance(0.1) && { minProperties: 1 }),
    ...(names.length > 0 && dice.chance(0.1) && { "x-kubernetes-map-type": "atomic" }),
    ...(names.length > 1 &&
      dice.chance(0.15) && { [dice.pick(["anyOf", "oneOf"])]: names.slice(0, 2).map((name) => ({ required: [name] })) }),
    ...(names.length > 0 && dice.chance(0.08) && { not: { required: [dice.pick(names)] } }),
  };
}

/** Generates a field's schema, sometimes with a matching default. */
function fieldSchema(dice: Dice, depth: number): JsonObject {
  const schema = plainSchema(dice, depth);
  const nullable = dice.chance(0.15) ? { nullable: true } : {};
  const preset = dice.chance(0.25) ? { default: valueOf(schema, dice, true) } : {};
  return { ...schema, ...nullable, ...preset };
}

function plainSchema(dice: Dice, depth: number): JsonObject {
  const kinds = [
    "string",
    "string",
    "integer",
    "number",
    "boolean",
    "intOrString",
    ...(depth < DEPTH_MAX ? ["object", "map", "array", "keyed", "set", "free"] : []),
  ];
  switch (dice.pick(kinds)) {
    case "string":
      return {
        type: "string",
        ...(dice.chance(0.2) && { minLength: 1 }),
        ...(dice.chance(0.2) && { maxLength: 2 }),
        ...(dice.chance(0.2) && { pattern: dice.pick(["^[xy]*$", "^x", "z"]) }),
        ...(dice.chance(0.2) && { enum: ["x", "yy"] }),
        ...(dice.chance(0.3) && { format: dice.pick(FORMATS) }),
      };
    case "integer":
      return {
        type: "integer",
        ...(dice.chance(0.3) && { minimum: 1, exclusiveMinimum: dice.chance(0.3) }),
        ...(dice.chance(0.3) && { maximum: 3 }),
        ...(dice.chance(0.2) && { multipleOf: 2 }),
        ...(dice.chance(0.3) && { format: dice.pick(["int32", "int64", "other"]) }),
      };
    case "number":
      return {
        type: "number",
        ...(dice.chance(0.4) && { minimum: 0.5 }),
        ...(dice.chance(0.2) && { maximum: 2.5, exclusiveMaximum: true }),
        ...(dice.chance(0.2) && { enum: [1, 2.5] }),
      };
    case "boolean":
      return { type: "boolean" };
    case "intOrString":
      return { "x-kubernetes-int-or-string": true, ...(dice.chance(0.3) && { anyOf: [{ type: "integer" }, { type: "string" }] }) };
    case "map":
      return { type: "object", additionalProperties: plainSchema(dice, depth + 1), ...(dice.chance(0.2) && { maxProperties: 1 }) };
    case "array":
      return {
        type: "array",
        items: plainSchema(dice, depth + 1),
        ...(dice.chance(0.3) && { maxItems: 2 }),
        ...(dice.chance(0.2) && { minItems: 1 }),
      };
    case "set":
      return { type: "array", "x-kubernetes-list-type": "set", items: { type: dice.pick(["string", "integer"]) } };
    case "keyed":
      return {
        type: "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["a"],
        items: { type: "object", required: ["a"], properties: { a: { type: "string" }, b: plainSchema(dice, depth + 1) } },
      };
    case "free":
      return dice.chance(0.5)
        ? { type: "object", "x-kubernetes-preserve-unknown-fields": true }
        : { type: "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true };
    default:
      return objectSchema(dice, depth);
  }
}

/** Generates a value for a schema; with mistakes unless `fits` is true. */
function valueOf(schema: JsonObject, dice: Dice, fits: boolean): Json {
  if (!fits && dice.chance(0.04)) return dice.pick<Json>([null, "x", 1, 2.5, true, [], {}, [1, 1], { a: "x" }]);
  switch (schema["type"]) {
    case "object": {
      const properties = Object.entries((schema["properties"] ?? {}) as JsonObject); // generated above
      const rest = schema["additionalProperties"];
      const value: JsonObject = Object.fromEntries(
        properties.filter(() => dice.chance(0.7)).map(([name, each]) => [name, valueOf(each as JsonObject, dice, fits)]),
      ); // generated above
      if (isObject(rest)) for (const name of ["k", "l"]) if (dice.chance(0.5)) value[name] = valueOf(rest, dice, fits);
      if (schema["x-kubernetes-embedded-resource"] === true)
        Object.assign(value, { apiVersion: "v1", kind: "Thing", metadata: { name: "x" }, ...(!fits && dice.chance(0.2) && { kind: 1 }) });
      if (!fits && dice.chance(0.1)) value["unknown"] = dice.pick<Json>(["x", { a: 1 }, null]);
      return value;
    }
    case "array":
      return Array.from({ length: dice.int(0, 3) }, () => valueOf((schema["items"] ?? {}) as JsonObject, dice, fits)); // generated above
    case "string":
      return dice.pick(fits ? ["x", "yy"] : TEXTS);
    case "integer":
      return dice.pick(fits ? [2] : [0, 1, 2, 3, 4, -1, 3_000_000_000]);
    case "number":
      return dice.pick(fits ? [1, 2.5] : [0, 0.25, 1, 2, 2.5, 3.75]);
    case "boolean":
      return dice.chance(0.5);
    default:
      return dice.pick<Json>([1, "10%"]);
  }
}
