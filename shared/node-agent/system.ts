export { createCgroups } from "./system/cgroups.ts";
export { readMachineFacts } from "./system/machine-facts.ts";
export { readMachineStats, readMachineUsage } from "./system/node-usage.ts";
