// Explanations of an object's history: authors, outcomes, redaction and invalid input.
import { describe, expect, it } from "vitest";
import { asJson, storyText } from "../../../cli/explain/explain-text.ts";
import { summaryJson, summaryText } from "../../../cli/explain/summary-text.ts";
import { momentIn } from "../../../cli/command/moment.ts";
import { subjectIn, wantedBy } from "../../../cli/explain/subject.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import type { Write } from "../../../shared/controllers/kit/writes.ts";
import { type ObjectChange } from "../../../shared/replay/explain/changes.ts";
import { FamilyCensus } from "../../../shared/replay/explain/family.ts";
import { storyOf, type Subject } from "../../../shared/replay/explain/story.ts";
import { Outcomes, type Recorded } from "../../../shared/replay/explain/outcome.ts";
import { summaryOf } from "../../../shared/replay/explain/summary.ts";
import type { ReplayedSync } from "../../../shared/replay/engine/sync-log.ts";
import { canaryAnnotations, canaryContainer, DENIAL, FOREIGN } from "../../support/canaries.ts";
import { objectChanges, parseCapture } from "../../support/held-capture.ts";

const START = "2026-03-01T10:00:00Z";
const startMs = Date.parse(START);
const digester = createDigester("a key of this test alone");

type Fields = Readonly<Record<string, unknown>>;

function object(
  kind: string,
  name: string,
  rv: number,
  { metadata = {}, spec = {}, status = {} }: Readonly<Record<string, Fields>> = {},
): Fields {
  const template = { metadata: { labels: { app: "web" } }, spec: { containers: [canaryContainer("app", "v1")] } };
  const owned = kind === "Pod" ? {} : { replicas: 3, selector: { matchLabels: { app: "web" } }, template };
  return {
    kind,
    metadata: { namespace: "shop", name, uid: `uid-${name}`, resourceVersion: String(rv), annotations: canaryAnnotations(), ...metadata },
    spec: { ...owned, ...spec },
    status,
  };
}

const event = (type: string, seconds: number, of: Fields): string =>
  JSON.stringify({ t: new Date(startMs + seconds * 1000).toISOString(), type, object: of });
const changesIn = (...lines: readonly string[]): readonly ObjectChange[] => objectChanges(parseCapture(lines.join("\n"), "f"), digester);
const ownedBy = (kind: string, name: string): Fields => ({
  ownerReferences: [{ apiVersion: "apps/v1", kind, name, uid: `uid-${name}`, controller: true }],
});

describe("changes between two states", () => {
  it("lists each changed field once, with its writer", () => {
    const by = (manager: string, time: string): Fields => ({ managedFields: [{ manager, operation: "Update", time }] });
    const changes = changesIn(
      event("ADDED", 0, object("Deployment", "web", 1, { metadata: by("kubectl", "a") })),
      event("MODIFIED", 1, object("Deployment", "web", 2, { metadata: by("kubectl", "b"), spec: { replicas: 5 } })),
      event("MODIFIED", 1, object("Deployment", "web", 2, { metadata: by("kubectl", "b"), spec: { replicas: 5 } })),
      event(
        "MODIFIED",
        2,
        object("Deployment", "web", 3, { metadata: by("kubectl", "b"), spec: { replicas: 5 }, status: { readyReplicas: 2 } }),
      ),
      event("DELETED", 3, object("Deployment", "web", 4)),
    );
    expect(changes.map(({ kind, differences, by: who }) => [kind, kind === "changes" ? differences : [], who])).toEqual([
      ["appears", [], "kubectl"],
      ["changes", [{ field: "replicas", from: "3", to: "5" }], "kubectl"],
      ["changes", [{ field: "status.readyReplicas", to: "2" }], undefined],
      ["goes", [], undefined],
    ]);
  });

  it("reports neither a new object of the same name nor a hidden field as a change", () => {
    const changes = changesIn(
      event("ADDED", 0, object("Pod", "p", 1)),
      event("MODIFIED", 1, object("Pod", "p", 2, { status: { hostIP: "10.0.0.1" } })),
      event("ADDED", 2, object("Pod", "p", 3, { metadata: { uid: "other" } })),
    );
    expect(changes.map(({ kind, uid }) => [kind, uid])).toEqual([
      ["appears", "uid-p"],
      ["appears", "other"],
    ]);
  });

  it("omits objects that a watcher would quarantine", () => {
    expect(changesIn(event("ADDED", 0, { kind: "Pod", metadata: { namespace: "shop", name: "p" } }))).toEqual([]);
  });
});

const owner = { resource: "deployments", namespace: "shop", name: "web", uid: "uid-web" } as const;
const of = { owner, name: "web-a", uid: "uid-web-a", resourceVersion: "1" };
const sync = (writes: readonly Write[], seconds = 1): ReplayedSync => ({
  atMs: startMs + seconds * 1000,
  controller: "deployment",
  key: "shop/web",
  reasons: [],
  lines: writes.map((write) => ({ controller: "deployment", key: "shop/web", kind: "decided", write })),
  outcome: "ok",
});

const failed = (message: string): Fields => ({
  conditions: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message }],
});
const QUOTA = 'pods "c-1" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2';

describe("the recorded outcome of a decision", () => {
  const changes = changesIn(
    event("ADDED", 0, object("Deployment", "web", 1)),
    event("ADDED", 0.5, object("ReplicaSet", "web-a", 2, { metadata: ownedBy("Deployment", "web"), spec: { replicas: 1 } })),
    event("MODIFIED", 2, object("ReplicaSet", "web-a", 3, { metadata: ownedBy("Deployment", "web"), spec: { replicas: 4 } })),
    event("ADDED", 2.5, object("Pod", "web-a-1", 4, { metadata: ownedBy("ReplicaSet", "web-a") })),
    event("DELETED", 3, object("Pod", "web-a-1", 5, { metadata: ownedBy("ReplicaSet", "web-a") })),
  );
  const recorded = (write: Write): readonly Omit<Recorded, "write">[] =>
    storyOf({ resource: "deployments", namespace: "shop", name: "web" }, changes, [sync([write])]).flatMap((entry) =>
      entry.kind === "sync" ? entry.recorded.map(({ write: _, ...rest }) => rest) : [],
    );
  const pods = {
    kind: "CreatePods",
    owner: { ...owner, resource: "replicasets", uid: "uid-web-a" },
    template: { generation: 1, digest: "d" },
  } as const;

  it.each<{ name: string; write: Write; want: object | undefined }>([
    {
      name: "is 'same' if the size is the same",
      write: { kind: "PatchReplicaSet", ...of, replicas: 4 },
      want: { kind: "same", afterMs: 1000 },
    },
    {
      name: "is 'other' if the size differs",
      write: { kind: "PatchReplicaSet", ...of, replicas: 2 },
      want: { kind: "other", afterMs: 1000, what: "replicas 4" },
    },
    {
      name: "is undefined for a change of only annotations",
      write: { kind: "PatchReplicaSet", ...of, annotations: {} },
      want: undefined,
    },
    { name: "is 'same' if one of one pods is created", write: { ...pods, count: 1 }, want: { kind: "same", afterMs: 1500 } },
    {
      name: "is 'overtaken' if one of two pods is created before the desired number falls",
      write: { ...pods, count: 2 },
      want: { kind: "overtaken", afterMs: 1000, what: "replicas became 4", made: 1 },
    },
    {
      name: "is 'same' for a deleted pod",
      write: { kind: "DeletePod", ...of, name: "web-a-1", size: { generation: 1, replicas: 0 } },
      want: { kind: "same", afterMs: 2000 },
    },
    {
      name: "is 'nothing' for a pod that remains",
      write: { kind: "DeletePod", ...of, name: "web-a-9", size: { generation: 1, replicas: 0 } },
      want: { kind: "nothing" },
    },
    { name: "is 'nothing' for a ReplicaSet that remains", write: { kind: "DeleteReplicaSet", ...of }, want: { kind: "nothing" } },
  ])("the recorded outcome $name", ({ write, want }) => {
    expect(recorded(write)).toEqual(want === undefined ? [] : [want]);
  });
});

it("prints no secret from any field, as text or as JSON", () => {
  const conditions = [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: `${DENIAL} ${FOREIGN}` }];
  const lines = [
    event("ADDED", 0, object("Deployment", "web", 1)),
    event("ADDED", 1, object("ReplicaSet", "web-a", 2, { metadata: ownedBy("Deployment", "web"), status: { conditions } })),
    event(
      "ADDED",
      1,
      object("Pod", "web-a-1", 3, { metadata: ownedBy("ReplicaSet", "web-a"), spec: { containers: [canaryContainer("app", "v1")] } }),
    ),
    event(
      "MODIFIED",
      2,
      object("Deployment", "web", 4, {
        metadata: { annotations: {} },
        spec: { template: { spec: { containers: [canaryContainer("app", "v2")] } } },
      }),
    ),
  ];
  const story = storyOf({ resource: "deployments", namespace: "shop", name: "web" }, changesIn(...lines), []);
  const text =
    storyText(story, { startMs, endMs: startMs + 60_000 }, true).join("") +
    story.map((entry) => JSON.stringify(asJson(entry, startMs))).join("");
  expect(text).toContain("template changed");
  expect(text).toContain("annotation kubernetes.io/change-cause changed");
  expect(text).not.toContain("CANARY");
});

describe("the outcome of decided creates", () => {
  const rs = (rv: number, fields: Readonly<Record<string, Fields>> = {}): Fields => object("ReplicaSet", "web-a", rv, fields);
  const created = (name: string, rv: number): Fields => object("Pod", name, rv, { metadata: ownedBy("ReplicaSet", "web-a") });
  const decided = (count: number, saw: number): ReplayedSync => ({
    ...sync([]),
    controller: "replicaset",
    key: "shop/web-a",
    lines: [
      {
        ...{ controller: "replicaset", key: "shop/web-a", kind: "reason" },
        reason: { rule: "too few", facts: { replicas: saw + count, pods: saw, burst: 500, create: count } },
      },
      {
        ...{ controller: "replicaset", key: "shop/web-a", kind: "decided" },
        write: {
          kind: "CreatePods",
          owner: { resource: "replicasets", namespace: "shop", name: "web-a", uid: "uid-web-a" },
          template: { generation: 1, digest: "d" },
          count,
        },
      },
    ],
  });
  const outcome = (lines: readonly string[], made: ReplayedSync): readonly Omit<Recorded, "write">[] =>
    new Outcomes(changesIn(event("ADDED", 0, rs(1)), ...lines)).of(made).map(({ write: _, ...rest }) => rest);

  it("counts changes of the same millisecond, except those already observed", () => {
    const lines = [event("ADDED", 1, created("a", 2)), event("ADDED", 1, created("b", 3))];
    expect(outcome(lines, decided(1, 1))).toEqual([{ kind: "same", afterMs: 0 }]);
    expect(outcome(lines, decided(1, 2))).toEqual([{ kind: "nothing" }]);
  });

  it("a create is rejected, with the message if that is safe to show", () => {
    const refused = (message: string): readonly Omit<Recorded, "write">[] =>
      outcome([event("ADDED", 1.1, created("a", 2)), event("MODIFIED", 1.2, rs(3, { status: failed(message) }))], decided(3, 0));
    expect(refused(QUOTA)).toEqual([{ kind: "refused", afterMs: 200, what: QUOTA, made: 1 }]);
    expect(refused(DENIAL)).toEqual([{ kind: "refused", afterMs: 200, what: "FailedCreate", made: 1 }]);
  });

  it("a create is completed if it succeeds after a rejection", () => {
    const lines = [event("MODIFIED", 1.2, rs(2, { status: failed(QUOTA) })), event("ADDED", 3, created("a", 3))];
    expect(outcome(lines, decided(1, 0))).toEqual([{ kind: "same", afterMs: 2000, what: QUOTA }]);
  });

  it("a create is not rejected if the failure was resolved before", () => {
    const lines = [event("MODIFIED", 0.1, rs(2, { status: failed(QUOTA) })), event("MODIFIED", 0.2, rs(3))];
    expect(outcome(lines, decided(3, 0))).toEqual([{ kind: "nothing" }]);
  });
});

describe("the author of a change", () => {
  const entry = (manager: string, time: string, fieldsV1: object, subresource?: string): object => ({
    ...{ manager, operation: "Update", time, fieldsV1 },
    ...(subresource !== undefined && { subresource }),
  });
  const size = { "f:spec": { "f:replicas": {} } };
  const template = { "f:spec": { "f:template": { "f:spec": {} } } };
  const status = { "f:status": { "f:readyReplicas": {} } };
  const by = (before: readonly object[], after: readonly object[], changed: Readonly<Record<string, Fields>>): string | undefined =>
    changesIn(
      event("ADDED", 0, object("Deployment", "web", 1, { metadata: { managedFields: before } })),
      event("MODIFIED", 1, object("Deployment", "web", 2, { metadata: { managedFields: after }, ...changed })),
    ).at(-1)?.by;

  it.each([
    {
      name: "the manager with a new entry, although another one lost the fields",
      before: [entry("create", "a", { "f:spec": { "f:replicas": {}, "f:template": {} } })],
      after: [entry("create", "a", template), entry("scale", "b", size)],
      changed: { spec: { replicas: 5 } },
      want: "scale",
    },
    {
      name: "the manager that owns the fields if two writes have the same second",
      before: [entry("create", "a", size), entry("manager", "b", status, "status")],
      after: [entry("create", "a", size), entry("manager", "b", status, "status")],
      changed: { status: { readyReplicas: 2 } },
      want: "manager",
    },
    {
      name: "unknown if several managers own the fields",
      before: [entry("create", "a", size), entry("apply", "a", size)],
      after: [entry("create", "a", size), entry("apply", "a", size)],
      changed: { spec: { replicas: 5 } },
      want: undefined,
    },
  ])("the author of a change is $name", ({ before, after, changed, want }) => expect(by(before, after, changed)).toBe(want));

  it("the author of a change is the user in the audit log if there is one, and otherwise the field manager", () => {
    const line = JSON.parse(event("ADDED", 0, object("Deployment", "web", 1))) as object;
    expect(changesIn(JSON.stringify({ ...line, by: "jane" })).map((change) => change.by)).toEqual(["jane"]);
  });
});

describe("a summary", () => {
  const changes = changesIn(
    event("ADDED", 0, object("ReplicaSet", "web-a", 1)),
    event("ADDED", 1, object("Pod", "web-a-1", 2, { metadata: ownedBy("ReplicaSet", "web-a") })),
    event("MODIFIED", 2, object("ReplicaSet", "web-a", 3, { status: failed(QUOTA) })),
    event("MODIFIED", 9, object("ReplicaSet", "web-a", 4, { spec: { replicas: 1 }, status: { readyReplicas: 1, availableReplicas: 1 } })),
  );
  const subject: Subject = { resource: "replicasets", namespace: "shop", name: "web-a" };
  const inShort = (syncs: readonly ReplayedSync[]): string =>
    summaryText(subject, summaryOf(subject, storyOf(subject, changes, syncs)), startMs);
  const own = (seconds: number, writes: readonly Write[]): ReplayedSync => ({
    ...sync(writes, seconds),
    controller: "replicaset",
    key: "shop/web-a",
  });
  const create: Write = {
    kind: "CreatePods",
    owner: { resource: "replicasets", namespace: "shop", name: "web-a", uid: "uid-web-a" },
    template: { generation: 1, digest: "d" },
    count: 2,
  };

  it("summarises requests, recorded writes, decisions, rejections and the final state", () => {
    expect(inShort([own(0, [create]), own(0.5, [create]), own(9, [])])).toBe(
      [
        "Summary",
        "  +0.000s created: replicas 3",
        "  +9.000s replicas 3 → 1",
        "  recorded: 1 pod created",
        "  deltaloop: 3 syncs, 1 with nothing to do; decisions without repeats: create pods once; in the recording: 1 refused in part",
        `  from +2.000s to +9.000s replicaset.apps/web-a was refused (FailedCreate): ${QUOTA}`,
        "  settled since +9.000s: 1 of 1 pod available",
        "\n",
      ].join("\n"),
    );
  });

  it("lists the missing pods of each creation, and creations that were completely rejected", () => {
    const late = { ...create, count: 1 };
    expect(inShort([own(0, [create]), own(1.5, [late]), own(9, [])])).toContain(
      "decisions without repeats: create pods 2 times (2, then 1 missing); in the recording: 1 refused, 1 refused in part",
    );
  });

  it("lists keys whose last sync still decided a write", () => {
    expect(inShort([own(9, [create])])).toContain(
      "at the end: not settled, deltaloop's controllers continue with replicaset.apps/web-a; 1 of 1 pod available",
    );
  });

  it("the summary is the first line of machine-readable output", () => {
    expect(summaryJson(summaryOf(subject, storyOf(subject, changes, [own(9, [])])), startMs)).toMatchObject({
      kind: "summary",
      wishes: [{ sinceMs: 0 }, { sinceMs: 9000, differences: [{ field: "replicas", from: "3", to: "1" }] }],
      refusals: [{ name: "web-a", reason: "FailedCreate", says: QUOTA, from: { sinceMs: 2000 }, until: { sinceMs: 9000 } }],
      end: { since: { sinceMs: 9000 }, busy: [], fields: { replicas: "1" } },
    });
  });
});

it("keeps a repeated decision at its first position, and marks it as repeated", () => {
  const subject: Subject = { resource: "deployments", namespace: "shop", name: "web" };
  const resize: Write = { kind: "PatchReplicaSet", ...of, replicas: 4 };
  const changes = changesIn(event("ADDED", 0, object("Deployment", "web", 1)));
  const story = storyOf(subject, changes, [sync([resize], 1), sync([resize], 2), sync([resize], 3), sync([], 4)]);
  const lines = storyText(story, { startMs, endMs: startMs + 9000 }, false)
    .join("")
    .trimEnd()
    .split("\n");
  expect(lines.slice(1)).toEqual([
    "10:00:01.000   +1.000s sync of deployment.apps/web",
    "                       → patch ReplicaSet web-a: replicas 4; not done in the recording, which ends 8.0 s later",
    "10:00:02.000   +2.000s 2 syncs of deployment.apps/web until +3.000s decide the same: patch ReplicaSet web-a: replicas 4",
    "10:00:04.000   +4.000s sync of deployment.apps/web → nothing to do",
  ]);
});

describe("a point in time", () => {
  const endMs = startMs + 60_000;
  it.each([
    ["+12.3s", 12_300],
    ["12.3", 12_300],
    ["0", 0],
    ["10:00:11.5", 11_500],
    ["2026-03-01T10:00:11Z", 11_000],
  ])("parses %s", (text, want) => expect(momentIn("--at", text, startMs, endMs) - startMs).toBe(want));

  it("accepts times past midnight", () => {
    const late = Date.parse("2026-03-01T23:59:59Z");
    expect(momentIn("--at", "00:00:01", late, late + 60_000) - late).toBe(2000);
  });

  it("rejects an invalid time, and a time outside the capture", () => {
    expect(() => momentIn("--at", "yesterday", startMs, endMs)).toThrow(
      "--at yesterday is not a time: write +12.3s after the start, 10:02:11.5 or 2026-03-01T10:02:11Z",
    );
    expect(() => momentIn("--at", "+99s", startMs, endMs)).toThrow(
      "which covers 2026-03-01T10:00:00.000Z to 2026-03-01T10:01:00.000Z (+0s to +60.0s)",
    );
  });
});

describe("an object's name", () => {
  const lines = [
    event("ADDED", 0, object("Deployment", "web", 1)),
    event("ADDED", 0, object("Deployment", "web", 2, { metadata: { namespace: "test", uid: "t" } })),
    event("ADDED", 0, object("ReplicaSet", "web-a", 3)),
  ];
  const subjectOf = (text: string): Subject => {
    const census = new FamilyCensus([wantedBy(text)]);
    for (const record of parseCapture(lines.join("\n"), "f")) census.see(record);
    return subjectIn(text, census);
  };
  it.each(["rs/web-a", "replicaset/web-a", "ReplicaSets/web-a", "replicaset.apps/web-a", "replicasets.v1.apps/web-a", "shop/rs/web-a"])(
    "resolves %s",
    (text) => {
      expect(subjectOf(text)).toEqual({ resource: "replicasets", namespace: "shop", name: "web-a" });
    },
  );
  it.each([
    ["web", "web is not an object: write deploy/web"],
    ["svc/web", "svc/web: kind svc is not supported: write deploy/web"],
    ["a/b/c/d", "a/b/c/d is not an object: write deploy/web"],
    ["rs/web", "rs/web is not in the capture; its ReplicaSets are shop/web-a"],
    ["pod/x", "pod/x is not in the capture; it has no Pod"],
    ["deploy/web", "deploy/web is in the namespaces shop, test: add -n shop"],
    ["prod/deploy/web", "prod/deploy/web is not in the capture; its Deployments are shop/web, test/web"],
  ])("rejects %s", (text, message) => expect(() => subjectOf(text)).toThrow(message));
});
