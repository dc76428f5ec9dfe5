// Would catch: a missing file, a wrong path or mode, a token that others can read, a pod that starts without its required objects, and an
// error that lacks details or contains a secret.
import { describe, expect, it } from "vitest";
import type { ConfigMapData, SecretData } from "../../../../shared/node-agent/kubelet/types/referenced-objects.ts";
import type { NodePod, VolumeSpec } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { VolumeError } from "../../../../shared/node-agent/kubelet/types/volume-error.ts";
import { tokensOf, volumePayload } from "../../../../shared/node-agent/kubelet/volume/volume-payload.ts";
import type { TokenSpec } from "../../../../shared/node-agent/kubelet/volume/volume-payload.ts";
import { containerSpec, nodePod } from "../fixtures.ts";

const base64 = (text: string) => Buffer.from(text, "latin1").toString("base64");
const CONFIG_MAPS: Record<string, ConfigMapData> = {
  app: { data: { color: "blue", "sub.conf": "käse" }, binaryData: { raw: base64("\u0000\u00ff") } },
  other: { data: { color: "red" } },
  empty: {},
};
const SECRETS: Record<string, SecretData> = { login: { data: { user: base64("bob"), pass: base64("hunter2") } } };

/** Returns `path mode [uid] content` for each file. */
function payload(volume: Omit<VolumeSpec, "name">, pod: NodePod = nodePod()): readonly string[] {
  const files = volumePayload({
    pod,
    volume: { name: "v", ...volume },
    objects: { configMap: (name) => CONFIG_MAPS[name], secret: (name) => SECRETS[name] },
    allocatable: { cpuMilli: 4000, memoryBytes: 2 ** 30, ephemeralStorageBytes: 2 ** 30, pods: 110 },
    token: ({ audience, expirationSeconds }: TokenSpec) => `token(${audience},${expirationSeconds})`,
    trustAnchors: ({ name = "" }) => {
      if (name === "absent") throw new VolumeError("no such bundle");
      return `anchors(${name})`;
    },
    credential: (index) => {
      if (index > 2) throw new VolumeError("not issued yet");
      return { privateKey: `key${index}+`, certificateChain: `chain${index}` };
    },
  });
  return files.map(({ path, mode, uid, content }) =>
    [path, mode.toString(8), ...(uid === undefined ? [] : [`uid=${uid}`]), Buffer.from(content).toString("utf8")].join(" "),
  );
}

const CERTIFICATE = { signerName: "a.test/s", keyType: "ED25519" };

describe("volumePayload", () => {
  const table: { name: string; volume: Omit<VolumeSpec, "name">; pod?: NodePod; want: readonly string[] }[] = [
    {
      name: "[node-agent 108] all keys of a ConfigMap",
      volume: { configMap: { name: "other" } },
      want: ["color 644 red"],
    },
    {
      name: "[node-agent 108] the listed keys, under their paths, each with its own mode or the volume's",
      volume: {
        configMap: {
          name: "app",
          defaultMode: 0o400,
          items: [
            { key: "color", path: "a/b/colour", mode: 0o444 },
            { key: "sub.conf", path: "x" },
          ],
        },
      },
      want: ["a/b/colour 444 blue", "x 400 käse"],
    },
    {
      name: "[node-agent 108] nothing of an optional ConfigMap that does not exist",
      volume: { configMap: { name: "x", optional: true } },
      want: [],
    },
    { name: "nothing of a ConfigMap without keys", volume: { configMap: { name: "empty" } }, want: [] },
    {
      name: "[node-agent 108] the other keys of an optional ConfigMap that lacks one of the listed keys",
      volume: {
        configMap: {
          name: "app",
          optional: true,
          items: [
            { key: "x", path: "x" },
            { key: "color", path: "c" },
          ],
        },
      },
      want: ["c 644 blue"],
    },
    {
      name: "[node-agent 108] all keys of a Secret",
      volume: { secret: { secretName: "login", defaultMode: 0o440 } },
      want: ["user 440 bob", "pass 440 hunter2"],
    },
    {
      name: "[node-agent 108] a key of a Secret under a path",
      volume: { secret: { secretName: "login", items: [{ key: "user", path: "who", mode: 0o400 }] } },
      want: ["who 400 bob"],
    },
    {
      name: "[node-agent 108] nothing of an optional Secret that does not exist",
      volume: { secret: { secretName: "x", optional: true } },
      want: [],
    },
    {
      name: "pod fields and resources",
      pod: nodePod({ labels: { b: "2", a: "1" }, containers: [containerSpec("c", { resources: { limits: { cpu: "500m" } } })] }),
      volume: {
        downwardAPI: {
          items: [
            { path: "labels", fieldRef: { fieldPath: "metadata.labels" }, mode: 0o400 },
            { path: "cpu", resourceFieldRef: { containerName: "c", resource: "limits.cpu", divisor: "1m" } },
          ],
        },
      },
      want: ['labels 400 a="1"\nb="2"', "cpu 644 500"],
    },
    {
      name: "[node-agent 109] several sources in one volume",
      pod: nodePod({ namespace: "shop" }),
      volume: {
        projected: {
          defaultMode: 0o640,
          sources: [
            { serviceAccountToken: { path: "token", expirationSeconds: 3607 } },
            { configMap: { name: "app", items: [{ key: "color", path: "ca.crt" }] } },
            { secret: { name: "login", items: [{ key: "user", path: "who", mode: 0o400 }] } },
            { downwardAPI: { items: [{ path: "namespace", fieldRef: { fieldPath: "metadata.namespace" } }] } },
          ],
        },
      },
      want: ["token 640 token(,3607)", "ca.crt 640 blue", "who 400 bob", "namespace 640 shop"],
    },
    {
      name: "[node-agent 512] trust anchors, and the certificate of each source",
      volume: {
        projected: {
          defaultMode: 0o440,
          sources: [
            { clusterTrustBundle: { path: "ca.pem", name: "mine" } },
            { podCertificate: { ...CERTIFICATE, credentialBundlePath: "a/both.pem" } },
            { podCertificate: { ...CERTIFICATE, keyPath: "key", certificateChainPath: "chain", credentialBundlePath: "" } },
          ],
        },
      },
      want: ["ca.pem 440 anchors(mine)", "a/both.pem 440 key1+chain1", "key 440 key2+", "chain 440 chain2"],
    },
    {
      name: "the later of two sources with one path",
      volume: {
        projected: {
          sources: [{ configMap: { name: "app", items: [{ key: "color", path: "color" }] } }, { configMap: { name: "other" } }],
        },
      },
      want: ["color 644 red"],
    },
  ];
  it.each(table)("a volume contains $name", ({ volume, pod, want }) => {
    expect(payload(volume, pod)).toEqual(want);
  });

  it("[node-agent 108] preserves binary keys byte by byte", () => {
    const [file] = volumePayload({
      pod: nodePod(),
      volume: { name: "v", configMap: { name: "app", items: [{ key: "raw", path: "raw" }] } },
      objects: { configMap: (name) => CONFIG_MAPS[name], secret: () => undefined },
      allocatable: { cpuMilli: 0, memoryBytes: 0, ephemeralStorageBytes: 0, pods: 0 },
      token: () => "",
      trustAnchors: () => "",
      credential: () => ({ privateKey: "", certificateChain: "" }),
    });
    expect(file?.content).toEqual(new Uint8Array([0, 0xff]));
  });

  const token = { projected: { sources: [{ serviceAccountToken: { path: "token", audience: "vault" } }] } };
  const as = (runAsUser: number | undefined) =>
    containerSpec(`c${runAsUser}`, runAsUser === undefined ? {} : { securityContext: { runAsUser } });
  const tokenTable: { name: string; pod: NodePod; want: string }[] = [
    { name: "readable for all if the users are unknown", pod: nodePod({ containers: [as(undefined)] }), want: "token 644" },
    {
      name: "owned by the only user if all containers run as one",
      pod: nodePod({ containers: [as(1000), as(1000)] }),
      want: "token 600 uid=1000",
    },
    {
      name: "owned by the pod's user if containers set none",
      pod: nodePod({ containers: ["a"], spec: { securityContext: { runAsUser: 7 } } }),
      want: "token 600 uid=7",
    },
    { name: "owned by root if all containers run as root", pod: nodePod({ containers: [as(0)] }), want: "token 600 uid=0" },
    {
      name: "without an owner if an init container runs as another user",
      pod: nodePod({ containers: [as(1)], initContainers: [as(2)] }),
      want: "token 644",
    },
    { name: "without an owner if one container sets no user", pod: nodePod({ containers: [as(1), as(undefined)] }), want: "token 644" },
    {
      name: "of mode 600 without an owner if the pod sets fsGroup",
      pod: nodePod({ containers: [as(undefined)], spec: { securityContext: { fsGroup: 9 } } }),
      want: "token 600",
    },
  ];
  it.each(tokenTable)("[node-agent 109] the token file in a volume is $name", ({ pod, want }) => {
    expect(payload(token, pod)).toEqual([`${want} token(vault,3600)`]);
  });

  const certificates = {
    projected: {
      sources: [{ clusterTrustBundle: { path: "token", name: "ca" } }, { podCertificate: { ...CERTIFICATE, keyPath: "key" } }],
    },
  };
  it.each(tokenTable)("[node-agent 512] a volume has trust anchors and a key $name", ({ pod, want }) => {
    expect(payload(certificates, pod)).toEqual([`${want} anchors(ca)`, `${want.replace("token", "key")} key1+`]);
  });

  const errorTable: { name: string; volume: Omit<VolumeSpec, "name">; want: string }[] = [
    { name: "a ConfigMap that does not exist", volume: { configMap: { name: "x" } }, want: 'configmap "x" not found' },
    { name: "a Secret that does not exist", volume: { secret: { secretName: "x" } }, want: 'secret "x" not found' },
    {
      name: "a key that the ConfigMap lacks",
      volume: { configMap: { name: "app", items: [{ key: "k", path: "p" }] } },
      want: "configmap references non-existent config key: k",
    },
    {
      name: "a key that the Secret lacks",
      volume: { secret: { secretName: "login", items: [{ key: "k", path: "p" }] } },
      want: "references non-existent secret key: k",
    },
    {
      name: "a field that does not exist",
      volume: { downwardAPI: { items: [{ path: "p", fieldRef: { fieldPath: "spec.x" } }] } },
      want: "unsupported fieldPath: spec.x",
    },
    {
      name: "all errors, each once",
      volume: { projected: { sources: [{ secret: { name: "s" } }, { configMap: { name: "c" } }, { secret: { name: "s" } }] } },
      want: '[secret "s" not found, configmap "c" not found]',
    },
    {
      name: "[node-agent 512] a missing trust bundle and certificate beside other errors",
      volume: {
        projected: {
          sources: [
            { clusterTrustBundle: { path: "ca", name: "absent" } },
            { secret: { name: "s" } },
            { configMap: { name: "app" } },
            { podCertificate: { ...CERTIFICATE, keyPath: "key" } },
          ],
        },
      },
      want: '[no such bundle, secret "s" not found, not issued yet]',
    },
  ];
  it.each(errorTable)("[node-agent 108] reports $name", ({ volume, want }) => {
    expect(() => payload(volume)).toThrow(new VolumeError(want));
  });
});

it("[node-agent 109] lists every projected token of a pod, with the API's defaults", () => {
  const volumes: VolumeSpec[] = [
    { name: "a", projected: { sources: [{ serviceAccountToken: { path: "t" } }, { configMap: { name: "c" } }] } },
    { name: "b", configMap: { name: "c" } },
    { name: "c", projected: { sources: [{ serviceAccountToken: { path: "u", audience: "vault", expirationSeconds: 600 } }] } },
  ];
  expect(tokensOf(nodePod({ spec: { volumes } }))).toEqual([
    { volume: "a", spec: { audience: "", expirationSeconds: 3600 } },
    { volume: "c", spec: { audience: "vault", expirationSeconds: 600 } },
  ]);
});
