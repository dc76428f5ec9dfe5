/**
 * Facts about Redis for diagnosis by a user: server, streams, intents. It only reads, with single reads instead of scripts: no decision
 * depends on them, so a concurrent change is harmless.
 */
import { lanesOf } from "../../lane.ts";
import type { StoreOptions } from "../../store-options.ts";
import { BUILT_IN, ownerIdIn } from "@deltaloop/kube/objects";
import type { View, ControllerName, ObjectKey } from "@deltaloop/kube/objects";
import type { Intent } from "../../ports/store.ts";
import { parsePrimary } from "../changes.ts";
import { redisClient } from "../client.ts";
import { parseIntents } from "../intent-store.ts";
import { deploymentKeys } from "../keys.ts";
import { serverFacts } from "../server.ts";
import type { RedisServerFacts } from "../server.ts";

/**
 * The stream of one resource, from its metadata hash (`m`) and the state hashes of its lanes (`l`; informer §11.1). Absent if it is not
 * written yet.
 */
export interface StreamFacts {
  readonly resource: View;
  readonly state: string;
  readonly fence?: string;
  /** The newest version that the watcher has sent to the delta queue in all lanes. */
  readonly sentRV?: string;
  readonly lanes: readonly LaneFacts[];
}

export interface LaneFacts {
  /** All events at or below this version are applied. */
  readonly watermark: string;
  readonly frozen: boolean;
  readonly holeSinceMs?: number;
  /** When a message of this resource was last applied, by Redis' clock. */
  readonly appliedAtMs?: number;
}

/** The intents of one owner. */
export interface OwnerIntents {
  readonly controller: ControllerName;
  readonly key: ObjectKey;
  readonly intents: readonly Intent[];
}

export interface RedisProbe {
  /** Returns facts about the server, with the time of Redis in milliseconds. */
  server(): Promise<RedisServerFacts & { readonly timeMs: number }>;
  streams(epoch: string): Promise<readonly StreamFacts[]>;
  /** The owners with intents among the first `ownersMax` of each controller. `owners`: the total number. */
  intents(epoch: string, ownersMax: number): Promise<{ readonly owners: number; readonly found: readonly OwnerIntents[] }>;
  /** The error of a lost connection, if any. */
  lastError(): Error | undefined;
  close(): void;
}

/** Creates a probe on its own connection. */
export function createRedisProbe(
  redis: Parameters<typeof redisClient>[0],
  { deployment, cluster, catalog = BUILT_IN }: Pick<StoreOptions, "deployment" | "cluster" | "catalog">,
): RedisProbe {
  let lastError: Error | undefined;
  const client = redisClient(redis).on("error", (error: Error) => (lastError = error));
  const names = deploymentKeys(deployment, cluster);
  return {
    async server() {
      const [info, [seconds, micros]] = await Promise.all([client.info(), client.time()]);
      return { ...serverFacts(info), timeMs: Number(seconds) * 1000 + Math.floor(Number(micros) / 1000) };
    },

    async streams(epoch) {
      const inEpoch = names.of(epoch);
      return await Promise.all(
        catalog.views.map(async (resource): Promise<StreamFacts> => {
          const meta = await client.hgetall(inEpoch.meta(resource));
          const lanes = Array.from({ length: Number(meta["lanes"] ?? lanesOf(resource)) }, async (_, lane) =>
            laneFacts(await client.hgetall(inEpoch.laneState(resource, lane))),
          );
          const { state = "INIT", fence, sentRV } = meta;
          return { resource, state, ...(fence && { fence }), ...(sentRV && { sentRV }), lanes: await Promise.all(lanes) };
        }),
      );
    },

    async intents(epoch, ownersMax) {
      const inEpoch = names.of(epoch);
      let owners = 0;
      const found: OwnerIntents[] = [];
      for (const controller of catalog.controllers) {
        const primaries = Object.entries(await client.hgetall(inEpoch.queue(controller)[3]));
        owners += primaries.length;
        const read = primaries.slice(0, ownersMax).map(async ([key, value]): Promise<OwnerIntents> => {
          const { uid = "" } = parsePrimary(catalog, value);
          const fields = await client.hgetall(inEpoch.intents(ownerIdIn(catalog, controller, key, uid)));
          return { controller, key, intents: parseIntents(Object.entries(fields)) };
        });
        found.push(...(await Promise.all(read)).filter(({ intents }) => intents.length > 0));
      }
      return { owners, found };
    },

    lastError: () => lastError,
    close: () => client.disconnect(),
  };
}

function laneFacts(fields: Readonly<Record<string, string>>): LaneFacts {
  const { W = "0", frozen, holeSince = "", ts = "" } = fields;
  return {
    watermark: W,
    frozen: frozen === "1",
    ...(holeSince !== "" && { holeSinceMs: Number(holeSince) }),
    ...(ts !== "" && { appliedAtMs: Number(ts) }),
  };
}
