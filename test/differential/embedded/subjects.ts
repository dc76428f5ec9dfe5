/** The kinds whose objects the sequences write, as random fragments of objects. */
import type { Json, JsonObject } from "../../../shared/base/json.ts";
import type { Dice } from "../dice.ts";

export interface Subject {
  readonly kind: string;
  readonly apiVersion: string;
  readonly path: string;
  readonly hasScale: boolean;
  readonly status?: (dice: Dice) => JsonObject;
  /** Returns fragments with the required fields and some others. */
  whole(dice: Dice): readonly JsonObject[];
  /** Returns fragments with some fields. */
  some(dice: Dice): readonly JsonObject[];
}

type Piece = (dice: Dice) => JsonObject;

const text = (dice: Dice): string => dice.pick(["x", "y", "z"]);
const labels: Piece = (dice) => ({ metadata: { labels: { [dice.pick(["a", "b"])]: text(dice) } } });
const annotations: Piece = (dice) => ({ metadata: { annotations: { [dice.pick(["a", "b"])]: text(dice) } } });

function subject(
  given: Pick<Subject, "kind" | "apiVersion" | "path"> &
    Partial<Subject> & { readonly needs: readonly Piece[]; readonly pieces: readonly Piece[] },
): Subject {
  const { needs, pieces, ...rest } = given;
  const all = [labels, annotations, ...pieces];
  const some = (dice: Dice): JsonObject[] => Array.from({ length: dice.int(1, 4) }, () => dice.pick(all)(dice));
  return {
    hasScale: false,
    some,
    whole: (dice) => [...needs.map((piece) => piece(dice)), ...(dice.chance(0.8) ? some(dice) : [])],
    ...rest,
  };
}

/** Returns some items of a list without repetition. */
function items(dice: Dice, names: readonly string[], item: (name: string) => Json): Json[] {
  return names.filter(() => dice.chance(0.6)).map(item);
}

function container(dice: Dice, name: string): JsonObject {
  return {
    name,
    image: `nginx:${dice.int(1, 2)}`,
    ...(dice.chance(0.4) && { env: items(dice, ["A", "B", "C"], (variable) => ({ name: variable, value: text(dice) })) }),
    ...(dice.chance(0.4) && {
      ports: items(dice, ["80", "81"], (port) => ({
        containerPort: Number(port),
        ...(dice.chance(0.5) && { protocol: "TCP" }),
        ...(dice.chance(0.3) && { name: `p${port}` }),
      })),
    }),
    ...(dice.chance(0.3) && { args: items(dice, ["1", "2", "3"], (arg) => arg) }),
    ...(dice.chance(0.2) && { resources: { limits: { cpu: dice.pick(["100m", "0.1", "1"]) } } }),
  };
}

const conditions = (dice: Dice): Json[] =>
  items(dice, ["Ready", "Done"], (type) => ({
    type,
    status: dice.pick(["True", "False"]),
    reason: "R",
    message: text(dice),
    lastTransitionTime: "2026-01-01T00:00:00Z",
  }));

const APP = { app: "x" };

export const WIDGETS = "/apis/embedded.example.com/v1/namespaces/default/widgets";

/** A custom resource definition with each type of list and map. */
export const WIDGET_CRD: JsonObject = {
  apiVersion: "apiextensions.k8s.io/v1",
  kind: "CustomResourceDefinition",
  metadata: { name: "widgets.embedded.example.com" },
  spec: {
    group: "embedded.example.com",
    scope: "Namespaced",
    names: { plural: "widgets", singular: "widget", kind: "Widget", shortNames: ["wd"], categories: ["all"] },
    versions: [
      {
        name: "v1",
        served: true,
        storage: true,
        subresources: { status: {}, scale: { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.replicas" } },
        additionalPrinterColumns: [{ name: "Size", type: "integer", jsonPath: ".spec.replicas" }],
        schema: {
          openAPIV3Schema: {
            type: "object",
            properties: {
              spec: {
                type: "object",
                properties: {
                  replicas: { type: "integer", minimum: 0, maximum: 4, default: 1 },
                  text: { type: "string", pattern: "^[xy]$" },
                  size: { "x-kubernetes-int-or-string": true },
                  set: { type: "array", "x-kubernetes-list-type": "set", items: { type: "string" } },
                  list: {
                    type: "array",
                    items: { type: "object", properties: { a: { type: "string" }, b: { type: "integer", default: 7 } } },
                  },
                  keyed: {
                    type: "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "port"],
                    items: {
                      type: "object",
                      required: ["name"],
                      properties: {
                        name: { type: "string" },
                        port: { type: "integer", default: 80 },
                        value: { type: "string" },
                        more: { type: "object", properties: { a: { type: "string" }, b: { type: "boolean" } } },
                      },
                    },
                  },
                  map: { type: "object", additionalProperties: { type: "string" } },
                  atomic: {
                    type: "object",
                    "x-kubernetes-map-type": "atomic",
                    properties: { a: { type: "string" }, b: { type: "string" } },
                  },
                  free: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
                },
              },
              status: {
                type: "object",
                properties: {
                  replicas: { type: "integer" },
                  phase: { type: "string", enum: ["On", "Off"] },
                  conditions: {
                    type: "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                    items: {
                      type: "object",
                      required: ["type", "status"],
                      properties: {
                        type: { type: "string" },
                        status: { type: "string" },
                        reason: { type: "string" },
                        message: { type: "string" },
                        lastTransitionTime: { type: "string", format: "date-time" },
                      },
                    },
                  },
                },
              },
            },
          },
        },
      },
    ],
  },
};

export const SUBJECTS: readonly Subject[] = [
  subject({
    kind: "Deployment",
    apiVersion: "apps/v1",
    path: "/apis/apps/v1/namespaces/default/deployments",
    hasScale: true,
    status: (dice) => ({ observedGeneration: dice.int(0, 3), replicas: dice.int(1, 2), conditions: conditions(dice) }),
    needs: [
      (dice) => ({
        spec: {
          selector: { matchLabels: APP },
          template: {
            metadata: { labels: APP },
            spec: { containers: [container(dice, "a"), ...(dice.chance(0.4) ? [container(dice, "b")] : [])] },
          },
        },
      }),
    ],
    pieces: [
      (dice) => ({ spec: { replicas: dice.int(0, 3) } }),
      (dice) => ({ spec: { minReadySeconds: dice.int(0, 5) } }),
      (dice) => ({ spec: { paused: dice.chance(0.5) } }),
      (dice) => ({ spec: { strategy: dice.chance(0.5) ? { type: "Recreate" } : { rollingUpdate: { maxSurge: dice.pick([1, "50%"]) } } } }),
      (dice) => ({ spec: { template: { metadata: { annotations: { t: text(dice) } } } } }),
      (dice) => ({ spec: { template: { spec: { nodeSelector: { [dice.pick(["n", "m"])]: text(dice) } } } } }),
      (dice) => ({ spec: { template: { spec: { tolerations: items(dice, ["k", "l"], (key) => ({ key, operator: "Exists" })) } } } }),
      (dice) => ({ spec: { template: { spec: { volumes: items(dice, ["v", "w"], (name) => ({ name, emptyDir: {} })) } } } }),
    ],
  }),
  subject({
    kind: "Service",
    apiVersion: "v1",
    path: "/api/v1/namespaces/default/services",
    needs: [
      (dice) => ({
        spec: {
          ports: [
            { name: "http", port: 80, ...(dice.chance(0.5) && { targetPort: dice.pick([8080, "http"]) }) },
            ...(dice.chance(0.4) ? [{ name: "dns", port: 53, protocol: dice.pick(["TCP", "UDP"]) }] : []),
          ],
        },
      }),
    ],
    pieces: [
      (dice) => ({ spec: { selector: { [dice.pick(["app", "tier"])]: text(dice) } } }),
      (dice) => ({ spec: { sessionAffinity: dice.pick(["None", "ClientIP"]) } }),
      (dice) => ({ spec: { publishNotReadyAddresses: dice.chance(0.5) } }),
    ],
  }),
  subject({
    kind: "ConfigMap",
    apiVersion: "v1",
    path: "/api/v1/namespaces/default/configmaps",
    needs: [(dice) => ({ data: { [dice.pick(["a", "b"])]: text(dice) } })],
    pieces: [
      (dice) => ({ data: { [dice.pick(["a", "b", "c"])]: text(dice) } }),
      (dice) => ({ binaryData: { d: dice.pick(["AAAA", "BBBB"]) } }),
      (dice) => ({ metadata: { finalizers: items(dice, ["example.com/f", "example.com/g"], (name) => name) } }),
    ],
  }),
  subject({
    kind: "Widget",
    apiVersion: "embedded.example.com/v1",
    path: WIDGETS,
    hasScale: true,
    status: (dice) => ({
      replicas: dice.int(0, 2),
      ...(dice.chance(0.5) && { phase: dice.pick(["On", "Off", "Else"]) }),
      conditions: conditions(dice),
    }),
    needs: [(dice) => ({ spec: { text: text(dice) } })],
    pieces: [
      (dice) => ({ spec: { replicas: dice.int(0, 5) } }),
      (dice) => ({ spec: { size: dice.pick([1, "10%"]) } }),
      (dice) => ({ spec: { set: items(dice, ["a", "b", "c"], (item) => item) } }),
      (dice) => ({ spec: { list: items(dice, ["a", "b"], (a) => ({ a, ...(dice.chance(0.3) && { b: 1 }) })) } }),
      (dice) => ({
        spec: {
          keyed: items(dice, ["a", "b", "c"], (name) => ({
            name,
            ...(dice.chance(0.4) && { port: dice.int(80, 81) }),
            ...(dice.chance(0.5) && { value: text(dice) }),
            ...(dice.chance(0.3) && { more: { [dice.pick(["a", "unknown"])]: "x" } }),
          })),
        },
      }),
      (dice) => ({ spec: { map: { [dice.pick(["k", "l"])]: text(dice) } } }),
      (dice) => ({ spec: { atomic: { [dice.pick(["a", "b"])]: text(dice) } } }),
      (dice) => ({ spec: { free: { [dice.pick(["k", "l"])]: dice.pick<Json>([1, "x", { deep: [1, 2] }, null]) } } }),
      (dice) => ({ status: { phase: dice.pick(["On", "Off"]) } }),
      (dice) => (dice.chance(0.3) ? { spec: { unknown: text(dice) } } : {}),
    ],
  }),
];
