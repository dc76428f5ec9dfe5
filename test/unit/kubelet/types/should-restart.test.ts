// Would catch: a container that restarts although its policy or its pod's end forbids it, and a container that does not restart although it
// should.
import { describe, expect, it } from "vitest";
import { shouldContainerBeRestarted } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import type { ObservedContainer } from "../../../../shared/node-agent/kubelet/types/observed-pod.ts";
import { container, containerSpec, exited, nodePod, observed, sidecarSpec } from "../fixtures.ts";

type Policy = "Always" | "OnFailure" | "Never";

describe("shouldContainerBeRestarted", () => {
  const newest: Readonly<Record<string, readonly ObservedContainer[]>> = {
    "not created": [],
    RUNNING: [container()],
    CREATED: [container({ state: "CONTAINER_CREATED" })],
    UNKNOWN: [container({ state: "CONTAINER_UNKNOWN" })],
    "EXITED 0": [exited("foo1", 0)],
    "EXITED 1": [exited("foo1", 1)],
    "EXITED 0, stopped for a restart": [exited("foo1", 0, { endedForRestart: true })],
    "EXITED 0, the previous one stopped for a restart": [
      exited("foo1", 0, { endedForRestart: true }),
      exited("foo1", 0, { restartCount: 1 }),
    ],
    "EXITED 1, then RUNNING": [exited("foo1", 1), container({ restartCount: 1 })],
  };
  const table: readonly { readonly name: string; readonly restarts: readonly Policy[] }[] = [
    { name: "not created", restarts: ["Always", "OnFailure", "Never"] },
    { name: "RUNNING", restarts: [] },
    { name: "CREATED", restarts: ["Always", "OnFailure", "Never"] },
    { name: "UNKNOWN", restarts: ["Always", "OnFailure", "Never"] },
    { name: "EXITED 0", restarts: ["Always"] },
    { name: "EXITED 1", restarts: ["Always", "OnFailure"] },
    { name: "EXITED 1, then RUNNING", restarts: [] },
    { name: "EXITED 0, stopped for a restart", restarts: ["Always", "OnFailure", "Never"] },
    { name: "EXITED 0, the previous one stopped for a restart", restarts: ["Always"] },
  ];
  it.each(table)("a container that is $name restarts under $restarts", ({ name, restarts }) => {
    const spec = containerSpec("foo1");
    const seen = observed({ containers: newest[name] ?? [] });
    const policies: readonly Policy[] = ["Always", "OnFailure", "Never"];
    const answers = policies.filter((restartPolicy) => shouldContainerBeRestarted(nodePod({ restartPolicy }), spec, seen));
    expect(answers).toEqual(restarts);
    const deleted = nodePod({ deletionTimestamp: "2026-03-01T09:59:00Z" });
    expect(shouldContainerBeRestarted(deleted, spec, seen)).toBe(false);
  });

  it("uses the container's own policy first, and Always by default", () => {
    const seen = observed({ containers: [exited("foo1", 0)] });
    expect(shouldContainerBeRestarted(nodePod({ restartPolicy: "Never" }), sidecarSpec("foo1"), seen)).toBe(true);
    expect(shouldContainerBeRestarted(nodePod(), containerSpec("foo1", { restartPolicy: "Never" }), seen)).toBe(false);
    const { restartPolicy: _, ...spec } = nodePod().spec;
    expect(shouldContainerBeRestarted({ ...nodePod(), spec }, containerSpec("foo1"), seen)).toBe(true);
  });

  const ruled: readonly { readonly policy: Policy; readonly operator: string; readonly restarts: readonly number[] }[] = [
    { policy: "Never", operator: "In", restarts: [7, 42] },
    { policy: "Never", operator: "NotIn", restarts: [0, 1] },
    { policy: "OnFailure", operator: "In", restarts: [1, 7, 42] },
  ];
  it.each(ruled)(
    "a restart rule for exit codes $operator [7, 42] under $policy restarts the container after $restarts",
    ({ policy, operator, restarts }) => {
      const restartPolicyRules = [{ action: "Restart", exitCodes: { operator, values: [7, 42] } }];
      const pod = nodePod({ restartPolicy: "Never" });
      const after = (exitCode: number, spec: ReturnType<typeof containerSpec>): boolean =>
        shouldContainerBeRestarted(pod, spec, observed({ containers: [exited("foo1", exitCode)] }));
      const spec = containerSpec("foo1", { restartPolicy: policy, restartPolicyRules });
      expect([0, 1, 7, 42].filter((exitCode) => after(exitCode, spec))).toEqual(restarts);
      expect(after(42, containerSpec("foo1", { restartPolicyRules }))).toBe(false); // the container has no restart policy of its own
    },
  );
});
