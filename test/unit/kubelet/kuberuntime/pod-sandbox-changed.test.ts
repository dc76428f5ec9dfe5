// Would catch: a sandbox that is replaced though it serves, kept though it does not, or numbered so that the runtime refuses it.
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
    { name: "keeps one that is ready", sandboxes: [sandbox()], want: { changed: false, attempt: 0, sandboxId: "sandbox-0" } },
    { name: "makes attempt 0 when there is none", sandboxes: [], want: { changed: true, attempt: 0, sandboxId: "" } },
    {
      name: "replaces one that is not ready",
      sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" })],
      want: { changed: true, attempt: 1, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps the newest beside dead ones",
      sandboxes: [sandbox({ state: "SANDBOX_NOTREADY" }), newer()],
      want: { changed: false, attempt: 1, sandboxId: "sandbox-1" },
    },
    {
      name: "does not go back to an older one that is ready",
      sandboxes: [sandbox(), newer({ state: "SANDBOX_NOTREADY" })],
      want: { changed: true, attempt: 2, sandboxId: "sandbox-1" },
    },
    { name: "replaces two that are ready", sandboxes: [sandbox(), newer()], want: { changed: true, attempt: 2, sandboxId: "sandbox-1" } },
    {
      name: "replaces one on the host's network, with nothing to hand on",
      sandboxes: [sandbox({ networkMode: "NODE" })],
      want: { changed: true, attempt: 1, sandboxId: "" },
    },
    {
      name: "replaces one that is not on the host's network but should be",
      hostNetwork: true,
      sandboxes: [sandbox()],
      want: { changed: true, attempt: 1, sandboxId: "" },
    },
    {
      name: "replaces one that lost its IP",
      sandboxes: [sandbox({ network: NO_IP })],
      want: { changed: true, attempt: 1, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps one without an IP on the host's network",
      hostNetwork: true,
      sandboxes: [sandbox({ networkMode: "NODE", network: NO_IP })],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
    {
      name: "keeps one of whose network nothing is said",
      sandboxes: [withoutNetwork],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
    {
      name: "reads an unsaid mode as a network of its own",
      sandboxes: [withoutMode],
      want: { changed: false, attempt: 0, sandboxId: "sandbox-0" },
    },
  ];
  it.each(table)("podSandboxChanged $name", ({ hostNetwork, sandboxes, want }) => {
    const pod = nodePod(hostNetwork === undefined ? {} : { hostNetwork });
    expect(podSandboxChanged(pod, observed({ sandboxes }))).toMatchObject(want);
  });

  it("creates a sandbox for an unknown pod", () => {
    expect(podSandboxChanged(nodePod(), NOTHING)).toMatchObject({ changed: true, attempt: 0, sandboxId: "" });
  });
});
