// Would catch: static pods and mirror pods that are not matched, a pod that is removed while its worker still terminates it, and a mirror
// pod that counts as a pod to run.
import { describe, expect, it } from "vitest";
import { mirrorStep } from "../../../../shared/node-agent/kubelet/pod/mirror-client.ts";
import type { NodePod } from "../../../../shared/node-agent/kubelet/types/pod.ts";
import { PodManager } from "../../../../shared/node-agent/kubelet/pod/pod-manager.ts";
import { nodePod } from "../fixtures.ts";

const HASH = "kubernetes.io/config.hash";
const MIRROR = "kubernetes.io/config.mirror";
const SOURCE = "kubernetes.io/config.source";

const staticOf = (hash: string, name = "web"): NodePod => nodePod({ name, uid: hash, annotations: { [HASH]: hash, [SOURCE]: "file" } });
const mirrorOf = (hash: string, name = "web"): NodePod =>
  nodePod({ name, uid: `mirror-${hash}`, annotations: { [HASH]: hash, [SOURCE]: "api", [MIRROR]: hash } });

describe("PodManager", () => {
  function managing(...pods: readonly NodePod[]): PodManager {
    const manager = new PodManager();
    for (const pod of pods) manager.set(pod);
    return manager;
  }
  const regular = nodePod({ name: "regular", uid: "r" });

  it("PM1 keeps mirror pods separate, and matches them with their static pods by name", () => {
    const manager = managing(mirrorOf("h1"), regular, staticOf("h1"));
    expect(manager.desired()).toEqual([regular, staticOf("h1")]);
    expect(manager.mirrors()).toEqual([mirrorOf("h1")]);
    expect(manager.get("mirror-h1")).toBeUndefined();
    expect([manager.mirrorOf(staticOf("h1")), manager.mirrorOf(regular)]).toEqual([mirrorOf("h1"), undefined]);
    expect(manager.staticOf(mirrorOf("h1"))).toEqual(staticOf("h1"));
    expect(manager.orphanMirrors()).toEqual([]);
  });

  it("returns mirror pods whose static pod was removed, and still finds them by its last spec", () => {
    const manager = managing(mirrorOf("h1"), staticOf("h1"), mirrorOf("h5", "never"));
    manager.remove("h1");
    expect(manager.orphanMirrors()).toEqual(["web_new", "never_new"]);
    expect(manager.staticOf(mirrorOf("h1"))).toBeUndefined();
    expect(manager.mirrorOf(staticOf("h1"))).toEqual(mirrorOf("h1"));
  });

  it("forgets a removed mirror pod immediately", () => {
    const manager = managing(mirrorOf("h1"), staticOf("h1"));
    manager.remove("mirror-h1");
    expect([manager.mirrors(), manager.mirrorOf(staticOf("h1")), manager.get("mirror-h1")]).toEqual([[], undefined, undefined]);
  });

  it("PM2 keeps the last spec of a pod that is no longer desired, until it is purged", () => {
    const manager = managing(regular);
    manager.remove("r");
    expect([manager.desired(), manager.get("r")]).toEqual([[], regular]);
    manager.forget("r");
    expect(manager.get("r")).toBeUndefined();
  });

  it("PM2 does not purge a pod that is desired or desired again", () => {
    const manager = managing(regular);
    manager.remove("r");
    manager.set({ ...regular, metadata: { ...regular.metadata, generation: 2 } });
    manager.forget("r");
    expect(manager.get("r")?.metadata.generation).toBe(2);
    manager.remove("unknown");
    expect(manager.get("unknown")).toBeUndefined();
  });

  it("[node-agent 126] PM3 an edited static pod gets the name, while the old pod keeps its mirror pod until that is replaced", () => {
    const manager = managing(staticOf("h1"), mirrorOf("h1"));
    manager.set(staticOf("h2"));
    expect(manager.staticOf(mirrorOf("h1"))).toEqual(staticOf("h2"));
    manager.remove("h1");
    expect(manager.get("h1")).toEqual(staticOf("h1"));
    expect(manager.staticOf(mirrorOf("h1"))).toEqual(staticOf("h2"));
    expect(mirrorStep(staticOf("h2"), manager.mirrorOf(staticOf("h2")))).toBe("deleteThenCreate");
    manager.remove("mirror-h1");
    manager.set(mirrorOf("h2"));
    expect(mirrorStep(staticOf("h2"), manager.mirrorOf(staticOf("h2")))).toBe("none");
  });

  it("PM3 a name refers again to the earlier pod when the later one is removed", () => {
    const manager = managing(staticOf("h1"), staticOf("h2"), mirrorOf("h1"));
    manager.remove("h2");
    expect(manager.staticOf(mirrorOf("h1"))).toEqual(staticOf("h1"));
    expect(manager.orphanMirrors()).toEqual([]);
  });
});
