// Would catch: a decision that is printed with counters only, without its condition or revision, and a change with only one readable value.
import { expect, it } from "vitest";

import { describeTrace } from "../../../../cli/explain/describe.ts";
import { Repeats } from "../../../../cli/replay/repeats.ts";
import type { Replaced } from "../../../../shared/controllers/kit/replaced.ts";
import { replacedBy } from "../../../../shared/controllers/kit/replaced.ts";
import type { Write } from "../../../../shared/controllers/kit/writes.ts";
import type { Row } from "../../../../shared/store/ports/store.ts";

const owner = { resource: "deployments", namespace: "shop", name: "web", uid: "u" } as const;
const REVISION = "deployment.kubernetes.io/revision";
type StatusWrite = Extract<Write, { kind: "UpdateStatus" }>;
const statusWrite = (status: StatusWrite["status"], more: Partial<StatusWrite> = {}): Write => ({
  kind: "UpdateStatus",
  owner,
  resourceVersion: "7",
  status,
  absent: [],
  ...more,
});
const said = (write: Write, replaced?: Replaced): string =>
  describeTrace({ controller: "deployment", key: "shop/web", kind: "decided", write, ...(replaced && { replaced }) });
const progressing = { type: "Progressing", status: "True", reason: "ReplicaSetUpdated", lastUpdateTime: "2026-03-01T10:00:00Z" } as const;
const late = { ...progressing, status: "False", reason: "ProgressDeadlineExceeded" } as const;

it.each([
  {
    name: "counters that change, with their previous values",
    to: { replicas: 3, readyReplicas: 2 },
    was: { replicas: 3 },
    want: "status: ready 0 → 2",
  },
  {
    name: "all counters if no previous status is known",
    to: { replicas: 3, readyReplicas: 2 },
    was: undefined,
    want: "status: replicas 3, ready 2",
  },
  {
    name: "a newly observed generation",
    to: { observedGeneration: 2 },
    was: { observedGeneration: 1 },
    want: "status: observed generation 1 → 2",
  },
  { name: "a new condition", to: { conditions: [progressing] }, was: {}, want: "status: Progressing True (ReplicaSetUpdated)" },
  {
    name: "a condition whose status changes",
    to: { conditions: [late] },
    was: { conditions: [progressing] },
    want: "status: Progressing True → False (ProgressDeadlineExceeded)",
  },
  {
    name: "a condition of which only the reason changes",
    to: { conditions: [{ ...progressing, reason: "NewReplicaSetAvailable" }] },
    was: { conditions: [progressing] },
    want: "status: Progressing True (NewReplicaSetAvailable)",
  },
  {
    name: "a condition of which only the time changes",
    to: { conditions: [{ ...progressing, lastUpdateTime: "2026-03-01T10:00:09Z" }] },
    was: { conditions: [progressing] },
    want: "status: Progressing refreshed",
  },
  { name: "a removed condition", to: { conditions: [] }, was: { conditions: [progressing] }, want: "status: Progressing removed" },
  { name: "no change", to: { replicas: 3, conditions: [late] }, was: { replicas: 3, conditions: [late] }, want: "status: unchanged" },
] as const)("a status write shows $name", ({ to, was, want }) => {
  expect(said(statusWrite(to), was && { status: was })).toBe(want);
});

it("shows removed counters and the revision in a status change", () => {
  const write = statusWrite({ replicas: 2 }, { absent: ["readyReplicas", "availableReplicas"], annotations: { [REVISION]: "2" } });
  const replaced = { status: { replicas: 2, readyReplicas: 2 }, annotations: { [REVISION]: "1" } };
  expect(said(write, replaced)).toBe("status: ready 2 → 0, revision 1 → 2");
});

const patch: Write = {
  kind: "PatchReplicaSet",
  owner,
  name: "web-1",
  uid: "r",
  resourceVersion: "8",
  replicas: 5,
  annotations: { [REVISION]: "3" },
};

it("shows sizes and annotations of a ReplicaSet with their previous values", () => {
  expect(said(patch, { replicas: 2, annotations: { [REVISION]: "1" } })).toBe("patch ReplicaSet web-1: replicas 2 → 5, revision 1 → 3");
  expect(said(patch)).toBe("patch ReplicaSet web-1: replicas 5, revision 3");
});

const row = (uid: string, object: object): Row => ({ key: "shop/x", uid, rv: "7", gone: false, object }) as unknown as Row; // only the requested part

it("shows a replaced object as cached by the run, without internal terms", () => {
  const foreign = { type: "ReplicaFailure", status: "True", message: 'webhook "x" denied it: s3cret' };
  const primary = row("u", {
    metadata: { annotations: { [REVISION]: "1", team: "blue", constructor: "x" } },
    spec: { replicas: 4 },
    status: { conditions: [foreign] },
  });
  const dependents = [row("r", { metadata: {}, spec: { replicas: 2, minReadySeconds: 1 }, status: {} })];
  const snapshot = { primary, dependents };
  expect(replacedBy(patch, snapshot)).toEqual({ replicas: 2, minReadySeconds: 1 });
  const replaced = replacedBy(statusWrite({}, { annotations: { [REVISION]: "2" } }), snapshot);
  expect(Object.entries(replaced?.annotations ?? {})).toEqual([[REVISION, "1"]]);
  expect(JSON.stringify(replaced)).not.toContain("s3cret");
  expect(replacedBy(patch, { dependents: [] })).toBeUndefined();
  expect(replacedBy({ kind: "CreatePods", owner, count: 1, template: { generation: 1, digest: "d" } }, snapshot)).toBeUndefined();
});

it("shows a repeated decision of a key once, with its count", () => {
  const repeats = new Repeats();
  const of = (key: string, text: string, when: string): unknown => Object.values(repeats.next(key, text, when));
  expect(of("a", "create 2", "1s")).toEqual([true, undefined]);
  expect(of("b", "create 2", "1s")).toEqual([true, undefined]);
  expect(of("a", "create 2", "2s")).toEqual([false, undefined]);
  expect(of("a", "create 2", "3s")).toEqual([false, undefined]);
  expect(of("a", "create 1", "4s")).toEqual([true, "its next 2 syncs, until 3s, decided the same"]);
  expect(of("a", "", "5s")).toEqual([true, undefined]);
  expect(of("a", "", "6s")).toEqual([true, undefined]);
  expect(of("b", "create 2", "7s")).toEqual([false, undefined]);
  expect([...repeats.rest()]).toEqual([["b", "its next sync, at 7s, decided the same"]]);
});
