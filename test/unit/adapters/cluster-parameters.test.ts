/**
 * The directory of clusters in Parameter Store. Catches: credentials of another role or cluster, a value used for a server that it did not
 * come with, and a KMS request for each cluster at each poll.
 */
import { it as base, expect } from "vitest";

import { clusterId } from "../../../shared/kube/kubeconfig/clusters/directory.ts";
import { parseKubeconfig } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import { CONFIRMED_MS, createClusterValues } from "../../../shared/controllers/lambda/clusters/cluster-values.ts";
import type { ClusterValues } from "../../../shared/controllers/lambda/clusters/cluster-values.ts";
import { openClusterParameters } from "../../../shared/local/clusters/cluster-folder.ts";
import { pauseParameterCluster, removeParameterCluster, writeParameterCluster } from "../../../shared/local/clusters/parameter-clusters.ts";
import { createParameters } from "../../../shared/store/secrets/parameters.ts";
import type { Parameters } from "../../../shared/store/secrets/parameters.ts";
import { silentLog } from "../../support/silent-log.ts";
import { startFakeParameters } from "../../support/fake-parameters.ts";
import type { FakeParameters } from "../../support/fake-parameters.ts";

const ROLES = ["deltaloop-watcher", "deltaloop-sync-replicaset", "deltaloop-apply-deltas"];
const WRITTEN = ROLES.map((name) => ({ name, hasCredentials: name !== "deltaloop-apply-deltas" }));
const PLACE = "ssm:/deltaloop/prod/clusters";

/** A kubeconfig with a context and a token for one role, and a default for the others. */
function configOf(server: string) {
  const text = JSON.stringify({
    clusters: [{ name: "c", cluster: { server } }],
    users: ["default", "deltaloop-watcher"].map((name) => ({ name, user: { token: `token-of-${name}` } })),
    contexts: ["default", "deltaloop-watcher"].map((name) => ({ name, context: { cluster: "c", user: name } })),
    "current-context": "default",
  });
  return parseKubeconfig(Buffer.from(text), "the test");
}

interface Harness extends FakeParameters {
  readonly place: { readonly parameters: Parameters; readonly place: string };
  readonly problems: string[];
  add(name: string, server?: string): Promise<string>;
  open(role?: string): Promise<Awaited<ReturnType<typeof openClusterParameters>>>;
  /** The clusters as a function of this role reads them. */
  valuesOf(role: string): ClusterValues;
  /** Lets time pass for `valuesOf`. */
  wait(ms: number): void;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const fake = await startFakeParameters();
    const place = { parameters: createParameters({ endpoint: fake.endpoint }), place: PLACE };
    const problems: string[] = [];
    let nowMs = 0;
    await use({
      ...fake,
      ...{ place, problems },
      async add(name, server = `https://${name}.example.com`) {
        const config = configOf(server);
        await writeParameterCluster(place, WRITTEN, { name, config, isPaused: false });
        return clusterId(name, config);
      },
      open: async (role = "deltaloop-watcher") =>
        await openClusterParameters({
          ...{ ...place, role, allowed: new Set() },
          resolve: async () => await Promise.resolve([]),
          onProblem: (line) => problems.push(line),
        }),
      valuesOf: (role) =>
        createClusterValues({
          ...{ ...place, role, allowed: new Set(), log: silentLog },
          clock: { now: () => nowMs },
          random: { next: () => 0 },
        }),
      wait: (ms) => void (nowMs += ms),
    });
    place.parameters.close();
    fake.stop();
  },
});

it("keeps one parameter for each role, with the credentials of this role only", async ({ harness }) => {
  const cid = await harness.add("blue");
  expect([...harness.values.keys()].toSorted()).toEqual(ROLES.map((role) => `/deltaloop/prod/clusters/${role}/${cid}`).toSorted());
  const watcher = harness.values.get(`/deltaloop/prod/clusters/deltaloop-watcher/${cid}`)?.value ?? "";
  expect(watcher).toContain("token-of-deltaloop-watcher");
  expect(watcher).not.toContain("token-of-default");
  const sync = harness.values.get(`/deltaloop/prod/clusters/deltaloop-sync-replicaset/${cid}`)?.value ?? "";
  expect(sync).toContain("token-of-default");
  expect(sync).not.toContain("token-of-deltaloop-watcher");
  expect(harness.values.get(`/deltaloop/prod/clusters/deltaloop-apply-deltas/${cid}`)?.value, "a role without rights").not.toContain(
    "token",
  );
});

it("lists clusters beyond one page, and decrypts a value again only when it has changed", async ({ harness }) => {
  const names = Array.from({ length: 23 }, (_, i) => `c${i}`);
  for (const name of names) await harness.add(name);
  const directory = await harness.open();
  expect(directory.list().map(({ name }) => name)).toEqual(names.toSorted());
  expect(harness.decrypted).toHaveLength(23);
  expect(await directory.refresh()).toBe(false);
  expect(harness.decrypted).toHaveLength(23);
  const cid = await harness.add("c7");
  harness.decrypted.length = 0;
  await directory.refresh();
  expect(harness.decrypted).toEqual([`/deltaloop/prod/clusters/deltaloop-watcher/${cid}`]);
});

it("reports clusters that are added, paused, resumed and removed, and renews credentials in memory", async ({ harness }) => {
  const directory = await harness.open();
  const changes: string[] = [];
  const ends = new AbortController();
  directory.follow(({ kind, cluster: { name } }) => changes.push(`${kind} ${name}`), ends.signal);
  const cid = await harness.add("blue");
  await directory.refresh();
  const [listed] = directory.list();
  expect(listed).toMatchObject({ name: "blue", cid, server: "https://blue.example.com", isPaused: false });
  expect(JSON.stringify(listed?.inline?.())).toContain("token-of-deltaloop-watcher");
  await pauseParameterCluster(harness.place, ROLES, cid, true);
  await directory.refresh();
  await pauseParameterCluster(harness.place, ROLES, cid, false);
  await directory.refresh();
  const path = `/deltaloop/prod/clusters/deltaloop-watcher/${cid}`;
  const renewed = (harness.values.get(path)?.value ?? "").replace("token-of-deltaloop-watcher", "renewed");
  harness.values.set(path, { value: renewed, version: 99 });
  await directory.refresh();
  expect(JSON.stringify(listed?.inline?.())).toContain('"renewed"');
  await removeParameterCluster(harness.place, ROLES, cid);
  await directory.refresh();
  ends.abort();
  expect(changes).toEqual(["added blue", "paused blue", "resumed blue", "removed blue"]);
  expect(harness.values.size).toBe(0);
  expect(JSON.stringify(listed?.inline?.()), "for the release of the Lease").toContain('"renewed"');
});

const watcherOf = (cid: string) => `/deltaloop/prod/clusters/deltaloop-watcher/${cid}`;

it("keeps credentials that another operator renews during a pause, and a pause during a renewal", async ({ harness }) => {
  const cid = await harness.add("blue");
  let replaced = "";
  const replacing = (from: string, to: string) => (name: string) => {
    const { value = "", version = 0, former = [] } = harness.values.get(name) ?? {};
    const text = value.replace(from, to);
    harness.values.set(name, { value: text, version: version + 1, former: new Map([...former, [version, value], [version + 1, text]]) });
    replaced = name;
  };
  harness.beforeNextPut(replacing("token-of-", "renewed-"));
  await pauseParameterCluster(harness.place, ["deltaloop-watcher"], cid, true);
  expect(harness.values.get(replaced)?.value).toMatch(/"paused":true.*renewed-deltaloop-watcher/u);
  await pauseParameterCluster(harness.place, ["deltaloop-watcher"], cid, false);
  harness.beforeNextPut(replacing('"paused":false', '"paused":true'));
  await harness.add("blue");
  expect(harness.values.get(replaced)?.value).toMatch(/"paused":true.*token-of-default/u);
});

it("keeps credentials that another operator renews while pausing the cluster, too", async ({ harness }) => {
  const cid = await harness.add("blue");
  harness.beforeNextPut((name) => {
    const { value = "", version = 0, former = [] } = harness.values.get(name) ?? {};
    const text = value.replace("token-of-", "renewed-").replace('"paused":false', '"paused":true');
    harness.values.set(name, { value: text, version: version + 1, former: new Map([...former, [version, value], [version + 1, text]]) });
  });
  await pauseParameterCluster(harness.place, ["deltaloop-watcher"], cid, true);
  expect(harness.values.get(watcherOf(cid))?.value).toMatch(/"paused":true.*renewed-deltaloop-watcher/u);
});

it("leaves a cluster removed that another operator removes during a pause", async ({ harness }) => {
  const cid = await harness.add("blue");
  harness.beforeNextPut((name) => harness.values.delete(name));
  await pauseParameterCluster(harness.place, ["deltaloop-watcher"], cid, true);
  expect(harness.values.has(watcherOf(cid))).toBe(false);
});

it("uses the new credentials of a cluster that was removed and added again, whose parameter's versions start at 1 again", async ({
  harness,
}) => {
  const role = "deltaloop-sync-replicaset";
  const cid = await harness.add("blue");
  const directory = await harness.open(role);
  const values = harness.valuesOf(role);
  await values.get(cid);
  await removeParameterCluster(harness.place, ROLES, cid);
  const config = parseKubeconfig(
    Buffer.from(JSON.stringify(configOf("https://blue.example.com")).replaceAll("token-of-", "renewed-")),
    "the test",
  );
  await writeParameterCluster(harness.place, WRITTEN, { name: "blue", config, isPaused: false });
  await directory.refresh();
  harness.wait(CONFIRMED_MS);
  expect(JSON.stringify(directory.list()[0]?.inline?.())).toContain("renewed-default");
  expect((await values.get(cid))?.config.users[0]?.user.token).toBe("renewed-default");
});

it("rejects only the value that cannot be decrypted, and keeps its last good one", async ({ harness }) => {
  const cids = new Map<string, string>();
  const names = Array.from({ length: 12 }, (_, i) => `c${i}`);
  for (const name of names) cids.set(name, await harness.add(name));
  const role = "deltaloop-sync-replicaset";
  const directory = await harness.open(role);
  const values = harness.valuesOf(role);
  const namesOf = async () => (await Promise.all([...cids.values()].map(async (cid) => await values.get(cid)))).map((each) => each?.name);
  expect(await namesOf()).toEqual(names);
  for (const name of [...names.slice(0, 11), "new"]) cids.set(name, await harness.add(name));
  const path = (name: string) => `/deltaloop/prod/clusters/${role}/${cids.get(name)}`;
  for (const name of ["c3", "new"]) harness.undecryptable.add(path(name));
  await directory.refresh();
  expect(directory.list().map(({ name }) => name)).toEqual(names.toSorted());
  expect(harness.problems.toSorted()).toEqual(
    [path("c3"), path("new")].toSorted().map((each) => expect.stringContaining(`${each}: cannot be decrypted`) as string),
  );
  harness.wait(CONFIRMED_MS);
  await expect(values.get(cids.get("new") ?? ""), "not missing: its records stay in the queue").rejects.toThrow("cannot be decrypted");
  cids.delete("new");
  harness.decrypted.length = 0;
  expect(await namesOf(), "also that of c3").toEqual(names);
  expect(harness.decrypted, "the changed ones except c3").toHaveLength(10);
  harness.undecryptable.clear();
  await directory.refresh();
  expect(directory.list().map(({ name }) => name)).toEqual([...names, "new"].toSorted());
});

it("uses the values that arrived before Parameter Store throttled the others", async ({ harness }) => {
  const cids: string[] = [];
  for (let i = 0; i < 12; i++) cids.push(await harness.add(`c${i}`));
  const role = "deltaloop-sync-replicaset";
  const values = createClusterValues({
    ...harness.place,
    role,
    allowed: new Set(),
    clock: { now: () => 0 },
    random: { next: () => 0 },
    log: silentLog,
  });
  harness.throttleAfter(1);
  const outcomes = await Promise.allSettled(cids.map(async (cid) => await values.get(cid)));
  expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
});

it("uses a value for no other cluster than the one that its name is the hash of", async ({ harness }) => {
  const blue = await harness.add("blue");
  const red = await harness.add("red");
  const path = (cid: string) => `/deltaloop/prod/clusters/deltaloop-watcher/${cid}`;
  // A writer of parameters sends blue's credentials to another server: by red's value, and by a changed server.
  harness.values.set(path(blue), { value: harness.values.get(path(red))?.value ?? "", version: 9 });
  const moved = (harness.values.get(path(red))?.value ?? "").replace("red.example.com", "evil.example.com");
  harness.values.set(path(red), { value: moved, version: 9 });
  const directory = await harness.open();
  expect(directory.list()).toEqual([]);
  expect(harness.problems.toSorted()).toEqual(
    [path(blue), path(red)]
      .toSorted()
      .map((parameter) => expect.stringContaining(`${parameter}: is the value of another cluster`) as string),
  );
});

it("rejects a hostile kubeconfig and a text that is no value, keeps the others, and quotes no value", async ({ harness }) => {
  await harness.add("blue");
  await harness.add("near", "https://127.0.0.1:6443");
  harness.values.set("/deltaloop/prod/clusters/deltaloop-watcher/x", { value: "a-secret-text", version: 1 });
  const directory = await harness.open();
  expect(directory.list().map(({ name }) => name)).toEqual(["blue"]);
  expect(harness.problems).toHaveLength(2);
  expect(harness.problems.join("\n")).toMatch(/loopback/);
  expect(harness.problems.join("\n")).not.toContain("a-secret-text");
});

it("keeps the clusters while the path cannot be read, and names the action to allow", async ({ harness }) => {
  await harness.add("blue");
  const directory = await harness.open();
  harness.denied.add("GetParametersByPath");
  expect(await directory.refresh()).toBe(false);
  expect(directory.list().map(({ name }) => name)).toEqual(["blue"]);
  expect(harness.problems).toEqual([
    expect.stringContaining("ssm:/deltaloop/prod/clusters/deltaloop-watcher: access is denied: allow ssm:GetParametersByPath"),
  ]);
});
