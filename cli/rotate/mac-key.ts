import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import { describeUse, isClean, keyUses } from "../cluster/key-uses.ts";
import { redisFailure } from "../cluster/redis-failure.ts";
import { UsageError } from "@deltaloop/base";
import { assertKeys, newKey, openRotation, write } from "./rotation.ts";
import type { Rotation } from "./rotation.ts";

/**
 * Four values of one secret: `old`, `old,new`, `new,old`, `new`. After each, all processes read it; before the last one, data signed with
 * the old key is re-signed. An interruption always leaves a valid value. @returns whether it is complete
 *
 * @throws {UsageError} if another process writes the secret at the same time; that value is kept
 */
export async function rotateMacKey({ finish, say, after, signal, ...given }: Rotation): Promise<boolean> {
  const open = await openRotation(given, "DELTALOOP_MAC_KEY_SECRET");
  const { configuration, secrets, waitMs } = open;
  const [first = "", second, ...more] = configuration.macKeys;
  try {
    if (more.length > 0) throw new UsageError("the secret has more than two keys: keep only the key that signs and its predecessor");
    if (second !== undefined && !finish)
      throw new UsageError(
        "the secret has two keys, so a rotation is in progress: --finish signs everything with its first one and removes the other",
      );
    if (second === undefined && finish) throw new UsageError("the secret has one key: there is no rotation to finish");
    const [old, fresh] = second === undefined ? [first, newKey()] : [second, first];
    const waited = async (): Promise<boolean> => {
      say(`  waiting ${Math.round(waitMs / 1_000)} s until all processes have read the secret`);
      await after(waitMs, signal).catch(() => undefined);
      if (signal.aborted) say("interrupted; continue with: deltaloop rotate mac-key --finish");
      return !signal.aborted;
    };
    if (!finish) {
      await write(open, [old, fresh].join(","));
      say("1/4 both keys are accepted, the old one signs");
      if (!(await waited())) return false;
      await assertKeys(open, [old, fresh]);
      await write(open, [fresh, old].join(","));
    }
    say("2/4 the new key signs");
    if (!(await waited())) return false;
    await assertKeys(open, [fresh, old]);
    let lost: Error | undefined;
    const { store } = openCache(
      { ...configuration, macKeys: [fresh, old] },
      redisStore(configuration.redis, (error) => (lost = error)),
    );
    try {
      const uses = await keyUses(store, true).catch((error: unknown) => {
        say("interrupted; continue with: deltaloop rotate mac-key --finish");
        throw redisFailure("DELTALOOP_REDIS_URL", configuration.redis.url, lost ?? error);
      });
      say("3/4 data that the old key signed is signed with the new key");
      for (const [resource, use] of uses) say(`  ${describeUse(resource, use)}`);
      if (uses.every(([, use]) => isClean(use))) {
        await assertKeys(open, [fresh, old]);
        await write(open, fresh);
        say("4/4 the old key is removed");
        return true;
      }
      say("4/4 not finished: some data is not signed with the new key. The old key stays valid; run again with --finish");
      return false;
    } finally {
      await store.close();
    }
  } finally {
    secrets.close();
  }
}
