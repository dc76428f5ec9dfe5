// Would catch: an object that is kept for pods that are long gone, and one that is dropped while pods still name it.
import { expect, test } from "vitest";
import { createVirtualClock } from "../../../../shared/adapters/memory/clock.ts";
import { ObjectCache } from "../../../../shared/kubelet/turns/object-cache.ts";

const MINUTE = 60_000;

/** Every object is there, and immutable, so that a second read is one of something dropped. */
function rig() {
  const clock = createVirtualClock(0);
  const read: string[] = [];
  const kube = {
    get: async (_resource: string, namespace: string, name: string) => {
      read.push(name);
      return { metadata: { namespace, name }, immutable: true };
    },
  };
  const cache = new ObjectCache(kube as unknown as ConstructorParameters<typeof ObjectCache>[0], clock); // nothing else is called
  return { clock, read, cache, ask: (name: string) => cache.get("secrets", "default", name) };
}

test("OC4 what nobody asked for in ten minutes goes, and what somebody did stays, however long ago it was read", async () => {
  const { clock, read, cache, ask } = rig();
  await ask("used");
  await ask("unused");
  for (let minute = 0; minute < 11; minute++) {
    await clock.advance(MINUTE);
    await ask("used");
    cache.tidy();
    expect(cache.size).toBe(minute < 10 ? 2 : 1);
  }
  await ask("used");
  expect(read).toEqual(["used", "unused"]);
  await ask("unused");
  expect(read).toEqual(["used", "unused", "unused"]);
});
