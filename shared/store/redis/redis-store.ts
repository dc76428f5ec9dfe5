/**
 * The Store on Redis (or Valkey): every verb is one Lua script over named keys of one hash slot, so it is atomic on any
 * deployment, clusters included. Key layout: informer §11.1.
 */
import type { Cluster, Redis } from "ioredis";
import type { Store } from "../ports/store.ts";
import { createContext } from "./context.ts";
import type { RedisStoreOptions } from "./context.ts";
import { createEpochStore } from "./epoch-store.ts";
import { createEventStore } from "./event-store.ts";
import { createIndexStore } from "./index-store.ts";
import { createIntentStore } from "./intent-store.ts";
import { createJanitor } from "./janitor.ts";
import { createKeyStore } from "./key-store.ts";
import { createStopStore } from "./stop-store.ts";
import { createTallyStore } from "./tally-store.ts";
import { createWorkQueue } from "./work-queue.ts";

/**
 * @param client owned by the caller: `close` does not end it. For a Cluster leave `scaleReads` at "master", because replicas lag.
 */
export function createRedisStore(client: Redis | Cluster, options: RedisStoreOptions): Store {
  const context = createContext(client, options);
  const queue = createWorkQueue(context);
  return {
    ...createEpochStore(context),
    ...createIndexStore(context),
    ...queue,
    ...createIntentStore(context),
    ...createKeyStore(context, queue),
    ...createEventStore(context),
    ...createJanitor(context),
    ...createTallyStore(context),
    ...createStopStore(context),
    close: async () => {},
  };
}
