// Would catch: a flapping condition, an error that is removed while it persists, and a wrong generation.
import { describe, expect, it } from "vitest";
import { granted } from "../../../../shared/node-agent/kubelet/allocation/allocation.ts";
import {
  isPendingChanged,
  resizeConditions,
  resizeMessage,
  withGranted,
  withInProgress,
  withPending,
} from "../../../../shared/node-agent/kubelet/allocation/resize-conditions.ts";
import { ago, containerSpec, nodePod, NOW_MS } from "../fixtures.ts";

const DEFERRED = { cause: "OutOfcpu", reason: "Deferred", message: "no room" } as const;
const atGeneration = (generation: number) =>
  nodePod({
    metadata: { generation },
    initContainers: [containerSpec("side")],
    containers: [containerSpec("app", { resources: { requests: { memory: "1Gi", cpu: "1" }, limits: { cpu: "2" } } })],
  });
const POD = atGeneration(2);
const ROW = granted(POD);
const WAITING = withPending(ROW, POD, DEFERRED, NOW_MS - 10_000);

describe("[node-agent 164] PodResizePending", () => {
  it("reports the reason, the time and the generation", () => {
    const condition = { type: "PodResizePending", status: "True", reason: "Deferred", message: "no room" };
    expect(resizeConditions(WAITING)).toEqual([{ ...condition, observedGeneration: 2, lastTransitionTime: ago(10) }]);
  });

  it.each([
    { name: "does not change for the same result", pod: POD, refusal: DEFERRED, sinceMs: NOW_MS - 10_000, news: false, same: true },
    {
      name: "does not change when only the amounts in the message differ",
      pod: POD,
      refusal: { ...DEFERRED, message: "less room" },
      sinceMs: NOW_MS - 10_000,
      news: false,
    },
    { name: "changes with a new generation", pod: atGeneration(3), refusal: DEFERRED, sinceMs: NOW_MS - 10_000, news: true },
    {
      name: "changes with another reason, and gets a new time",
      pod: POD,
      refusal: { ...DEFERRED, reason: "Infeasible" as const },
      sinceMs: NOW_MS,
      news: true,
    },
  ])("PodResizePending: $name", ({ pod, refusal, sinceMs, news, same = false }) => {
    const after = withPending(WAITING, pod, refusal, NOW_MS);
    expect(after.pending?.sinceMs).toBe(sinceMs);
    expect(isPendingChanged(WAITING, after)).toBe(news);
    expect(after === WAITING).toBe(same);
  });
});

describe("[node-agent 164] PodResizeInProgress", () => {
  const going = withGranted(WAITING, POD, NOW_MS - 5_000);
  const failing = withInProgress(going, atGeneration(3), { error: "no", nowMs: NOW_MS });

  it("PodResizeInProgress replaces PodResizePending", () => {
    const condition = { type: "PodResizeInProgress", status: "True", observedGeneration: 2, lastTransitionTime: ago(5) };
    expect(resizeConditions(going)).toEqual([condition]);
  });

  it("PodResizeInProgress keeps its error and the generation of the granted resize while the failure lasts", () => {
    expect(failing.inProgress).toEqual({ observedGeneration: 2, sinceMs: NOW_MS, reason: "Error", message: "no" });
    expect(withInProgress(failing, POD, { nowMs: NOW_MS + 1 })).toBe(failing);
    expect(withInProgress(failing, POD, { error: "no", nowMs: NOW_MS + 1 })).toBe(failing);
  });

  it("the next grant resets PodResizeInProgress", () => {
    expect(withGranted(failing, atGeneration(4), NOW_MS).inProgress).toEqual({ observedGeneration: 4, sinceMs: NOW_MS });
  });
});

it("[node-agent 164] Events list all requested resources in upstream's format", () => {
  expect(resizeMessage("Pod resize OutOfcpu", POD, 2, "no room")).toBe(
    'Pod resize OutOfcpu: {"initContainers":[{"name":"side","resources":{}}],"containers":[{"name":"app","resources":' +
      '{"limits":{"cpu":"2"},"requests":{"cpu":"1","memory":"1Gi"}}}],"generation":2,"error":"no room"}',
  );
});
