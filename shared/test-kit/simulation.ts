export { createCallFaults } from "./crashes/call-faults.ts";
export type { Call, CallFaults, Fault } from "./crashes/call-faults.ts";
export { openWorld } from "./world/world.ts";
export type { Hooks } from "./world/pipeline.ts";
export type { OpenWorld } from "./world/types.ts";
