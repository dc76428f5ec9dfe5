export { releaseMemoryWhenQuiet } from "./processes/idle-memory.ts";
export { LEAN_HEAP, LOOKUP_THREADS, startMessagingVerb, startVerb } from "./processes/child-process.ts";
export type { Child, MessagingChild } from "./processes/child-process.ts";
export { followSecrets, readConfiguration } from "./processes/configuration.ts";
export { freePort, startLocalRedis } from "./processes/local-redis.ts";
export type { LocalRedis } from "./processes/local-redis.ts";
export { createOwnFolder } from "./processes/own-folder.ts";
export { untilSignalled, untilStdinEnds } from "./processes/signals.ts";
