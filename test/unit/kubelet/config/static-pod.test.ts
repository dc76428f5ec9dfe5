// Would catch: an edited manifest that keeps its UID (the old pod would keep running), an accepted reference to API objects, an unreadable
// error, and a manifest that escapes the agent's directories.
import { describe, expect, it } from "vitest";
import { isStaticPod } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import { classify, UNSEEN_SOURCE } from "../../../../shared/node-agent/kubelet/config/pod-config.ts";
import { StaticPodError, staticPod } from "../../../../shared/node-agent/kubelet/config/static-pod.ts";
import type { StaticPodOrigin } from "../../../../shared/node-agent/kubelet/config/static-pod.ts";

const FILE: StaticPodOrigin = { origin: { kind: "file", path: "/etc/manifests/web.yaml" }, nodeName: "Node-1" };
const HTTP: StaticPodOrigin = { origin: { kind: "http", url: "http://127.0.0.1/pods" }, nodeName: "Node-1" };

function manifest(spec: object = {}, metadata: object = {}): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "web", ...metadata },
    spec: { containers: [{ name: "c", image: "i:1" }], ...spec },
  };
}

function refusal(value: unknown, given = FILE): string {
  try {
    staticPod(value, given);
  } catch (error) {
    expect(error).toBeInstanceOf(StaticPodError);
    return (error as Error).message; // parsing throws an Error
  }
  return expect.unreachable("it should have been refused");
}

describe("staticPod", () => {
  it("[node-agent 65] sets name, node and annotations of a pod from a file", () => {
    const pod = staticPod(manifest({ nodeName: "elsewhere" }, { labels: { app: "web" }, annotations: { note: "1" } }), FILE);
    const { uid } = pod.metadata;
    expect(uid).toMatch(/^[0-9a-f]{32}$/);
    expect(pod).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: "web-node-1",
        namespace: "default",
        uid,
        labels: { app: "web" },
        annotations: { note: "1", "kubernetes.io/config.hash": uid },
      },
      spec: {
        containers: [{ name: "c", image: "i:1" }],
        nodeName: "Node-1",
        tolerations: [{ operator: "Exists", effect: "NoExecute" }],
      },
      status: { phase: "Pending" },
    });
  });

  it("[node-agent 65] a pod from a URL gets no NoExecute toleration", () => {
    expect(staticPod(manifest(), HTTP).spec.tolerations).toBeUndefined();
  });

  it("[node-agent 65] the NoExecute toleration replaces an equal one, and other tolerations are kept", () => {
    const mine = { key: "mine", operator: "Exists", effect: "NoExecute" };
    const bounded = { operator: "Exists", effect: "NoExecute", tolerationSeconds: 60 };
    expect(staticPod(manifest({ tolerations: [bounded, mine] }), FILE).spec.tolerations).toEqual([
      mine,
      { operator: "Exists", effect: "NoExecute" },
    ]);
  });

  it("sets an empty namespace to default", () => {
    expect(staticPod(manifest({}, { namespace: "" }), FILE).metadata.namespace).toBe("default");
    expect(staticPod(manifest({}, { namespace: "shop" }), FILE).metadata.namespace).toBe("shop");
  });

  describe("the UID", () => {
    const uidOf = (value: object, given = FILE): string => staticPod(value, given).metadata.uid;

    it("[node-agent 65] the UID is the same for equal manifests, whatever the order of their keys", () => {
      expect(uidOf({ ...manifest(), kind: "Pod", apiVersion: "v1" })).toBe(uidOf(manifest()));
      expect(uidOf({ spec: { containers: [{ image: "i:1", name: "c" }] }, metadata: { name: "web" }, kind: "Pod", apiVersion: "v1" })).toBe(
        uidOf(manifest()),
      );
    });

    it.each([
      { name: "[node-agent 65] another node", other: uidOf(manifest(), { ...FILE, nodeName: "node-2" }) },
      { name: "another file", other: uidOf(manifest(), { ...FILE, origin: { kind: "file", path: "/etc/manifests/web2.yaml" } }) },
      { name: "a URL", other: uidOf(manifest(), HTTP) },
      { name: "[node-agent 126] another image", other: uidOf(manifest({ containers: [{ name: "c", image: "i:2" }] })) },
      { name: "[node-agent 126] another label", other: uidOf(manifest({}, { labels: { a: "b" } })) },
      { name: "[node-agent 126] an additional field", other: uidOf(manifest({ hostNetwork: true })) },
      {
        name: "the same containers in another order",
        other: uidOf(
          manifest({
            containers: [
              { name: "d", image: "i" },
              { name: "c", image: "i:1" },
            ],
          }),
        ),
      },
    ])("the UID differs for $name", ({ other }) => {
      expect(other).not.toBe(uidOf(manifest()));
    });

    it("[node-agent 126] the UID changes when the file is edited, so that the old pod ends before the new one starts", () => {
      const [before, after] = [staticPod(manifest(), FILE), staticPod(manifest({ hostNetwork: true }), FILE)];
      const { state } = classify(UNSEEN_SOURCE, "file", { op: "SET", pods: [before] }, 0);
      const { changes } = classify(state, "file", { op: "SET", pods: [after] }, 1);
      expect(changes.map(({ op, pod }) => [op, pod.metadata.name, pod.metadata.uid])).toEqual([
        ["REMOVE", "web-node-1", before.metadata.uid],
        ["ADD", "web-node-1", after.metadata.uid],
      ]);
      expect(changes.every(({ pod }) => isStaticPod(pod))).toBe(true);
    });

    it("UID and config.hash are the UID in the manifest if it sets one", () => {
      const pod = staticPod(manifest({}, { uid: "my-own-uid" }), FILE);
      expect([pod.metadata.uid, pod.metadata.annotations?.["kubernetes.io/config.hash"]]).toEqual(["my-own-uid", "my-own-uid"]);
    });
  });

  it.each([
    { name: "an empty manifest", value: null, want: "expected apiVersion v1 and kind Pod" },
    { name: "another kind", value: { apiVersion: "apps/v1", kind: "Deployment" }, want: "found apps/v1 Deployment" },
    { name: "a pod without a name", value: { apiVersion: "v1", kind: "Pod", spec: {} }, want: "metadata.name is missing" },
    { name: "a name with a slash", value: manifest({}, { name: "../web" }), want: '"../web-node-1" is not a DNS name' },
    { name: "a namespace with dots", value: manifest({}, { namespace: "../.." }), want: "metadata.namespace" },
    { name: "a UID with a slash", value: manifest({}, { uid: "../../etc" }), want: "metadata.uid" },
    {
      name: "a pod without a spec",
      value: { apiVersion: "v1", kind: "Pod", metadata: { name: "web" } },
      want: "spec.containers is missing",
    },
    { name: "a pod without containers", value: manifest({ containers: [] }), want: "spec.containers is missing or empty" },
    { name: "a container without an image", value: manifest({ containers: [{ name: "c" }] }), want: 'container "c" has no image' },
    {
      name: "a container name with a slash",
      value: manifest({ containers: [{ name: "a/b", image: "i" }] }),
      want: '"a/b" is not a DNS label',
    },
    {
      name: "a duplicate container name",
      value: manifest({ initContainers: [{ name: "c", image: "i" }] }),
      want: 'two containers are named "c"',
    },
    { name: "an ephemeral container", value: manifest({ ephemeralContainers: [{ name: "d", image: "i" }] }), want: "ephemeral" },
    {
      name: "the annotation of a mirror pod",
      value: manifest({}, { annotations: { "kubernetes.io/config.mirror": "x" } }),
      want: "config.mirror",
    },
    { name: "a list field that is not a list", value: manifest({ tolerations: "all" }), want: "spec.tolerations is not a list" },
    { name: "a field of another type", value: manifest({ volumes: 7 }), want: "not a valid Pod: " },
  ])("rejects $name and reports the path of the manifest", ({ value, want }) => {
    expect(refusal(value)).toContain("manifest /etc/manifests/web.yaml: ");
    expect(refusal(value)).toContain(want);
    expect(refusal(value, HTTP)).toContain("manifest at http://127.0.0.1/pods: ");
  });

  const env = (valueFrom: object): object => ({ containers: [{ name: "c", image: "i", env: [{ name: "A", valueFrom }] }] });
  const volume = (source: object): object => ({ volumes: [{ name: "v", ...source }] });
  it.each([
    { name: "a service account", spec: { serviceAccountName: "default" }, want: "serviceaccounts (serviceAccountName)" },
    { name: "a pull secret", spec: { imagePullSecrets: [{ name: "s" }] }, want: "secrets (imagePullSecrets)" },
    { name: "a resource claim", spec: { resourceClaims: [{ name: "gpu" }] }, want: "resourceclaims" },
    {
      name: "a secret key in the environment",
      spec: env({ secretKeyRef: { name: "s", key: "k" } }),
      want: "secrets (environment of container c)",
    },
    { name: "a config map key in the environment", spec: env({ configMapKeyRef: { name: "m", key: "k" } }), want: "configmaps" },
    {
      name: "a whole config map in an init container's environment",
      spec: { initContainers: [{ name: "i", image: "i", envFrom: [{ configMapRef: { name: "m" } }] }] },
      want: "configmaps (environment of container i)",
    },
    {
      name: "a whole secret in the environment",
      spec: { containers: [{ name: "c", image: "i", envFrom: [{ secretRef: { name: "s" } }] }] },
      want: "secrets (environment of container c)",
    },
    { name: "a secret volume", spec: volume({ secret: { secretName: "s" } }), want: "secrets (volume v)" },
    { name: "a config map volume", spec: volume({ configMap: { name: "m" } }), want: "configmaps (volume v)" },
    {
      name: "a service account token",
      spec: volume({ projected: { sources: [{ serviceAccountToken: {} }] } }),
      want: "serviceaccounts (volume v)",
    },
    {
      name: "a projected secret",
      spec: volume({ projected: { sources: [{ downwardAPI: {} }, { secret: {} }] } }),
      want: "secrets (volume v)",
    },
    {
      name: "a projected ClusterTrustBundle",
      spec: volume({ projected: { sources: [{ clusterTrustBundle: {} }] } }),
      want: "clustertrustbundles",
    },
    { name: "a PersistentVolumeClaim", spec: volume({ persistentVolumeClaim: { claimName: "c" } }), want: "persistentvolumeclaims" },
    { name: "a generic ephemeral volume", spec: volume({ ephemeral: {} }), want: "persistentvolumeclaims" },
    { name: "a CSI volume", spec: volume({ csi: { driver: "d" } }), want: "csidrivers" },
    { name: "a secret of a storage volume", spec: volume({ iscsi: { secretRef: { name: "s" } } }), want: "secrets (volume v)" },
    { name: "a volume of an unknown type", spec: volume({ holographic: {} }), want: "objects of an unknown kind (volume v)" },
  ])("rejects a reference to $name", ({ spec, want }) => {
    expect(refusal(manifest(spec))).toContain(`a static pod must not refer to ${want}`);
  });

  it("accepts volumes that are local to the node", () => {
    const volumes = [
      { name: "a", hostPath: { path: "/etc" } },
      { name: "b", emptyDir: {} },
      { name: "c", downwardAPI: {} },
      { name: "d", projected: { sources: [{ downwardAPI: {} }] } },
      { name: "e", iscsi: {} },
    ];
    const containers = [
      {
        name: "c",
        image: "i",
        env: [
          { name: "A", valueFrom: { fieldRef: { fieldPath: "metadata.name" } } },
          { name: "B", value: "b" },
        ],
      },
    ];
    expect(staticPod(manifest({ volumes, containers }), FILE).spec).toMatchObject({ volumes, containers });
  });
});
