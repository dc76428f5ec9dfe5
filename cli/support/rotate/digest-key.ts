import { openCache, redisStore } from "../../../shared/lambda/connect.ts";
import { shutGate } from "../gates.ts";
import { newKey, openRotation, write } from "./rotation.ts";
import type { Rotation } from "./rotation.ts";

const LOOK_MS = 200;
/** After everybody has read it: a watcher that is started anew, and a list of everything. */
const REBUILD_MS_MAX = 10 * 60_000;

/** Another value, and what comes of it: the watcher's next look begins a new epoch. @returns whether its gates have opened in time */
export async function rotateDigestKey({ environment, waitMs, say, after, signal }: Rotation): Promise<boolean> {
  const open = await openRotation(environment, "DELTALOOP_DIGEST_KEY_SECRET");
  const { configuration, secrets } = open;
  const fresh = newKey();
  const { store, identity } = openCache(
    { ...configuration, digestKey: fresh },
    redisStore(configuration.redis, () => undefined), // calls fail by themselves
  );
  try {
    await write(open, fresh);
    say(`the new digest key is written; within ${Math.round(waitMs / 1_000)} s the watcher reads it and begins a new epoch`);
    const giveUpMs = Date.now() + waitMs + REBUILD_MS_MAX;
    let begunMs: number | undefined;
    while (Date.now() < giveUpMs && !signal.aborted) {
      if (begunMs === undefined && (await store.epoch())?.digestPrefix === identity.digestPrefix) {
        begunMs = Date.now();
        say("the new epoch has begun, everything is listed anew");
      }
      if (begunMs !== undefined && (await shutGate(store)) === undefined) {
        say(`gates were shut for ${((Date.now() - begunMs) / 1_000).toFixed(1)} s`);
        return true;
      }
      await after(LOOK_MS, signal).catch(() => undefined);
    }
    say(
      begunMs === undefined ? "no watcher has begun a new epoch: is one running?" : "the gates are still shut: deltaloop doctor says why",
    );
    return false;
  } finally {
    await store.close();
    secrets.close();
  }
}
