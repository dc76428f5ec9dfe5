/** A followed folder of kubeconfigs whose files change. Catches: a file that is used without being vetted, and a missed change. */
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { it as base, describe, expect } from "vitest";

import { createClient } from "../../../shared/kube/http/client.ts";
import { kubeHttpConfigFrom } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import type { ClusterDirectory } from "../../../shared/kube/kubeconfig/clusters/directory.ts";
import { openClusterFolder } from "../../../shared/local/clusters/cluster-folder.ts";
import { setPaused } from "../../../shared/local/clusters/edit-folder.ts";
import { vettedLookup } from "../../../shared/kube/kubeconfig/clusters/vetted-lookup.ts";
import type { Resolve } from "../../../shared/kube/kubeconfig/clusters/vetted-lookup.ts";
import { eventually } from "../../support/eventually.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

interface Harness {
  readonly folder: string;
  readonly problems: string[];
  readonly directory: ClusterDirectory;
  /** Opens the folder again, as a process that was restarted. */
  open(): Promise<ClusterDirectory>;
  /** Kind and name of each change. */
  readonly changes: string[];
  /** Cluster ids with an epoch in the Store; undefined if it does not answer. */
  cached: ReadonlySet<string> | undefined;
  put(name: string, server?: string, token?: string): Promise<void>;
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const root = await mkdtemp(join(tmpdir(), "deltaloop-clusters-"));
    const [folder, copies] = [join(root, "clusters"), join(root, "copies")];
    await Promise.all([mkdir(folder), mkdir(copies, { mode: 0o700 })]);
    const put: Harness["put"] = async (name, server = `https://${name}.example.com`, token = "t") =>
      await writeFile(join(folder, name), kubeconfigOf({ server }, { token }));
    await put("blue");
    const problems: string[] = [];
    const resolve = async (host: string): Promise<readonly string[]> => await Promise.resolve(host.startsWith("near") ? ["127.0.0.1"] : []);
    const open: Harness["open"] = async () =>
      await openClusterFolder({
        ...{ folder, copies, allowed: new Set(), resolve, onProblem: (line: string) => problems.push(line) },
        cached: async () => await Promise.resolve(harness.cached),
      });
    const changes: string[] = [];
    const harness: Harness = { folder, problems, changes, put, open, cached: new Set(), directory: await open() };
    const ends = new AbortController();
    harness.directory.follow(({ kind, cluster: { name } }) => changes.push(`${kind} ${name}`), ends.signal);
    await use(harness);
    ends.abort();
    await rm(root, { recursive: true });
  },
});

const ofBlue = ({ directory }: Harness) => directory.list().find(({ name }) => name === "blue");

it("reports existing clusters, and clusters that are added, paused, resumed or removed", async ({ harness }) => {
  expect(harness.changes).toEqual(["added blue"]);
  await harness.put("red.yaml", "https://red.example.com");
  await eventually("red is added", () => harness.changes.includes("added red"));
  await setPaused(harness.folder, "blue", true);
  await eventually("blue is paused", () => harness.changes.includes("paused blue"));
  await setPaused(harness.folder, "blue", false);
  await eventually("blue is resumed", () => harness.changes.includes("resumed blue"));
  await rm(join(harness.folder, "blue"));
  await eventually("blue is removed", () => harness.changes.includes("removed blue"));
  expect(harness.problems).toEqual([]);
  expect(harness.directory.hasProblems()).toBe(false);
});

it("keeps the other clusters and the last valid state of a file that becomes invalid, and reports each problem once", async ({
  harness,
}) => {
  const before = ofBlue(harness);
  await writeFile(join(harness.folder, "blue"), kubeconfigOf({ server: "https://blue.example.com" }, { exec: { command: "touch" } }));
  await writeFile(join(harness.folder, "red"), "{");
  await harness.put("near");
  await harness.put("Not_A_Label");
  await harness.put("twin", "https://blue2.example.com");
  await harness.put("twin2", "https://blue2.example.com");
  await harness.directory.refresh();
  await harness.directory.refresh();
  expect(harness.directory.list().map(({ name }) => name)).toEqual(["blue", "twin"]);
  expect(ofBlue(harness)).toEqual(before);
  expect(await readFile(before?.kubeconfig ?? "", "utf8")).not.toContain("exec");
  expect(harness.directory.hasProblems()).toBe(true);
  expect(harness.problems.toSorted()).toEqual([
    expect.stringMatching(/^Not_A_Label: its name is not a DNS label: /),
    expect.stringMatching(/^blue: users\[0\]\.user\.exec: /),
    expect.stringMatching(/^near: clusters\[0\]\.cluster\.server: resolves to a loopback /),
    expect.stringMatching(/^red is /),
    expect.stringMatching(/^twin2: clusters\[0\]\.cluster\.server: cluster twin has the same server: /),
  ]);
});

describe("of two kubeconfigs with one server", () => {
  const SERVER = "https://blue.example.com";
  const names = (directory: ClusterDirectory): readonly string[] => directory.list().map(({ name }) => name);

  it("serves the one with an epoch in the Store after a restart too, and reports the other in one line", async ({ harness }) => {
    harness.cached = new Set([ofBlue(harness)?.cid ?? ""]);
    await harness.put("alpha", SERVER);
    await harness.directory.refresh();
    expect(names(harness.directory)).toEqual(["blue"]);
    expect(names(await harness.open())).toEqual(["blue"]);
    expect(new Set(harness.problems)).toEqual(
      new Set(["alpha: clusters[0].cluster.server: cluster blue has the same server: remove one of them"]),
    );
    expect(harness.changes).toEqual(["added blue"]);
  });

  it("serves the first by name while none has an epoch, and the one with an epoch as soon as there is one", async ({ harness }) => {
    await harness.put("alpha", SERVER);
    const restarted = await harness.open();
    expect(names(restarted)).toEqual(["alpha"]);
    harness.cached = new Set([ofBlue(harness)?.cid ?? ""]);
    await restarted.refresh();
    expect(names(restarted)).toEqual(["blue"]);
  });

  it("keeps serving the one that it serves while the Store has lost its epochs or does not answer", async ({ harness }) => {
    await harness.put("alpha", SERVER);
    await harness.directory.refresh();
    expect(names(harness.directory)).toEqual(["blue"]);
    harness.cached = undefined;
    await harness.directory.refresh();
    expect(names(harness.directory)).toEqual(["blue"]);
  });

  it("serves none that it does not serve yet while the Store does not answer", async ({ harness }) => {
    await harness.put("alpha", SERVER);
    harness.cached = undefined;
    const restarted = await harness.open();
    expect(names(restarted)).toEqual([]);
    expect(harness.problems).toContainEqual(
      "alpha: clusters[0].cluster.server: another cluster has the same server, and the Store does not answer which is served",
    );
  });

  it("serves the other one once the first is removed", async ({ harness }) => {
    harness.cached = new Set([ofBlue(harness)?.cid ?? ""]);
    await harness.put("alpha", SERVER);
    await harness.directory.refresh();
    await rm(join(harness.folder, "blue"));
    await harness.directory.refresh();
    expect(harness.changes).toEqual(["added blue", "removed blue", "added alpha"]);
  });
});

it("gives a client the renewed token of its cluster after a 401, but never the credentials of another server", async ({ harness }) => {
  const cluster = ofBlue(harness);
  const access = await kubeHttpConfigFrom(cluster?.kubeconfig ?? "", { component: "test" });
  expect(await access.token?.()).toBe("t");
  await harness.put("blue", undefined, "renewed");
  await harness.directory.refresh();
  expect(ofBlue(harness)).toEqual(cluster);
  expect(await access.token?.("t")).toBe("renewed");
  await harness.put("blue", "https://elsewhere.example.com", "elsewhere");
  await harness.directory.refresh();
  expect(ofBlue(harness)?.cid).not.toBe(cluster?.cid);
  expect(harness.changes.slice(-2)).toEqual(["removed blue", "added blue"]);
  await expect(Promise.resolve(access.token?.("renewed"))).rejects.toThrow("cannot be read");
});

it("writes copies that only their owner can read, and removes them with the cluster", async ({ harness }) => {
  const path = ofBlue(harness)?.kubeconfig ?? "";
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  await rm(join(harness.folder, "blue"));
  await harness.directory.refresh();
  await expect(stat(path)).rejects.toThrow("ENOENT");
});

base("connects to no name that resolves to this machine by then, with and without TLS", async () => {
  for (const server of ["http://localhost:1", "https://localhost:1"]) {
    const messageWith = async (...allowed: readonly "loopback"[]): Promise<string> => {
      const client = createClient({ server, component: "test", lookup: vettedLookup(new Set(allowed)) });
      return await client.json({ method: "GET", path: "/version" }).then(String, String);
    };
    expect(await messageWith()).toContain("resolves to a loopback address");
    expect(await messageWith("loopback")).toContain("ECONNREFUSED");
  }
});

base("looks a name up once at a time, however many connections wait for it, and judges the addresses for each", async () => {
  const asked: string[] = [];
  const answers: Parameters<Resolve>[2][] = [];
  const resolve: Resolve = (hostname, _, found) => {
    asked.push(hostname);
    answers.push(found);
  };
  const addressFrom = async (hostname: string, ...allowed: readonly "loopback"[]): Promise<string> =>
    await new Promise((done) => {
      vettedLookup(new Set(allowed), resolve)(hostname, {}, (error, address) => done(error?.message ?? String(address)));
    });
  const first = [
    addressFrom("slow.example.com"),
    addressFrom("slow.example.com", "loopback"),
    addressFrom("other.example.com", "loopback"),
  ];
  expect(asked).toEqual(["slow.example.com", "other.example.com"]);
  for (const answer of answers) answer(null, [{ address: "127.0.0.1", family: 4 }]);
  expect(await Promise.all(first)).toEqual([expect.stringContaining("resolves to a loopback address"), "127.0.0.1", "127.0.0.1"]);
  void addressFrom("slow.example.com");
  expect(asked, "an answer is not kept").toHaveLength(3);
});
