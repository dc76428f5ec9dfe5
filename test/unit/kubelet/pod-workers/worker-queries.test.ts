// Would catch: something taken away of a pod that may still run, or of an unknown one before all sources have spoken.
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
      name: "one that was killed, not noticed yet",
      record: TERMINATING,
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "one that is being stopped",
      record: ACKNOWLEDGED,
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "an evicted one that is being stopped",
      record: { ...ACKNOWLEDGED, evicted: true },
      yes: ["couldHaveRunningContainers", "isTerminationRequested", "shouldPodContentBeRemoved"],
    },
    {
      id: "",
      name: "a deleted one that is being stopped",
      record: { ...ACKNOWLEDGED, deleted: true },
      yes: ["couldHaveRunningContainers", "isTerminationRequested"],
    },
    {
      id: "",
      name: "one that has stopped",
      record: TERMINATED,
      yes: ["isTerminationRequested", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "a deleted one that has stopped",
      record: { ...TERMINATED, deleted: true },
      yes: ["isTerminationRequested", "shouldPodContentBeRemoved", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "a finished one",
      record: { ...TERMINATED, finished: true },
      yes: ["isTerminationRequested", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "",
      name: "an unknown one",
      yes: ["shouldPodContentBeRemoved", "shouldRuntimeObjectsBeRemoved"],
    },
    {
      id: "[node-agent 121] ",
      name: "an unknown one while a source is silent: nothing of it may go",
      syncedOnce: false,
      yes: ["couldHaveRunningContainers"],
    },
  ])("$id$name", ({ record, syncedOnce = true, yes }) => {
    expect(all(record, syncedOnce)).toEqual(yes);
    if (record !== undefined) expect(all(record, false)).toEqual(yes);
  });
});
