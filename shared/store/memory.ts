export { createMemoryDeltaQueue } from "./memory/queue/delta-queue.ts";
export type { DeltaQueueFaults, MemoryDeltaQueue } from "./memory/queue/delta-queue.ts";
export { createMemoryDoorbells } from "./memory/queue/doorbells.ts";
export type { DoorbellFaults, MemoryDoorbells } from "./memory/queue/doorbells.ts";
export type { QueueFaults } from "./memory/queue/queue.ts";
export { createMemoryData, withCatalog } from "./memory/store/data.ts";
export type { MemoryData } from "./memory/store/data.ts";
export { createMemoryStore } from "./memory/store/store.ts";
