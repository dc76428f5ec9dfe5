// Would catch: a fight with upstream's controllers that goes unnoticed, and stopping for a write that is older than we are.
import { expect, test, vi } from "vitest";
import { guardAgainstUpstream, upstreamWrite } from "../../../../cli/support/upstream-guard.ts";
import type { UpstreamActiveError } from "../../../../cli/support/upstream-guard.ts";
import type { KubeWatch } from "../../../../shared/ports/kube.ts";

const STARTED_MS = Date.parse("2026-03-01T10:00:00Z");
const rs = (field: object) => ({ kind: "ReplicaSet", metadata: { namespace: "shop", name: "web", managedFields: [field] } });
const statusWrite = { manager: "kube-controller-manager", operation: "Update", subresource: "status", time: "2026-03-01T10:00:01Z" };

test.each([
  { name: "a status write of upstream's, newer than our start", field: statusWrite, seen: true },
  { name: "one from before", field: { ...statusWrite, time: "2026-03-01T10:00:00Z" }, seen: false },
  {
    name: "a write of the spec by the same manager, as the garbage collector's",
    field: { ...statusWrite, subresource: undefined },
    seen: false,
  },
  { name: "our own status write", field: { ...statusWrite, manager: "deltaloop-replicaset" }, seen: false },
])("$name: seen is $seen", ({ field, seen }) => {
  expect(upstreamWrite(rs(field), STARTED_MS) !== undefined).toBe(seen);
});

test("an object without managed fields, or none at all, is no sighting", () => {
  expect(upstreamWrite({ metadata: {} }, STARTED_MS)).toBeUndefined();
  expect(upstreamWrite(undefined, STARTED_MS)).toBeUndefined();
});

test("lists and watches are looked through, pods are not, and everything passes on", async () => {
  const lines = [JSON.stringify({ type: "MODIFIED", object: rs(statusWrite) }), "kube-controller-manager but no JSON"];
  const kube: KubeWatch = {
    listPage: () => Promise.resolve({ resourceVersion: "1", items: [rs(statusWrite)] }),
    async *watch() {
      yield lines;
    },
    newestVersion: () => Promise.resolve("1"),
  };
  const found: UpstreamActiveError[] = [];
  const guarded = guardAgainstUpstream(kube, STARTED_MS, (error) => found.push(error));
  const { signal } = new AbortController();
  const passed: (readonly string[])[] = [];
  for (const resource of ["pods", "replicasets"] as const) {
    expect((await guarded.listPage(resource, {}, signal)).items).toHaveLength(1);
    for await (const group of guarded.watch(resource, { allowWatchBookmarks: true, timeoutSeconds: 1 }, signal)) passed.push(group);
  }
  expect(passed).toEqual([lines, lines]);
  expect(await guarded.newestVersion("pods", {}, signal)).toBe("1");
  expect(found).toHaveLength(2);
  expect(found[0]?.message).toContain("ReplicaSet shop/web had its status written by kube-controller-manager at 2026-03-01T10:00:01Z");
});

test("a pod that upstream has made is not even parsed: a list of them would be, whole", async () => {
  const line = JSON.stringify({ type: "ADDED", object: rs({ ...statusWrite, subresource: undefined }) });
  const parse = vi.spyOn(JSON, "parse");
  try {
    const parsed: number[] = [];
    for (const resource of ["pods", "replicasets"] as const) {
      const kube: KubeWatch = {
        listPage: () => Promise.reject(new Error("nobody lists")),
        async *watch() {
          yield Array<string>(100).fill(line);
        },
        newestVersion: () => Promise.resolve("1"),
      };
      parse.mockClear();
      const guarded = guardAgainstUpstream(kube, STARTED_MS, () => undefined);
      for await (const group of guarded.watch(resource, { allowWatchBookmarks: true, timeoutSeconds: 1 }, new AbortController().signal))
        expect(group).toHaveLength(100);
      parsed.push(parse.mock.calls.length);
    }
    expect(parsed).toEqual([0, 100]);
  } finally {
    parse.mockRestore();
  }
});
