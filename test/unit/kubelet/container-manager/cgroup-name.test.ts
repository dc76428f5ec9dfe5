// Would catch: a pod in the wrong cgroup, a cgroup whose name differs from the runtime's, and a pod's cgroup that is not recognised.
import { describe, expect, it } from "vitest";
import { kubepodsCgroup, podCgroup, podUidOf, qosCgroup } from "../../../../shared/node-agent/kubelet/container-manager/cgroup-name.ts";
import type { NodeOptions } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import { containerSpec, nodePod } from "../fixtures.ts";
import { OPTIONS } from "../../../harness/node/fixtures.ts";

const some = { requests: { cpu: "1" } };
const all = { requests: { cpu: "1", memory: "1Gi" }, limits: { cpu: "1", memory: "1Gi" } };
const SYSTEMD: Partial<NodeOptions> = { cgroupDriver: "systemd" };

const table: readonly { name: string; resources?: object; options?: Partial<NodeOptions>; want: string }[] = [
  { name: "BestEffort", want: "/kubepods/besteffort/poda-b-c" },
  { name: "Burstable", resources: some, want: "/kubepods/burstable/poda-b-c" },
  { name: "Guaranteed", resources: all, want: "/kubepods/poda-b-c" },
  { name: "under another root", options: { cgroupRoot: "/agents/n-1/" }, want: "/agents/n-1/kubepods/besteffort/poda-b-c" },
  {
    name: "BestEffort by systemd",
    options: SYSTEMD,
    want: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-poda_b_c.slice",
  },
  {
    name: "Burstable by systemd",
    resources: some,
    options: SYSTEMD,
    want: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-poda_b_c.slice",
  },
  { name: "Guaranteed by systemd", resources: all, options: SYSTEMD, want: "/kubepods.slice/kubepods-poda_b_c.slice" },
  {
    name: "under another root by systemd",
    resources: all,
    options: { ...SYSTEMD, cgroupRoot: "/agents/n-1" },
    want: "/agents.slice/agents-n_1.slice/agents-n_1-kubepods.slice/agents-n_1-kubepods-poda_b_c.slice",
  },
];

describe("podCgroup", () => {
  it.each(table)("[node-agent 180] pod cgroup, $name: $want", ({ resources, options = {}, want }) => {
    const pod = nodePod({ uid: "a-b-c", containers: [containerSpec("foo1", resources && { resources })] });
    expect(podCgroup({ ...OPTIONS, ...options }, pod)).toBe(want);
  });

  it("[node-agent 180] a pod's cgroup is below the cgroup of its QoS class, which is below kubepods", () => {
    for (const options of [OPTIONS, { ...OPTIONS, ...SYSTEMD }]) {
      const parent = qosCgroup(options, "BestEffort");
      expect(podCgroup(options, nodePod()).startsWith(`${parent}/`)).toBe(true);
      expect(parent.startsWith(`${kubepodsCgroup(options)}/`)).toBe(true);
      expect(qosCgroup(options, "Guaranteed")).toBe(kubepodsCgroup(options));
    }
  });
});

describe("podUidOf", () => {
  const UID = "0a1b2c3d-0000-4000-8000-000000000001";
  const names: readonly (readonly [string, string | undefined])[] = [
    [`pod${UID}`, UID],
    ["pod0a1b2c3d0a1b2c3d0a1b2c3d0a1b2c3d", "0a1b2c3d0a1b2c3d0a1b2c3d0a1b2c3d"],
    [`kubepods-pod${UID.replaceAll("-", "_")}.slice`, UID],
    [`agents-n_1-kubepods-burstable-pod${UID.replaceAll("-", "_")}.slice`, UID],
    ["burstable", undefined],
    ["kubepods-besteffort.slice", undefined],
    ["podman", undefined],
    ["system.slice", undefined],
  ];
  it.each(names)("[node-agent 180] the cgroup name %s has the pod UID %s", (name, want) => expect(podUidOf(name)).toBe(want));
});
