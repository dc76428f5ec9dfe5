import { messageOf } from "@deltaloop/kube/objects";
import { openCache, redisStore } from "@deltaloop/controllers/lambda";
import type { Store } from "@deltaloop/store/ports";
import { shutGate } from "@deltaloop/controllers/cache";
import { newKey, openRotation, write } from "./rotation.ts";
import type { OpenRotation, Rotation } from "./rotation.ts";

const LOOK_MS = 200;
/**
 * Time within which a new epoch must begin after all processes have read the key: the watcher exits, is restarted, and waits for its
 * predecessor's Lease.
 */
const BEGIN_MS_MAX = 2 * 60_000;
/** Time after the start of the new epoch within which everything must be listed. */
const REBUILD_MS_MAX = 10 * 60_000;

/** Writes the new value; the watcher then starts a new epoch. @returns whether its gates opened in time */
export async function rotateDigestKey(rotation: Rotation): Promise<boolean> {
  const open = await openRotation(rotation, "DELTALOOP_DIGEST_KEY_SECRET");
  const { configuration, secrets, waitMs } = open;
  const fresh = newKey();
  const { store, identity } = openCache(
    { ...configuration, digestKey: fresh },
    redisStore(configuration.redis, () => undefined), // calls throw their own errors
  );
  try {
    await write(open, fresh);
    rotation.say(`the new digest key is written; within ${Math.round(waitMs / 1_000)} s the watcher reads it and begins a new epoch`);
    return await untilRebuilt(store, identity.digestPrefix, { ...rotation, waitMs });
  } finally {
    await store.close();
    secrets.close();
  }
}

/**
 * Waits until an epoch with `digestPrefix` has begun and its gates are open, and reports for how long they were closed. Retries while the
 * Store does not answer, because the key is already written and the rotation continues without this process.
 */
export async function untilRebuilt(
  store: Pick<Store, "epoch" | "gate">,
  digestPrefix: string,
  { waitMs, say, now, after, signal }: Pick<OpenRotation, "waitMs"> & Pick<Rotation, "say" | "now" | "after" | "signal">,
): Promise<boolean> {
  let giveUpMs = now() + waitMs + BEGIN_MS_MAX;
  let begunMs: number | undefined;
  let trouble: string | undefined;
  while (now() < giveUpMs && !signal.aborted) {
    try {
      if (begunMs === undefined && (await store.epoch())?.digestPrefix === digestPrefix) {
        begunMs = now();
        giveUpMs = begunMs + REBUILD_MS_MAX;
        say("the new epoch has begun, relisting everything");
      }
      if (begunMs !== undefined && (await shutGate(store)) === undefined) {
        say(`gates were closed for ${((now() - begunMs) / 1_000).toFixed(1)} s`);
        return true;
      }
    } catch (error) {
      if (trouble !== messageOf(error)) say(`Redis does not answer, retrying: ${(trouble = messageOf(error))}`);
    }
    await after(LOOK_MS, signal).catch(() => undefined);
  }
  if (signal.aborted) {
    say("interrupted; the key is written, and the watcher uses it without this command");
    return false;
  }
  say(
    begunMs === undefined
      ? "no watcher has begun a new epoch: is one running?"
      : "the gates are still closed: run deltaloop doctor to see why",
  );
  return false;
}
