// Would catch: an object cached for removed pods, one dropped while pods still reference it, and pods of one namespace with so many
// references that other namespaces' pods wait or lose cached objects.
import { expect, test } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import { KubeApiError, NotSentError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import { ObjectCache } from "../../../../shared/node-agent/kubelet/node-ports/object-cache.ts";

const MINUTE = 60_000;

/** A cache over an API server in which every object exists and is immutable, so that a second read shows that an object was dropped. */
function emptyCache() {
  const clock = createVirtualClock(0);
  const read: string[] = [];
  const kube = {
    get: async (_resource: string, namespace: string, name: string) => {
      read.push(name);
      return { metadata: { namespace, name }, immutable: true };
    },
  };
  const cache = new ObjectCache(kube as unknown as ConstructorParameters<typeof ObjectCache>[0], clock); // the only method that is called
  return { clock, read, cache, ask: (name: string) => cache.get("secrets", "default", name) };
}

test("OC4 drops entries unused for ten minutes and keeps used ones, whatever their age", async () => {
  const { clock, read, cache, ask } = emptyCache();
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

test("[node-agent 508] OC1 lists a source's bundles every five seconds, and every half second while there are none", async () => {
  const clock = createVirtualClock(0);
  const read: string[] = [];
  let failure: Error | undefined;
  const kube = {
    list: async (resource: string, namespace: string, { fieldSelector = "" }: { readonly fieldSelector?: string }) => {
      read.push(`${resource}${namespace} ${fieldSelector}`);
      if (failure !== undefined) throw failure;
      return { resourceVersion: "1", items: fieldSelector.endsWith("here") ? [{ metadata: { name: "here" } }] : [] };
    },
  };
  const cache = new ObjectCache(kube as unknown as ConstructorParameters<typeof ObjectCache>[0], clock); // the only method that is called
  const names = async (selector: string) => (await cache.trustBundles(selector))?.map(({ metadata }) => metadata.name);
  expect(await names("metadata.name=here")).toEqual(["here"]);
  expect(await names("metadata.name=no")).toEqual([]);
  await clock.advance(600);
  await names("metadata.name=here");
  await names("metadata.name=no");
  const [here, no] = ["clustertrustbundles metadata.name=here", "clustertrustbundles metadata.name=no"];
  expect(read).toEqual([here, no, no]);
  failure = new UnansweredError("no answer");
  await clock.advance(5_000);
  expect(await names("metadata.name=here")).toEqual(["here"]);
  failure = new KubeApiError({ code: 404 });
  expect(await names("metadata.name=here")).toBeUndefined();
  failure = new KubeApiError({ code: 403 });
  await expect(names("metadata.name=other")).rejects.toBe(failure);
});

test("[node-agent 488] OC5 ten thousand objects of one namespace evict no object of another namespace", async () => {
  const { read, cache, ask } = emptyCache();
  await ask("own");
  for (let name = 0; name < 10_000; name++) await cache.get("configmaps", "greedy", `c${name}`);
  expect(cache.size).toBeLessThanOrEqual(2_000);
  await ask("own");
  expect(read.filter((name) => name === "own")).toHaveLength(1);
});

test("[node-agent 488] OC5 sends at most 16 of a thousand unanswered reads in one namespace, fails the others after ten seconds, and delays no other namespace", async () => {
  const clock = createVirtualClock(0);
  const read: string[] = [];
  const kube = {
    get: async (_resource: string, namespace: string, name: string) => {
      read.push(namespace);
      return await (namespace === "greedy" ? new Promise<never>(() => undefined) : Promise.resolve({ metadata: { namespace, name } }));
    },
  };
  const cache = new ObjectCache(kube as unknown as ConstructorParameters<typeof ObjectCache>[0], clock); // the only method that is called
  const failures: unknown[] = [];
  for (let name = 0; name < 1_000; name++)
    void cache.get("configmaps", "greedy", `c${name}`).catch((error: unknown) => void failures.push(error));
  await clock.advance(0);
  expect(read.length).toBeLessThanOrEqual(16);
  expect(await cache.get("secrets", "default", "own")).toMatchObject({ metadata: { name: "own" } });
  await clock.advance(10_000);
  expect(failures).toHaveLength(1_000 - 16);
  expect(failures[0]).toBeInstanceOf(NotSentError);
});

test("[node-agent 488] OC5 reads all thousand objects when the API server responds", async () => {
  const { read, cache } = emptyCache();
  const names = Array.from({ length: 1_000 }, (_, index) => `c${index}`);
  await Promise.all(names.map((name) => cache.get("configmaps", "greedy", name)));
  expect(read).toEqual(names);
});
