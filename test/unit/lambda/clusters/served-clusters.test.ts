import { expect, it } from "vitest";

import type { ClusterValues } from "../../../../shared/controllers/lambda/clusters/cluster-values.ts";
import { createServedClusters } from "../../../../shared/controllers/lambda/clusters/served-clusters.ts";
import { fixedConfiguration } from "../../../../shared/controllers/lambda/live-configuration.ts";
import { createSystemClock } from "../../../../shared/base/system/clock.ts";
import type { ListedValue } from "../../../../shared/kube/clusters.ts";
import { kubeconfigFrom } from "../../../../shared/kube/kubeconfig/schema.ts";
import { createMemoryStore } from "../../../../shared/store/memory/store/store.ts";
import { DIRECTORY_CONFIGURATION } from "../../../support/directory-configuration.ts";
import { kubeconfigOf } from "../../../support/kubeconfig.ts";
import { silentLog } from "../../../support/silent-log.ts";

const SERVER = "https://192.0.2.7";
it("lists each cluster with the name that its value has now", async () => {
  const config = kubeconfigFrom(JSON.parse(kubeconfigOf({ server: SERVER }, { token: "t" })), "test");
  const value: ListedValue = { kind: "listed", cid: "0a".repeat(16), name: "blue", server: SERVER, isPaused: false, config };
  let now = value;
  const values = { list: () => Promise.resolve([now]) } as unknown as ClusterValues; // list() reads no other part
  const served = createServedClusters({
    ...{
      component: "sweep",
      role: "deltaloop-sweep",
      live: fixedConfiguration(DIRECTORY_CONFIGURATION),
      values,
      allowed: new Set(),
      log: silentLog,
    },
    shared: {
      makeStore: (options) => createMemoryStore({ ...options, clock: createSystemClock() }),
      sqs: { call: () => Promise.reject(new Error("unexpected call of SQS")), close: () => undefined } as never,
      close: () => undefined,
    },
    create: () => undefined,
    clock: createSystemClock(),
  });
  const names = async () => (await served.list()).map(({ cid, wiring }) => [cid, wiring.name]);
  expect(await names()).toEqual([[value.cid, "blue"]]);
  now = { ...value, name: "indigo" };
  expect(await names()).toEqual([[value.cid, "indigo"]]);
});
