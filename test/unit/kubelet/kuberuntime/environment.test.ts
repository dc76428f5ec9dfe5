// Would catch: a variable that a Service's variable hides, a value from an optional object that does not exist, a wrong order of
// precedence, an expansion that reads a later variable, a secret's value in a message, and limits that do not fall back to the node's.
import { bytesOfText } from "../../../../shared/base/byte-text.ts";
import { describe, expect, it } from "vitest";
import {
  ContainerConfigError,
  makeEnvironment,
  serviceEnvironment,
} from "../../../../shared/node-agent/kubelet/kuberuntime/environment.ts";
import { expand } from "../../../../shared/node-agent/kubelet/types/expand.ts";
import type { EnvironmentInput, ServiceInfo } from "../../../../shared/node-agent/kubelet/kuberuntime/environment.ts";
import type { ConfigMapData, SecretData } from "../../../../shared/node-agent/kubelet/types/referenced-objects.ts";
import type { ContainerSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

type Env = NonNullable<ContainerSpec["env"]>;
type EnvFrom = NonNullable<ContainerSpec["envFrom"]>;
type Objects<T> = Readonly<Record<string, T>>;

const base64 = (text: string): string => Buffer.from(text).toString("base64");

interface Given {
  readonly env?: Env;
  readonly envFrom?: EnvFrom;
  readonly configMaps?: Objects<ConfigMapData>;
  readonly secrets?: Objects<SecretData>;
  readonly services?: readonly ServiceInfo[];
  readonly container?: Partial<ContainerSpec>;
  readonly pod?: Parameters<typeof nodePod>[0];
  readonly podIps?: readonly string[];
  readonly hostIps?: readonly string[];
}

function input({ configMaps = {}, secrets = {}, ...given }: Given): EnvironmentInput {
  const container = containerSpec("foo1", { env: given.env ?? [], envFrom: given.envFrom ?? [], ...given.container });
  return {
    pod: nodePod({ containers: [container], ...given.pod }),
    container,
    podIps: given.podIps ?? ["10.0.0.12"],
    hostIps: given.hostIps ?? ["192.168.1.5"],
    services: given.services ?? [],
    objects: { configMap: (name) => configMaps[name], secret: (name) => secrets[name] },
    allocatable: { cpuMilli: 3500, memoryBytes: 2 ** 30, ephemeralStorageBytes: 2 ** 31, pods: 110 },
  };
}

function environment(given: Given): Readonly<Record<string, string>> {
  const variables = makeEnvironment(input(given));
  expect(new Set(variables.map(({ key }) => key)).size, "a name is there twice").toBe(variables.length);
  return Object.fromEntries(variables.map(({ key, value }) => [key, value]));
}

function refusal(given: Given): string {
  try {
    makeEnvironment(input(given));
  } catch (error) {
    expect(error).toBeInstanceOf(ContainerConfigError);
    return (error as ContainerConfigError).message;
  }
  return "";
}

describe("expand", () => {
  const values = new Map([
    ["VAR_A", "A"],
    ["VAR_B", "B"],
    ["VAR_C", "C"],
    ["VAR_REF", "$(VAR_A)"],
    ["VAR_EMPTY", ""],
  ]);
  const table: readonly (readonly [text: string, want: string])[] = [
    ["$(VAR_A)", "A"],
    ["___$(VAR_B)___", "___B___"],
    ["___$(VAR_C)", "___C"],
    ["$(VAR_A)-$(VAR_A)", "A-A"],
    ["$(VAR_A)_$(VAR_B)_$(VAR_C)", "A_B_C"],
    ["$(VAR_EMPTY)|", "|"],
    ["$(VAR_REF)", "$(VAR_A)"],
    ["%%$(VAR_REF)--$(VAR_REF)%%", "%%$(VAR_A)--$(VAR_A)%%"],
    ["$$(VAR_A)", "$(VAR_A)"],
    ["$$(VAR_A)_$$(VAR_B)", "$(VAR_A)_$(VAR_B)"],
    ["f000-$$VAR_A", "f000-$VAR_A"],
    ["foo\\$(VAR_C)bar", "foo\\Cbar"],
    ["foo\\\\$(VAR_C)bar", "foo\\\\Cbar"],
    ["$(VAR_A$(VAR_B)", "$(VAR_A$(VAR_B)"],
    ["$(VAR_A$(VAR_B)-", "$(VAR_A$(VAR_B)-"],
    ["$(VAR_B)_______$(A", "B_______$(A"],
    ["$$$$$$(VAR_A)", "$$$(VAR_A)"],
    ["$$$$$$$(VAR_A)", "$$$A"],
    ["$VAR_A)", "$VAR_A)"],
    ["${VAR_A}", "${VAR_A}"],
    ["$(VAR_NONE)", "$(VAR_NONE)"],
    ["$()", "$()"],
    ["foo$(", "foo$("],
    ["$(", "$("],
    ["$", "$"],
    ["a$", "a$"],
    ["$$", "$"],
    ["--$$", "--$"],
    ["$x$", "$x$"],
    ["\n$(VAR_A)\n", "\nA\n"],
    ["", ""],
  ];
  for (const [text, want] of table)
    it(`[node-agent 106] expands ${JSON.stringify(text)} to ${JSON.stringify(want)}`, () =>
      expect(expand(text, (name) => values.get(name))).toBe(want));

  it("[node-agent 483] expands unterminated references in time proportional to their length", () => {
    const text = `$(VAR_A)${"$(".repeat(200_000)}$$`;
    const begun = performance.now();
    expect(expand(text, (name) => values.get(name))).toBe(`A${"$(".repeat(200_000)}$`);
    expect(performance.now() - begun).toBeLessThan(5_000); // if each search reads to the end, more than a minute
  });
});

const FOO: ServiceInfo = {
  name: "foo-bar",
  namespace: "new",
  clusterIP: "10.1.0.7",
  ports: [
    { name: "u-d-p", port: 8083, protocol: "UDP" },
    { name: "t", port: 8084 },
  ],
};
const MASTER: ServiceInfo = {
  name: "kubernetes",
  namespace: "default",
  clusterIP: "10.1.0.1",
  ports: [{ name: "https", port: 443, protocol: "TCP" }],
};

describe("serviceEnvironment", () => {
  it("[node-agent 101] sets host, ports and links of a service", () => {
    expect(Object.fromEntries(serviceEnvironment(nodePod(), [FOO]))).toEqual({
      FOO_BAR_SERVICE_HOST: "10.1.0.7",
      FOO_BAR_SERVICE_PORT: "8083",
      FOO_BAR_SERVICE_PORT_U_D_P: "8083",
      FOO_BAR_SERVICE_PORT_T: "8084",
      FOO_BAR_PORT: "udp://10.1.0.7:8083",
      FOO_BAR_PORT_8083_UDP: "udp://10.1.0.7:8083",
      FOO_BAR_PORT_8083_UDP_PROTO: "udp",
      FOO_BAR_PORT_8083_UDP_PORT: "8083",
      FOO_BAR_PORT_8083_UDP_ADDR: "10.1.0.7",
      FOO_BAR_PORT_8084_TCP: "tcp://10.1.0.7:8084",
      FOO_BAR_PORT_8084_TCP_PROTO: "tcp",
      FOO_BAR_PORT_8084_TCP_PORT: "8084",
      FOO_BAR_PORT_8084_TCP_ADDR: "10.1.0.7",
    });
  });

  it("puts an IPv6 address in brackets in a URL", () => {
    const variables = serviceEnvironment(nodePod(), [{ ...FOO, clusterIP: "fd00::7", ports: [{ port: 80 }] }]);
    expect([variables.get("FOO_BAR_PORT"), variables.get("FOO_BAR_SERVICE_HOST")]).toEqual(["tcp://[fd00::7]:80", "fd00::7"]);
  });

  const off = nodePod({ spec: { enableServiceLinks: false } });
  const hosts: { name: string; pod?: typeof off; services: ServiceInfo[]; want: Record<string, string> }[] = [
    {
      name: "omits a headless service and a service without an address",
      services: [
        { ...FOO, clusterIP: "None" },
        { ...FOO, clusterIP: "" },
      ],
      want: {},
    },
    { name: "omits services of other namespaces", services: [{ ...FOO, namespace: "other" }], want: {} },
    { name: "always has default/kubernetes", services: [MASTER], want: { KUBERNETES_SERVICE_HOST: "10.1.0.1" } },
    {
      name: "has no other service when service links are off",
      pod: off,
      services: [FOO, MASTER],
      want: { KUBERNETES_SERVICE_HOST: "10.1.0.1" },
    },
    {
      name: "prefers a service `kubernetes` in the pod's namespace, in any order",
      services: [{ ...MASTER, namespace: "new", clusterIP: "10.1.0.9" }, MASTER],
      want: { KUBERNETES_SERVICE_HOST: "10.1.0.9" },
    },
  ];
  for (const { name, pod = nodePod(), services, want } of hosts)
    it(`[node-agent 101] ${name}`, () => {
      const variables = [...serviceEnvironment(pod, services)].filter(([key]) => key.endsWith("_SERVICE_HOST"));
      expect(Object.fromEntries(variables)).toEqual(want);
    });
});

describe("makeEnvironment", () => {
  const maps = { cm: { data: { A: "cmA", B: "cmB" }, binaryData: { bin: "AAEC" } }, cm2: { data: { B: "cm2B" } } };
  const secrets = { s: { data: { A: base64("secretA"), P: base64("pä$(A)") } } };
  const table: { id: string; name: string; given: Given; want: Record<string, string> }[] = [
    {
      id: "[node-agent 106]",
      name: "expands variables that are defined earlier",
      given: {
        env: [
          { name: "A", value: "1" },
          { name: "B", value: "$(A)-$(C)" },
          { name: "C", value: "3" },
        ],
      },
      want: { A: "1", B: "1-$(C)", C: "3" },
    },
    {
      id: "[node-agent 106]",
      name: "leaves an escaped reference",
      given: {
        env: [
          { name: "A", value: "1" },
          { name: "B", value: "$$(A)" },
        ],
      },
      want: { A: "1", B: "$(A)" },
    },
    {
      id: "",
      name: "expands a service environment variable",
      given: { services: [{ ...MASTER, ports: [] }], env: [{ name: "URL", value: "https://$(KUBERNETES_SERVICE_HOST)" }] },
      want: { KUBERNETES_SERVICE_HOST: "10.1.0.1", URL: "https://10.1.0.1" },
    },
    {
      id: "",
      name: "prefers the container's own variable to a service environment variable of the same name",
      given: {
        services: [{ ...MASTER, ports: [] }],
        env: [
          { name: "KUBERNETES_SERVICE_HOST", value: "mine" },
          { name: "URL", value: "https://$(KUBERNETES_SERVICE_HOST)" },
        ],
      },
      want: { KUBERNETES_SERVICE_HOST: "mine", URL: "https://mine" },
    },
    {
      id: "",
      name: "keeps an empty value, and a variable that has neither value nor source",
      given: { env: [{ name: "A", value: "" }, { name: "B" }] },
      want: { A: "", B: "" },
    },
    {
      id: "",
      name: "uses the last of two variables with one name",
      given: {
        env: [
          { name: "A", value: "1" },
          { name: "A", value: "$(A)2" },
        ],
      },
      want: { A: "12" },
    },
    {
      id: "[node-agent 108]",
      name: "uses all keys of a ConfigMap except those in binaryData",
      given: { envFrom: [{ configMapRef: { name: "cm" } }], configMaps: maps },
      want: { A: "cmA", B: "cmB" },
    },
    {
      id: "[node-agent 108]",
      name: "prepends the prefix of envFrom",
      given: { envFrom: [{ prefix: "p_", configMapRef: { name: "cm" } }], configMaps: maps },
      want: { p_A: "cmA", p_B: "cmB" },
    },
    {
      id: "[node-agent 108]",
      name: "decodes a Secret and does not expand its values",
      given: { envFrom: [{ secretRef: { name: "s" } }], secrets },
      want: { A: "secretA", P: "pä$(A)" },
    },
    {
      id: "[node-agent 108]",
      name: "a later envFrom overrides an earlier one, and env overrides both",
      given: {
        envFrom: [{ configMapRef: { name: "cm" } }, { configMapRef: { name: "cm2" } }],
        env: [{ name: "A", value: "own:$(A):$(B)" }],
        configMaps: maps,
      },
      want: { A: "own:cmA:cm2B", B: "cm2B" },
    },
    {
      id: "",
      name: "envFrom overrides a service environment variable",
      given: {
        services: [{ ...MASTER, ports: [] }],
        envFrom: [{ configMapRef: { name: "k" } }],
        configMaps: { k: { data: { KUBERNETES_SERVICE_HOST: "mine" } } },
      },
      want: { KUBERNETES_SERVICE_HOST: "mine" },
    },
    {
      id: "[node-agent 108]",
      name: "uses one key of a ConfigMap and one of a Secret",
      given: {
        env: [
          { name: "X", valueFrom: { configMapKeyRef: { name: "cm", key: "B" } } },
          { name: "Y", valueFrom: { secretKeyRef: { name: "s", key: "A" } } },
        ],
        configMaps: maps,
        secrets,
      },
      want: { X: "cmB", Y: "secretA" },
    },
    {
      id: "[node-agent 108]",
      name: "omits missing optional objects and keys",
      given: {
        envFrom: [{ configMapRef: { name: "no", optional: true } }, { secretRef: { name: "no", optional: true } }],
        env: [
          { name: "A", valueFrom: { configMapKeyRef: { name: "no", key: "k", optional: true } } },
          { name: "B", valueFrom: { configMapKeyRef: { name: "cm", key: "k", optional: true } } },
          { name: "C", valueFrom: { secretKeyRef: { name: "no", key: "k", optional: true } } },
          { name: "D", valueFrom: { secretKeyRef: { name: "s", key: "k", optional: true } } },
        ],
        configMaps: maps,
        secrets,
      },
      want: {},
    },
    {
      id: "",
      name: "does not treat a property of Object.prototype as a key",
      given: { env: [{ name: "A", valueFrom: { configMapKeyRef: { name: "cm", key: "constructor", optional: true } } }], configMaps: maps },
      want: {},
    },
  ];
  for (const { id, name, given, want } of table) it(`${id} ${name}`.trim(), () => expect(environment(given)).toEqual(want));

  const refusals: { name: string; given: Given; want: string }[] = [
    { name: "a ConfigMap that does not exist", given: { envFrom: [{ configMapRef: { name: "no" } }] }, want: 'configmap "no" not found' },
    { name: "a Secret that does not exist", given: { envFrom: [{ secretRef: { name: "no" } }] }, want: 'secret "no" not found' },
    {
      name: "a key of a ConfigMap that does not exist",
      given: { env: [{ name: "A", valueFrom: { configMapKeyRef: { name: "no", key: "k" } } }] },
      want: 'configmap "no" not found',
    },
    {
      name: "a missing key of a ConfigMap",
      given: { env: [{ name: "A", valueFrom: { configMapKeyRef: { name: "cm", key: "k" } } }], configMaps: maps },
      want: "couldn't find key k in ConfigMap new/cm",
    },
    {
      name: "a missing key of a Secret",
      given: { env: [{ name: "A", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }], secrets },
      want: "couldn't find key k in Secret new/s",
    },
    {
      name: "a field that does not exist",
      given: { env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "spec.nope" } } }] },
      want: "unsupported fieldPath: spec.nope",
    },
    {
      name: "a container that does not exist",
      given: { env: [{ name: "A", valueFrom: { resourceFieldRef: { containerName: "no", resource: "limits.cpu" } } }] },
      want: "container no not found",
    },
  ];
  for (const { name, given, want } of refusals) it(`[node-agent 108] rejects ${name}`, () => expect(refusal(given)).toBe(want));

  const field = (fieldPath: string): string | undefined =>
    environment({
      env: [{ name: "A", valueFrom: { fieldRef: { fieldPath } } }],
      pod: { labels: { app: "web", "a/b": "x" }, annotations: { note: "two\nlines" }, spec: { nodeName: "n1", serviceAccountName: "sa" } },
      podIps: ["10.0.0.12", "fd00::12"],
      hostIps: ["192.168.1.5", "fd01::5"],
    })["A"];
  const fields: Record<string, string> = {
    "metadata.name": "foo",
    "metadata.namespace": "new",
    "metadata.uid": "12345678",
    "metadata.labels['app']": "web",
    "metadata.labels['a/b']": "x",
    "metadata.labels['none']": "",
    "metadata.annotations['note']": "two\nlines",
    "spec.nodeName": "n1",
    "spec.serviceAccountName": "sa",
    "status.hostIP": "192.168.1.5",
    "status.hostIPs": "192.168.1.5,fd01::5",
    "status.podIP": "10.0.0.12",
    "status.podIPs": "10.0.0.12,fd00::12",
  };
  for (const [fieldPath, want] of Object.entries(fields))
    it(`[node-agent 107] resolves ${fieldPath}`, () => expect(field(fieldPath)).toBe(want));

  it("[node-agent 107] a field with the pod's IP is empty while the pod has no address", () =>
    expect(environment({ env: [{ name: "A", valueFrom: { fieldRef: { fieldPath: "status.podIP" } } }], podIps: [] })).toEqual({ A: "" }));

  const own = { requests: { cpu: "250m", memory: "32Mi" }, limits: { cpu: "1250m", memory: "64Mi", "hugepages-2Mi": "4Mi" } };
  const resources: { resource: string; divisor?: string; given?: ContainerSpec["resources"]; want: string }[] = [
    { resource: "limits.cpu", given: own, want: "2" },
    { resource: "limits.cpu", divisor: "1m", given: own, want: "1250" },
    { resource: "requests.cpu", given: own, want: "1" },
    { resource: "limits.memory", given: own, want: "67108864" },
    { resource: "limits.memory", divisor: "1Mi", given: own, want: "64" },
    { resource: "requests.memory", divisor: "1Gi", given: own, want: "1" },
    { resource: "limits.hugepages-2Mi", given: own, want: "4194304" },
    { resource: "limits.cpu", divisor: "1m", want: "3500" },
    { resource: "limits.memory", want: String(2 ** 30) },
    { resource: "limits.ephemeral-storage", want: String(2 ** 31) },
    { resource: "requests.cpu", want: "0" },
  ];
  for (const { divisor = "0", given, resource, want } of resources)
    it(`[node-agent 107] resolves ${resource} with divisor ${divisor} ${given === undefined ? "without limits and requests" : "with limits and requests"}`, () => {
      const env = [{ name: "A", valueFrom: { resourceFieldRef: { resource, divisor } } }];
      expect(environment({ env, ...(given !== undefined && { container: { resources: given } }) })).toEqual({ A: want });
    });

  it("resolves another container's limit, including an init container's", () => {
    const pod = { containers: ["foo1"], initContainers: [containerSpec("init1", { resources: { limits: { cpu: "3" } } })] };
    const env = [{ name: "A", valueFrom: { resourceFieldRef: { containerName: "init1", resource: "limits.cpu" } } }];
    expect(environment({ env, pod })).toEqual({ A: "3" });
  });

  it("an error message contains no value of a variable", () => {
    const given = {
      env: [{ name: "A", valueFrom: { secretKeyRef: { name: "s", key: "k" } } }],
      secrets: { s: { data: { other: base64("hunter2") } } },
    };
    expect(refusal(given)).not.toMatch(/hunter2|aHVudGVyMg/u);
  });
});

describe("Secret values that are not UTF-8", () => {
  const bytes = Buffer.from([0xff, 0xfe, 0x00, 0xc3, 0xa9, 0xc3]);
  const given = {
    secrets: { seal: { data: { key: bytes.toString("base64") } } },
    envFrom: [{ prefix: "P_", secretRef: { name: "seal" } }],
    env: [
      { name: "A", valueFrom: { secretKeyRef: { name: "seal", key: "key" } } },
      { name: "B", value: "é$(A)x" },
    ],
  };

  it("a Secret's bytes are passed to variables unchanged, by key, by prefix and by reference", () => {
    const { A = "", B = "", P_key = "" } = environment(given);
    expect([A, P_key].map(bytesOfText)).toEqual([bytes, bytes]);
    expect(bytesOfText(B)).toEqual(Buffer.concat([Buffer.from("é"), bytes, Buffer.from("x")]));
  });
});
