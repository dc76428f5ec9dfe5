export { releaseMemoryWhenQuiet } from "./processes/idle-memory.ts";
export { LEAN_HEAP, startMessagingVerb, startVerb, WATCHER_ENVIRONMENT } from "./processes/child-process.ts";
export type { Child, MessagingChild } from "./processes/child-process.ts";
export { followSecrets, readConfiguration } from "./processes/configuration.ts";
export { freePort, startLocalRedis } from "./processes/local-redis.ts";
export type { LocalRedis } from "./processes/local-redis.ts";
export { createOwnFolder } from "./processes/own-folder.ts";
export { untilSignalled, untilStdinEnds } from "./processes/signals.ts";
