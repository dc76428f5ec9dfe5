export { createDueWatch } from "./host/due-watch.ts";
export { meterCri } from "./host/metered-cri.ts";
export { createNodeBackend } from "./host/node-backend.ts";
export { createNodeQueues, runNodeHost } from "./host/node-host.ts";
export type { NodeHandlers } from "./host/node-host.ts";
export { createNodeKube } from "./host/node-kube.ts";
export { RootInUseError, lockRoot } from "./host/root-lock.ts";
export { shareLists } from "./host/shared-lists.ts";
