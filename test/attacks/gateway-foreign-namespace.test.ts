// Threat: a forged row of an owner states another namespace, and pods of that namespace are deleted on the owner's behalf.
import { expect, it } from "vitest";

import { objectKey } from "../../shared/kube/objects/resources.ts";
import { strip } from "../../shared/kube/strip/strip.ts";
import { createSession } from "../../shared/controllers/kit/sync/session.ts";
import { syncReplicaSet } from "../../shared/controllers/replicaset/sync.ts";
import { SyncHarness } from "../harness/sync/sync.ts";
import { pod, replicaSet } from "../support/workloads.ts";

it("a sync of shop/web fails and writes nothing if its snapshot contains objects of the namespace bank", async () => {
  const harness = await SyncHarness.create();
  const bank = { namespace: "bank" };
  const { metadata, ...rest } = replicaSet({ replicas: 0 });
  const owner = await harness.api.put("replicasets", { ...rest, metadata: { ...metadata, ...bank } });
  const { metadata: podMetadata, ...podRest } = pod({ name: "victim", owner: { uid: owner.metadata.uid } });
  const victim = await harness.api.put("pods", { ...podRest, metadata: { ...podMetadata, ...bank } });
  const row = { key: objectKey("shop", "web"), uid: owner.metadata.uid, rv: owner.metadata.resourceVersion, gone: false };
  const podRow = { key: objectKey("shop", "victim"), uid: victim.metadata.uid, rv: victim.metadata.resourceVersion, gone: false };
  const run = {
    epoch: "epoch-1",
    controller: "replicaset" as const,
    key: "shop/web",
    token: "t",
    mayWrite: () => true,
    snapshot: {
      primary: { ...row, object: strip("replicasets", owner, harness.digester) },
      dependents: [{ ...podRow, object: strip("pods", victim, harness.digester) }],
      orphans: [],
      intents: [],
      failures: 0,
    },
  };
  const registerIntents = async (): Promise<"ok"> => "ok";
  const session = createSession({ ...harness.ports, store: { ...harness.ports.store, registerIntents } }, run);
  await expect(syncReplicaSet(session)).rejects.toThrow("namespace");
  expect(harness.api.writes).toEqual([]);
  expect(harness.api.events).toEqual([]);
});
