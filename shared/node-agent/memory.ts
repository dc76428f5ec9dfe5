export { createMemoryCgroups } from "./memory/cgroups.ts";
export { createMemoryCri } from "./memory/cri/cri.ts";
export { createMemoryNodeStore } from "./memory/node-store.ts";
