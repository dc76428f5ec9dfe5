// Would catch: a resource that is removed while its pod may still run, or that belongs to an unknown pod before all sources are ready.
import { describe, expect, it } from "vitest";
import * as queries from "../../../../shared/node-agent/kubelet/pod-workers/worker-queries.ts";
import type { WorkerRecord } from "../../../../shared/node-agent/ports/node-store.ts";
import { started } from "../worker-builders.ts";

const TERMINATING = started({ terminatingAtMs: 1 });
const ACKNOWLEDGED = started({ terminatingAtMs: 1, startedTerminating: true });
const TERMINATED = started({ terminatingAtMs: 1, startedTerminating: true, terminatedAtMs: 2 });

const all = (record: WorkerRecord | undefined, syncedOnce: boolean): readonly string[] =>
  Object.entries(queries)
    .filter(([, ask]) => ask(record, syncedOnce))
    .map(([name]) => name)
    .sort();

describe("queries on pod workers", () => {
  it.each<{ id: string; name: string; record?: WorkerRecord; syncedOnce?: boolean; yes: (keyof typeof queries)[] }>([
    { id: "", name: "a syncing pod", record: started(), yes: ["couldHaveRunningContainers"] },
    {
      id: "",
      name: "a killed pod before its worker has noticed",
      record: TERMINATING,
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "a terminating pod",
      record: ACKNOWLEDGED,
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "an evicted terminating pod",
      record: { ...ACKNOWLEDGED, evicted: true },
      yes: ["couldHaveRunningContainers", "isTerminationRequested", "shouldPodContentBeRemoved"],
    },
    {
      id: "",
      name: "a deleted terminating pod",
      record: { ...ACKNOWLEDGED, deleted: true },
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "a terminated pod",
      record: TERMINATED,
      yes: ["isTerminationRequested", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "a deleted terminated pod",
      record: { ...TERMINATED, deleted: true },
      yes: ["isTerminationRequested", "shouldPodContentBeRemoved", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "a finished pod",
      record: { ...TERMINATED, finished: true },
      yes: ["isTerminationRequested", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "an unknown pod",
      yes: ["shouldPodContentBeRemoved", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "[node-agent 121] ",
      name: "an unknown pod while a source is not ready, so that nothing may be removed",
      syncedOnce: false,
      yes: ["couldHaveRunningContainers"],
    },
  ])("$id returns the expected answers to the queries for $name", ({ record, syncedOnce = true, yes }) => {
    expect(all(record, syncedOnce)).toEqual(yes);
    if (record !== undefined) expect(all(record, false)).toEqual(yes);
  });
});
