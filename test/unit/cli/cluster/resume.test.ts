// Would catch: a resume while another controller still writes, a resume that also accepts future writes, one that accepts more or fewer
// writes than it prints, and a page of the list that is not read.
import { expect, test } from "vitest";

import { decideResume, newestForeignWrite } from "../../../../cli/cluster/resume.ts";
import { aheadMs, readApiServer } from "../../../../cli/cluster/api-server.ts";
import type { ListQuery } from "../../../../shared/kube/client/kube.ts";
import type { ForeignWrite, Stop } from "../../../../shared/store/ports/store.ts";

const NOW_MS = Date.parse("2026-03-01T10:10:00Z");
const write = (agoMs: number, manager = "kube-controller-manager"): ForeignWrite => ({
  resource: "deployments",
  key: "shop/web",
  manager,
  atMs: NOW_MS - agoMs,
});
const stop = (agoMs: number): Stop => ({ kind: "seen", write: write(agoMs), sinceMs: NOW_MS - agoMs });

test.each([
  { name: "does nothing if nothing is stopped", stops: [], newest: write(1_000), want: { kind: "notStopped" } },
  {
    name: "refuses if the other controller wrote a moment ago",
    stops: [stop(60_000)],
    newest: write(29_000, "k3s"),
    want: {
      kind: "refused",
      why: expect.stringMatching(/^k3s wrote the status of deployments shop\/web at .*, 29 s ago: wait .* 30 s, or use --force$/u),
    },
  },
  {
    name: "refuses if the write's time is ahead of the local clock",
    stops: [stop(60_000)],
    newest: write(-1_000),
    want: { kind: "refused", why: expect.stringContaining(", 0 s ago") },
  },
  {
    name: "after a stop dated in the far future, allows only writes of the next 5 s",
    stops: [stop(-1_000_000_000)],
    newest: undefined,
    want: { kind: "resume", acceptedMs: NOW_MS + 5_000 },
  },
  {
    name: "allows writes up to the newest one if that one is 30 s old",
    stops: [stop(60_000)],
    newest: write(30_000),
    want: { kind: "resume", acceptedMs: NOW_MS - 30_000 },
  },
  {
    name: "allows writes up to the newest one when forced",
    stops: [stop(60_000)],
    newest: write(2_000),
    isForced: true,
    want: { kind: "resume", acceptedMs: NOW_MS - 2_000 },
  },
  {
    name: "allows writes up to the stop if the object of the stop was deleted and another one was written earlier",
    stops: [stop(40_000)],
    newest: write(90_000),
    want: { kind: "resume", acceptedMs: NOW_MS - 40_000 },
  },
  {
    name: "allows writes up to the stop if no object contains another controller's write any longer",
    stops: [stop(40_000)],
    newest: undefined,
    want: { kind: "resume", acceptedMs: NOW_MS - 40_000 },
  },
  {
    name: "allows no writes after a stop that cannot be verified",
    stops: [{ kind: "unbelieved" } as const],
    newest: undefined,
    want: { kind: "resume", acceptedMs: 0 },
  },
])("$name", ({ stops, newest, isForced = false, want }) => {
  expect(decideResume(stops, newest, NOW_MS, isForced)).toEqual(want);
});

test("reads all pages of the three kinds as metadata only, and returns the newest status write", async () => {
  const asked: string[] = [];
  const item = (name: string, agoMs: number) => ({
    metadata: {
      namespace: "shop",
      name,
      managedFields: [
        {
          manager: "kube-controller-manager",
          subresource: "status",
          time: new Date(NOW_MS - agoMs).toISOString(),
          fieldsV1: { "f:status": { "f:replicas": {} } },
        },
      ],
    },
  });
  const kube = {
    listPage: async (resource: string, query: ListQuery) => {
      asked.push(`${resource} ${query.continue ?? "first"} ${query.metadataOnly}`);
      if (resource !== "replicasets") return { resourceVersion: "1", items: [item(resource, 60_000), item("made-up", -1_000_000)] };
      return query.continue === undefined
        ? { resourceVersion: "1", continue: "more", items: [item("a", 90_000), item("b", 50_000)] }
        : { resourceVersion: "1", items: [item("c", 10_000), item("d", 20_000)] };
    },
  };
  expect(await newestForeignWrite(kube, NOW_MS, new AbortController().signal)).toMatchObject({
    resource: "replicasets",
    key: "shop/c",
    atMs: NOW_MS - 10_000,
  });
  expect(asked).toEqual(["deployments first true", "replicasets first true", "replicasets more true", "replicationcontrollers first true"]);
  expect(
    await newestForeignWrite({ listPage: async () => ({ resourceVersion: "1", items: [] }) }, NOW_MS, new AbortController().signal),
  ).toBeUndefined();
});

test("rounds the API server's time up, and uses the local time if the response has no Date header", async () => {
  const server = (date?: string) =>
    readApiServer({
      json: async ({ onHead }) => {
        onHead?.(date === undefined ? {} : { date });
        return { gitVersion: "v1.37.2" };
      },
    });
  const told = await server(new Date(NOW_MS).toUTCString());
  expect(told).toEqual({ gitVersion: "v1.37.2", dateMs: NOW_MS });
  expect(aheadMs(told, NOW_MS - 60_000)).toBe(61_000);
  expect(aheadMs(await server(), NOW_MS)).toBe(0);
});
