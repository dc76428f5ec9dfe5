/** The configuration of functions that serve all clusters of a directory; nothing in it can be reached. */
import { NO_CLUSTER } from "../../shared/controllers/lambda/clusters/directory-configuration.ts";
import type { Configuration } from "../../shared/controllers/lambda/configuration.ts";

export const MAC_KEYS = ["the MAC key of these clusters"];

export const DIRECTORY_CONFIGURATION: Configuration = {
  ...{ deployment: "prod", cluster: NO_CLUSTER.cid, mode: "shadow", digestKey: "a digest key of this test", macKeys: MAC_KEYS },
  redis: { url: "redis://none.invalid", cluster: false },
  kube: { server: NO_CLUSTER.server },
  queues: {
    deltas: "http://none.invalid/d.fifo",
    doorbells: { deployment: "http://none.invalid/d", replicaset: "http://none.invalid/r", replicationcontroller: "http://none.invalid/c" },
  },
  ...{ logLevel: "error", metrics: "none" },
};
