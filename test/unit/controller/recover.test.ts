// Recovery of the intents of ended runs: expired calls, and the results of live reads.
import { describe, expect, it } from "vitest";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { expiredOps, findingOf } from "../../../shared/controllers/kit/sync/recover.ts";
import type { Intent, Snapshot } from "../../../shared/store/ports/store.ts";

const op = (verb: "create" | "delete", deadlineMs: number, state: Intent["state"] = "pending"): Intent => ({
  id: `${verb}${deadlineMs}`,
  verb,
  name: "a",
  uid: "1",
  state,
  token: "t",
  deadlineMs,
});
const snapshotOf = (...intents: Intent[]): { readonly snapshot: Snapshot } => ({
  snapshot: { dependents: [], orphans: [], intents, failures: 0 },
});
const podOf = (uid: string): KubeObject => ({ metadata: { name: "a", uid, resourceVersion: "1" } });

describe("expiredOps", () => {
  it("expired operations are pending operations past their deadline, or the oldest one if the local clock lags behind the Store's", () => {
    const snapshot = snapshotOf(op("create", 10), op("create", 20), op("create", 30), op("create", 5, "planned"));
    expect(expiredOps(snapshot, 20).map(({ deadlineMs }) => deadlineMs)).toEqual([10, 20]);
    expect(expiredOps(snapshot, 1).map(({ deadlineMs }) => deadlineMs)).toEqual([10]);
    expect(expiredOps(snapshotOf(), 1)).toEqual([]);
  });
});

describe("findingOf", () => {
  const table = [
    {
      name: "a create whose pod exists is done, whatever its controller",
      verb: "create",
      found: podOf("9"),
      want: { end: "lower", gone: false },
    },
    {
      name: "a create whose pod does not exist is retried with the same name",
      verb: "create",
      found: undefined,
      want: { end: "plan", gone: false },
    },
    { name: "a delete whose pod still exists was not executed", verb: "delete", found: podOf("1"), want: { end: "lower", gone: false } },
    { name: "a delete whose pod does not exist is done", verb: "delete", found: undefined, want: { end: "lower", gone: true } },
    { name: "a delete whose name belongs to another pod is done", verb: "delete", found: podOf("9"), want: { end: "lower", gone: true } },
  ] as const;
  it.each(table)("$name", ({ verb, found, want }) => {
    expect(findingOf(op(verb, 1), found)).toMatchObject(want);
  });
});
