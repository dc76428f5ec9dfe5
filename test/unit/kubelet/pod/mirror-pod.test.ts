// Would catch: a mirror pod that the API server rejects or the garbage collector deletes, and a mirror pod of an older manifest that
// remains.
import { describe, expect, it } from "vitest";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { mirrorPod, mirrorStep } from "../../../../shared/node-agent/kubelet/pod/mirror-client.ts";
import { ago, nodePod } from "../fixtures.ts";

const HASH = "kubernetes.io/config.hash";
const MIRROR = "kubernetes.io/config.mirror";
const SOURCE = "kubernetes.io/config.source";

const staticOf = (hash: string, name = "web"): NodePod => nodePod({ name, uid: hash, annotations: { [HASH]: hash, [SOURCE]: "file" } });
const mirrorOf = (hash: string, { name = "web", uid = `mirror-${hash}`, dying = false } = {}): NodePod =>
  nodePod({ name, uid, annotations: { [HASH]: hash, [SOURCE]: "api", [MIRROR]: hash }, ...(dying && { deletionTimestamp: ago(1) }) });

describe("mirrorPod", () => {
  it("copies spec, labels and annotations, sets the mirror annotation and makes the node its controller", () => {
    const pod = nodePod({
      name: "web",
      uid: "h1",
      labels: { app: "web" },
      annotations: { [HASH]: "h1", note: "1" },
      status: { phase: "Pending" },
    });
    expect(mirrorPod(pod, { name: "n1", uid: "node-uid" })).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: "web",
        namespace: "new",
        labels: { app: "web" },
        annotations: { [HASH]: "h1", note: "1", [MIRROR]: "h1" },
        ownerReferences: [{ apiVersion: "v1", kind: "Node", name: "n1", uid: "node-uid", controller: true }],
      },
      spec: pod.spec,
    });
  });
});

describe("mirrorStep", () => {
  it.each([
    { name: "no mirror", mirror: undefined, want: "create" },
    { name: "a mirror of this manifest", mirror: mirrorOf("h2"), want: "none" },
    { name: "[node-agent 126] a mirror of the previous manifest", mirror: mirrorOf("h1"), want: "deleteThenCreate" },
    { name: "a mirror that is being deleted", mirror: mirrorOf("h2", { dying: true }), want: "deleteThenCreate" },
    { name: "a mirror of another name", mirror: mirrorOf("h2", { name: "db" }), want: "deleteThenCreate" },
  ] as const)("the next step for $name: $want", ({ mirror, want }) => {
    expect(mirrorStep(staticOf("h2"), mirror)).toBe(want);
  });
});
