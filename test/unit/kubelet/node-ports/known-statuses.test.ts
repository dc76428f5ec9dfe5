// Would catch: a state that is older than the list, an address that is never reported, limits from before a resize, and growing memory.
import { describe, expect, it } from "vitest";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";
import type {
  Container,
  ContainerState,
  ContainerStatus,
  PodSandbox,
  PodSandboxState,
  PodSandboxStatus,
} from "../../../../shared/node-agent/ports/cri-types.ts";
import { KnownStatuses } from "../../../../shared/node-agent/kubelet/node-ports/known-statuses.ts";

const metadata = { name: "n", uid: "u", namespace: "ns", attempt: 0 };
const common = { metadata, createdAtMs: 1, labels: {}, annotations: {} };
const listedSandbox = (id: string, state: PodSandboxState = "SANDBOX_READY"): PodSandbox => ({ ...common, id, state });
const listedContainer = (id: string, state: ContainerState = "CONTAINER_RUNNING"): Container =>
  ({ ...common, id, state, podSandboxId: "s", image: "i", imageRef: "r" }) as unknown as Container; // the fields that are read

/** A scripted runtime that records the inspected ids. */
function runtime() {
  const asked: string[] = [];
  const sandboxes = new Map<string, Partial<PodSandboxStatus>>();
  const containers = new Map<string, Partial<ContainerStatus>>();
  const answer = <T>(id: string, of: ReadonlyMap<string, unknown>): T => {
    asked.push(id);
    if (!of.has(id)) throw new CriError("NotFound", id);
    return { ...common, id, ...(of.get(id) as object) } as T;
  };
  const known = new KnownStatuses({
    podSandboxStatus: async (id) => answer<PodSandboxStatus>(id, sandboxes),
    containerStatus: async (id) => answer<ContainerStatus>(id, containers),
  });
  return { asked, sandboxes, containers, known };
}

const address = { network: { ip: "10.0.0.1", additionalIps: [] } };

describe("[node-agent 505] cached inspections of sandboxes and containers", () => {
  it("a READY sandbox or RUNNING container is inspected only once", async () => {
    const { asked, sandboxes, containers, known } = runtime();
    sandboxes.set("s", { state: "SANDBOX_READY", ...address });
    containers.set("c", { state: "CONTAINER_RUNNING", logPath: "/c.log" });
    for (let look = 0; look < 3; look++) {
      expect(await known.sandbox(listedSandbox("s"))).toMatchObject(address);
      expect(await known.container(listedContainer("c"))).toMatchObject({ logPath: "/c.log" });
    }
    expect(asked).toEqual(["s", "c"]);
  });

  it("a container is inspected again when the list has another state, and each time while it is not running", async () => {
    const { asked, sandboxes, containers, known } = runtime();
    sandboxes.set("s", { state: "SANDBOX_READY", ...address });
    containers.set("c", { state: "CONTAINER_RUNNING" });
    await known.sandbox(listedSandbox("s"));
    await known.container(listedContainer("c"));
    sandboxes.set("s", { state: "SANDBOX_NOTREADY" });
    containers.set("c", { state: "CONTAINER_EXITED", exitCode: 3 });
    for (let look = 0; look < 2; look++) {
      expect(await known.sandbox(listedSandbox("s", "SANDBOX_NOTREADY"))).toMatchObject({ state: "SANDBOX_NOTREADY" });
      expect(await known.container(listedContainer("c", "CONTAINER_EXITED"))).toMatchObject({ exitCode: 3 });
    }
    expect(asked).toEqual(["s", "c", "s", "c", "s", "c"]);
    sandboxes.set("s", { state: "SANDBOX_READY", network: { ip: "10.0.0.2", additionalIps: [] } });
    containers.set("c", { state: "CONTAINER_RUNNING", startedAtMs: 9 });
    expect(await known.sandbox(listedSandbox("s"))).toMatchObject({ network: { ip: "10.0.0.2" } });
    expect(await known.container(listedContainer("c"))).toMatchObject({ startedAtMs: 9 });
  });

  it("a container is not cached as running when it ends between list and status", async () => {
    const { asked, sandboxes, containers, known } = runtime();
    sandboxes.set("s", { state: "SANDBOX_NOTREADY", ...address });
    containers.set("c", { state: "CONTAINER_EXITED" });
    for (let look = 0; look < 2; look++) {
      await known.sandbox(listedSandbox("s"));
      await known.container(listedContainer("c"));
    }
    expect(asked).toEqual(["s", "c", "s", "c"]);
  });

  it("a sandbox is inspected again while it has no address, except on the host network", async () => {
    const { asked, sandboxes, known } = runtime();
    sandboxes.set("none", { state: "SANDBOX_READY" });
    sandboxes.set("empty", { state: "SANDBOX_READY", network: { ip: "", additionalIps: [] } });
    sandboxes.set("host", { state: "SANDBOX_READY", namespaceOptions: { network: "NODE" } });
    for (let look = 0; look < 2; look++) for (const id of sandboxes.keys()) await known.sandbox(listedSandbox(id));
    expect(asked).toEqual(["none", "empty", "host", "none", "empty"]);
  });

  it("a container is inspected again after its resources were set, even during an inspection", async () => {
    const { asked, containers, known } = runtime();
    containers.set("c", { state: "CONTAINER_RUNNING" });
    const meanwhile = known.container(listedContainer("c"));
    known.forget("c");
    await meanwhile;
    await known.container(listedContainer("c"));
    expect(asked).toEqual(["c", "c"]);
    known.forget("c");
    await known.container(listedContainer("c"));
    await known.container(listedContainer("c"));
    expect(asked).toEqual(["c", "c", "c"]);
  });

  it("a container is removed from the cache when it is gone, and not added if it disappears during the inspection", async () => {
    const { sandboxes, containers, known } = runtime();
    sandboxes.set("s", { state: "SANDBOX_READY", ...address });
    for (const id of ["a", "b"]) containers.set(id, { state: "CONTAINER_RUNNING" });
    await known.sandbox(listedSandbox("s"));
    for (const id of ["a", "b"]) await known.container(listedContainer(id));
    expect(known.size).toBe(3);
    known.keep((id) => id === "a");
    expect(known.size).toBe(1);
    expect([await known.sandbox(listedSandbox("gone")), await known.container(listedContainer("gone"))]).toEqual([undefined, undefined]);
  });

  it("an inspection fails with the runtime's error", async () => {
    const failing = async (): Promise<never> => {
      throw new CriError("Unavailable", "no runtime");
    };
    const known = new KnownStatuses({ podSandboxStatus: failing, containerStatus: failing });
    await expect(known.sandbox(listedSandbox("s"))).rejects.toThrow("no runtime");
    await expect(known.container(listedContainer("c"))).rejects.toThrow("no runtime");
  });
});
