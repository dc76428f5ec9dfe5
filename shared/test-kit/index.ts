export { decide } from "./decide/decide.ts";
export { world } from "./world/world.ts";
export type { Decision, Given, GivenMeta, GivenObject } from "./decide/given.ts";
export type { WorldWrite } from "./world/record.ts";
export type { EveryCrashOptions, Scenario, Stored, StoredObject, World, WorldOptions } from "./world/types.ts";
