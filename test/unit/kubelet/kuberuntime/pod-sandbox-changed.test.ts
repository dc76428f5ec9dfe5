// Would catch: a working sandbox that is replaced, a broken one that is kept, and an attempt number that the runtime rejects.
import { describe, expect, it } from "vitest";
import { podSandboxChanged } from "../../../../shared/node-agent/kubelet/kuberuntime/compute-pod-actions.ts";
import { nodePod, NOTHING, NOW_MS, observed, sandbox } from "../fixtures.ts";

describe("podSandboxChanged", () => {
  const NO_IP = { ip: "", additionalIps: [] };
  const newer = (fields: Parameters<typeof sandbox>[0] = {}) =>
    sandbox({ id: "sandbox-1", attempt: 1, createdAtMs: NOW_MS - 1000, ...fields });
  const { network: _, ...withoutNetwork } = sandbox();
  const { networkMode: __, ...withoutMode } = sandbox();

  const table = [
    { name: "keeps a ready sandbox", sandboxes: [sandbox()], want: { changed: false, attempt: 0, sandboxId: "sandbox-0" } },
    { name: "creates attempt 0 when there is no sandbox", sandboxes: [], want: { changed: true, attempt: 0, sandboxId: "" } },
    {
      name: "replaces a sandbox that is not ready",
      sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })],
      want: { changed: true, attempt: 1, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps the newest sandbox if older ones are dead",
      sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" }), newer()],
      want: { changed: false, attempt: 1, sandboxId: "sandbox-1" },
    },
    {
      name: "does not go back to an older ready sandbox",
      sandboxes: [sandbox(), newer({ state: "SANDBOX_NOTREADY" })],
      want: { changed: true, attempt: 2, sandboxId: "sandbox-1" },
    },
    { name: "replaces two ready sandboxes", sandboxes: [sandbox(), newer()], want: { changed: true, attempt: 2, sandboxId: "sandbox-1" } },
    {
      name: "replaces a sandbox on the host network if the pod has its own network",
      sandboxes: [sandbox({ networkMode: "NODE" })],
      want: { changed: true, attempt: 1, sandboxId: "" },
    },
    {
      name: "replaces a sandbox with its own network if the pod is on the host network",
      hostNetwork: true,
      sandboxes: [sandbox()],
      want: { changed: true, attempt: 1, sandboxId: "" },
    },
    {
      name: "replaces a sandbox that lost its IP",
      sandboxes: [sandbox({ network: NO_IP })],
      want: { changed: true, attempt: 1, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps a sandbox without an IP on the host network",
      hostNetwork: true,
      sandboxes: [sandbox({ networkMode: "NODE", network: NO_IP })],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps a sandbox whose network status is absent",
      sandboxes: [withoutNetwork],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
    {
      name: "treats an absent network mode as the pod's own network",
      sandboxes: [withoutMode],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
  ];
  it.each(table)("podSandboxChanged $name", ({ hostNetwork, sandboxes, want }) => {
    const pod = nodePod(hostNetwork === undefined ? {} : { hostNetwork });
    expect(podSandboxChanged(pod, observed({ sandboxes }))).toMatchObject(want);
  });

  it("creates a sandbox for a pod that the runtime does not know", () => {
    expect(podSandboxChanged(nodePod(), NOTHING)).toMatchObject({ changed: true, attempt: 0, sandboxId: "" });
  });
});
