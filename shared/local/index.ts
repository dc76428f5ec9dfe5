export { assembleSystem, memoryBackend } from "./assemble-system.ts";
export type { MakeHandlers, MemoryBackend, RunningWatcher, SystemOptions, SystemPorts } from "./assemble-system.ts";
export { startFauxqs } from "./fauxqs.ts";
export type { OwnSqs } from "./fauxqs.ts";
export { startFunctionHost } from "./function-host.ts";
export type { FunctionHandlers } from "./function-host.ts";
export { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_DEAD_QUEUE, DOORBELL_QUEUE, createQueues, queueUrls } from "./queues.ts";
export type { LocalQueues } from "./queues.ts";
export { remoteFunctions, serveFunctions } from "./remote-functions.ts";
