// Names of created pods and the bodies built from a template.
import { inspect } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exactText, parseExact } from "../../../shared/base/exact-json.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import { mayLand, planCreates } from "../../../shared/controllers/kit/expectations.ts";
import { podFromTemplate } from "../../../shared/controllers/kit/pod-from-template.ts";
import { podName, podNames, podsPrefix } from "../../../shared/controllers/kit/pod-names.ts";
import { Sealed } from "../../../shared/controllers/kit/sealed.ts";
import { slowStartBatches } from "../../../shared/controllers/kit/slow-start.ts";
import type { Intent } from "../../../shared/store/ports/store.ts";
import { pod } from "../replicaset/builders.ts";

describe("pod names", () => {
  const seed = { ownerUid: "u", epoch: "e1", index: 0 };

  it("pod names are the same for the same owner, epoch and index, and differ otherwise", () => {
    expect(podName("web", seed)).toMatch(/^web-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
    expect(podName("web", seed)).toBe(podName("web", seed));
    const others = [
      { ...seed, ownerUid: "v" },
      { ...seed, epoch: "e2" },
      { ...seed, index: 1 },
    ].map((each) => podName("web", each));
    expect(new Set([podName("web", seed), ...others]).size).toBe(4);
  });

  it("pod names keep 58 characters of the prefix, as generateName does", () => {
    const long = "a".repeat(80);
    expect(podName(long, seed)).toHaveLength(63);
    expect(podsPrefix("web")).toBe("web-");
    expect(podsPrefix("a.b")).toBe("a.b-");
    expect(podsPrefix("Web")).toBe("Web");
  });

  it("pod names are valid for every valid owner name", () => {
    const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);
    fc.assert(
      fc.property(fc.array(label, { minLength: 1, maxLength: 4 }), fc.nat(1000), (labels, index) => {
        expect(podName(labels.join("."), { ...seed, index })).toMatch(/^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
      }),
    );
  });

  it("skips pod names in use, and returns the next index", () => {
    const first = podName("web", seed);
    const { names, nextIndex } = podNames("web", seed, { count: 2, firstIndex: 0, taken: new Set([first]) });
    expect(names).toEqual([1, 2].map((index) => ({ name: podName("web", { ...seed, index }), index })));
    expect(nextIndex).toBe(3);
  });
});

describe("planCreates", () => {
  const NOW_MS = 100_000;
  const intent = (name: string, fields: Partial<Intent> = {}): Intent => ({
    id: `c:${name}`,
    verb: "create",
    name,
    state: "planned",
    token: "dead",
    deadlineMs: 0,
    ...fields,
  });
  const plan = (intents: readonly Intent[], count: number, shown: readonly string[] = []): ReturnType<typeof planCreates> =>
    planCreates(
      {
        dependents: shown.map((name) => ({ key: `default/${name}`, uid: name, rv: "1", gone: false, object: pod({ name }) })),
        orphans: [],
        intents,
        failures: 0,
      },
      { ownerName: "web", ownerUid: "u", epoch: "e1", count, drawn: 7 },
    );

  it("uses the names of unanswered creates first, and keeps the deadlines of those calls", () => {
    const { ops, drop } = plan([intent("web-a", { mayLandUntilMs: NOW_MS + 1 })], 2);
    expect(ops).toEqual([
      { id: "c:web-a", name: "web-a", mayLandUntilMs: NOW_MS + 1 },
      { id: expect.stringMatching(/^c:web-/), name: expect.any(String), index: 7 },
    ]);
    expect(drop).toEqual([]);
  });

  it("drops the name of an unanswered create if its pod exists, or if no further pod is needed and the call's deadline has passed", () => {
    const intents = [intent("web-a"), intent("web-b"), intent("web-c")];
    const { ops, drop } = plan(intents, 1, ["web-a"]);
    expect(ops.map(({ name }) => name)).toEqual(["web-b"]);
    expect(drop.map(({ name }) => name)).toEqual(["web-a", "web-c"]);
  });

  it("keeps the name of an unanswered create however old it is, because its pod may appear once an interrupted watch resumes", () => {
    const intents = [
      intent("web-b"),
      intent("web-c", { mayLandUntilMs: NOW_MS - 60_000 }),
      intent("web-d", { mayLandUntilMs: NOW_MS + 1 }),
    ];
    expect(plan(intents, 1).drop).toEqual([]);
  });

  it("treats a create's deadline as passed at the deadline itself", () => {
    expect([mayLand({ mayLandUntilMs: 5 }, 4), mayLand({ mayLandUntilMs: 5 }, 5), mayLand({}, 0)]).toEqual([true, false, false]);
  });
});

describe("slowStartBatches", () => {
  const table = [
    { n: 0, want: [] },
    { n: 1, want: [1] },
    { n: 10, want: [1, 2, 4, 3] },
    { n: 30, want: [1, 2, 4, 8, 15] },
    { n: 100, want: [1, 2, 4, 8, 16, 32, 37] },
    { n: 500, want: [1, 2, 4, 8, 16, 32, 64, 128, 245] },
  ];
  it.each(table)("[replicaset 33] splits $n calls into batches $want", ({ n, want }) => {
    expect(slowStartBatches(n)).toEqual(want);
  });
});

const SECRET = "hunter2";
const template = {
  metadata: {
    name: "ignored",
    namespace: "ignored",
    labels: { app: "web" },
    annotations: { a: "b" },
    finalizers: ["x/y"],
    ownerReferences: [],
  },
  spec: { containers: [{ name: "c", env: [{ name: "PASSWORD", value: SECRET }] }] },
};
const live = {
  metadata: { name: "web", namespace: "shop", uid: "u", resourceVersion: "1", labels: { of: "owner" }, annotations: { of: "owner" } },
  spec: { template },
} as KubeObject;

describe("podFromTemplate", () => {
  it("[replicaset 39] [replicaset 40] copies only labels, annotations, finalizers and spec of the template", () => {
    const body = podFromTemplate(live, { resource: "replicationcontrollers", name: "web-x", digest: "d" });
    expect(body instanceof Sealed && body.open()).toEqual({
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: "web-x",
        generateName: "web-",
        labels: { app: "web" },
        annotations: { a: "b" },
        finalizers: ["x/y"],
        ownerReferences: [
          { apiVersion: "v1", kind: "ReplicationController", name: "web", uid: "u", controller: true, blockOwnerDeletion: true },
        ],
      },
      spec: template.spec,
    });
  });

  it("[replicaset 39] preserves integers beyond the precision of a JavaScript number", () => {
    const spec = `{"containers":[{"name":"c"}],"terminationGracePeriodSeconds":9223372036854775807}`;
    const text = `{"metadata":{"name":"web","uid":"u"},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":${spec}}}}`;
    const body = podFromTemplate(parseExact(text) as KubeObject, { resource: "replicasets", name: "web-x", digest: "d" });
    expect(body instanceof Sealed && exactText(body.open()).endsWith(`,"spec":${spec}}`)).toBe(true);
  });

  it("creates no pod from a template without labels", () => {
    const bare = { ...live, spec: { template: { spec: template.spec } } } as KubeObject;
    expect(podFromTemplate(bare, { resource: "replicasets", name: "web-x", digest: "d" })).toEqual({
      kind: "Invalid",
      message: "unable to create pods, no labels",
    });
  });

  it("prints the template's digest instead of its content when a pod body is serialized", () => {
    const body = podFromTemplate(live, { resource: "replicasets", name: "web-x", digest: "k.1.d" });
    for (const text of [
      inspect(body, { depth: 9, showHidden: true }),
      JSON.stringify({ body }),
      `${String(body)}`,
      inspect({ nested: [body] }, { depth: 9 }),
    ]) {
      expect(text).toContain("sealed(k.1.d)");
      expect(text).not.toContain(SECRET);
    }
  });
});
