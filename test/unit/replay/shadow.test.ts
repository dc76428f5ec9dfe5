// Shadow mode on recordings: upstream's writes, comparison, streaming and live reports.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";

import { afterAll, describe, expect, it } from "vitest";

import { SYNC_HANDLERS } from "../../../cli/functions/sync-handlers.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { CaptureError } from "../../../shared/replay/capture-format/capture.ts";
import { LiveShadow } from "../../../shared/replay/shadow/live.ts";
import { differencesOf, same, canonicalWrite } from "../../../shared/replay/shadow/canonical-write.ts";
import { nearestDifferences } from "../../../shared/replay/shadow/nearest-differences.ts";
import type { Finding } from "../../../shared/replay/shadow/recorded.ts";
import { changesIn, MissingCensus } from "../../../shared/replay/shadow/change-stream.ts";
import { RecordedShadow } from "../../../shared/replay/shadow/recorded.ts";
import { History, type Change, type LiveObject } from "../../../shared/replay/shadow/states.ts";
import { labelOf, writesOfAudit, writesOfChanges } from "../../../shared/replay/shadow/upstream-writes.ts";
import { canary } from "../../support/canaries.ts";
import { changesOf, heldCapture, parseCapture, shadow } from "../../support/held-capture.ts";

const ROOT = join(import.meta.dirname, "../../..");
const NOW = "2026-03-01T10:00:00Z";
const nowMs = Date.parse(NOW);
const digester = createDigester("a key of this test alone");
const place = { handlers: SYNC_HANDLERS, digester };
const options = { name: "f", digester, malformed: () => undefined };

type Fields = Readonly<Record<string, unknown>>;
const template = {
  metadata: { labels: { app: "web" } },
  spec: { containers: [{ name: "app", image: "v1", env: [{ name: "P", value: canary("env") }] }] },
};
const byUpstream = { managedFields: [{ manager: "kube-controller-manager", time: NOW }] };
const deploymentRef = [{ apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: "d", controller: true }];
const workload = (
  kind: string,
  uid: string,
  rv: number,
  { metadata = {}, spec = {}, status = {} }: Readonly<Record<string, Fields>> = {},
): Fields => ({
  kind,
  metadata: { namespace: "shop", name: uid, uid, resourceVersion: String(rv), generation: 1, creationTimestamp: NOW, ...metadata },
  spec: { replicas: 1, selector: { matchLabels: { app: "web" } }, template, ...spec },
  status,
});
const lineOf = (object: Fields, { type = "MODIFIED", at = NOW, ...more }: Readonly<Record<string, string>> = {}): string =>
  JSON.stringify(more["k"] === undefined ? { t: at, type, object } : { t: at, ...more, object });
const changed = (...lines: readonly string[]): readonly Change[] => changesOf(parseCapture(lines.join("\n"), "f"), options);

const rs = (rv: number, more?: Parameters<typeof workload>[3]): Fields => workload("ReplicaSet", "rs", rv, more);
const owned = { ownerReferences: deploymentRef };

describe("upstream's writes, derived from changes", () => {
  const told = (...lines: readonly string[]): readonly string[] =>
    writesOfChanges(changed(...lines)).map((write) => `${write.controller}: ${labelOf(write)}${write.isCertain ? "" : "?"}`);
  const added = lineOf(rs(1, { metadata: owned }), { type: "ADDED" });

  it.each([
    { name: "a ReplicaSet is created for a Deployment", lines: [added], want: ["deployment: create replicasets shop/rs"] },
    { name: "a listed object is no write", lines: [lineOf(rs(1, { metadata: owned }), { k: "item" })], want: [] },
    { name: "an object created by a user is no write", lines: [lineOf(rs(1), { type: "ADDED" })], want: [] },
    {
      name: "an object that existed before is no write",
      lines: [lineOf(rs(1, { metadata: { ...owned, creationTimestamp: "2026-03-01T09:00:00Z" } }), { type: "ADDED" })],
      want: [],
    },
    {
      name: "a size is written",
      lines: [added, lineOf(rs(2, { metadata: { ...owned, ...byUpstream }, spec: { replicas: 2 } }))],
      want: ["deployment: create replicasets shop/rs", "deployment: update replicasets shop/rs"],
    },
    {
      name: "a scale by a user is no write",
      lines: [
        lineOf(rs(1, { metadata: { ...owned, ...byUpstream } }), { k: "item" }),
        lineOf(
          rs(2, { metadata: { ...owned, managedFields: [...byUpstream.managedFields, { manager: "kubectl" }] }, spec: { replicas: 2 } }),
        ),
      ],
      want: [],
    },
    {
      name: "a status is written before the end of a deletion",
      lines: [
        lineOf(rs(1), { k: "item" }),
        lineOf(rs(2, { status: { replicas: 1 } })),
        lineOf(rs(3, { status: { replicas: 1 }, metadata: { deletionTimestamp: NOW } }), { type: "DELETED" }),
      ],
      want: ["replicaset: update replicasets/status shop/rs"],
    },
    {
      name: "an owner reference is removed",
      lines: [lineOf(rs(1, { metadata: owned }), { k: "item" }), lineOf(rs(2))],
      want: ["deployment: update replicasets shop/rs?"],
    },
    {
      name: "an object is deleted",
      lines: [lineOf(rs(1, { metadata: owned }), { k: "item" }), lineOf(rs(2, { metadata: owned }), { type: "DELETED" })],
      want: ["deployment: delete replicasets shop/rs?"],
    },
  ])("UW2 UW3 upstream's writes: $name", ({ lines, want }) => expect(told(...lines)).toEqual(want));

  it("UW1 rejects an audit log below RequestResponse, and counts writes that the API server truncated", () => {
    const event = {
      ...{ apiVersion: "audit.k8s.io/v1", level: "Metadata", stage: "ResponseComplete", verb: "create", requestReceivedTimestamp: NOW },
      user: { username: "system:serviceaccount:kube-system:replicaset-controller" },
      objectRef: { resource: "pods", namespace: "shop", name: "a" },
      responseStatus: { code: 201 },
    };
    expect(() => writesOfAudit([event], "a.log")).toThrow("a.log: a write of pods was audited below level RequestResponse");
    const truncated = { ...event, annotations: { "audit.k8s.io/truncated": "true" } };
    let counted = 0;
    expect(writesOfAudit([truncated], "a.log", { onTruncated: () => counted++ })).toEqual([]);
    expect(counted).toBe(1);
  });

  it("UW1 takes a write from its last stage only, none of a dry run, and none that another user impersonated", () => {
    const written = {
      ...{
        apiVersion: "audit.k8s.io/v1",
        level: "RequestResponse",
        stage: "ResponseComplete",
        verb: "update",
        requestReceivedTimestamp: NOW,
      },
      user: { username: "system:serviceaccount:kube-system:replicaset-controller" },
      objectRef: { resource: "pods", namespace: "shop", name: "a" },
      responseStatus: { code: 200 },
      responseObject: { metadata: { name: "a", resourceVersion: "2" } },
    };
    const received = { ...written, stage: "RequestReceived", responseStatus: undefined, responseObject: undefined };
    const dryRun = { ...written, requestURI: "/api/v1/namespaces/shop/pods/a?fieldManager=x&dryRun=All" };
    const impersonated = { ...written, impersonatedUser: { username: "jane" } };
    expect(writesOfAudit([received, written, dryRun, impersonated], "a.log").map(({ version }) => version)).toEqual(["2"]);
  });
});

describe("values compared by shadow", () => {
  it("include long integers of a template, to the last digit", () => {
    const said = (seconds: bigint): unknown => ({ spec: { template: { spec: { activeDeadlineSeconds: seconds } } } });
    const path = "spec.template.spec.activeDeadlineSeconds";
    expect(differencesOf(said(2n ** 53n), said(2n ** 53n + 1n), "deltaloop")).toEqual([`${path}: not alike`]);
    expect(differencesOf(said(2n ** 53n), said(2n ** 53n), "deltaloop")).toEqual([]);
    expect([same(said(2n ** 53n), said(2n ** 53n)), same(said(2n ** 53n), said(2n ** 53n + 1n))]).toEqual([true, false]);
  });

  it("do not include a template's creationTimestamp of null, which Kubernetes before 1.34 writes", () => {
    const said = (metadata: object): unknown => {
      const written = rs(1, { spec: { template: { ...template, metadata: { ...template.metadata, ...metadata } } } });
      return canonicalWrite(written as unknown as LiveObject, nowMs, "");
    };
    expect([same(said({ creationTimestamp: null }), said({})), same(said({ creationTimestamp: NOW }), said({}))]).toEqual([true, false]);
  });

  it("reports a difference in a template or another component's annotation without its values", () => {
    const said = (value: string): unknown =>
      canonicalWrite(
        rs(1, { metadata: { annotations: { note: value, "deployment.kubernetes.io/revision": value } } }) as unknown as LiveObject,
        nowMs,
        "",
      );
    const other = {
      ...rs(1, {
        spec: { template: { ...template, spec: { containers: [{ name: "app", image: "v2", env: [{ name: "P", value: "x" }] }] } } },
      }),
    };
    const all = [
      ...differencesOf(said("1"), said("2"), "deltaloop"),
      ...differencesOf(said("1"), canonicalWrite(other as unknown as LiveObject, nowMs, ""), "deltaloop"),
    ];
    expect(all.join("\n")).not.toContain(canary("env"));
    expect(all).toEqual(
      expect.arrayContaining([
        "annotations.note: not alike",
        'annotations.deployment.kubernetes.io/revision: upstream "1", deltaloop "2"',
        "spec.template.spec.containers.0.env.0.value: not alike",
        'spec.template.spec.containers.0.image: upstream "v1", deltaloop "v2"',
      ]),
    );
  });

  it("rejects stripped objects, and omits and reports malformed ones", () => {
    const flat = { kind: "Pod", namespace: "shop", name: "a", uid: "a", resourceVersion: "1" };
    expect(() => changed(lineOf(flat))).toThrow(CaptureError);
    expect(() => changed(lineOf({ ...rs(1), spec: { replicas: 1, template: { labels: {}, digest: "d" } } }))).toThrow(
      "its objects are stripped",
    );
    const heard: string[] = [];
    const records = parseCapture([lineOf(rs(1, { metadata: { uid: 7 } })), lineOf(rs(2))].join("\n"), "f");
    expect(changesOf(records, { ...options, malformed: (what) => heard.push(what) })).toHaveLength(1);
    expect(heard).toEqual([expect.stringContaining("replicasets")]);
  });

  it("requires a list of each resource, even an empty one", () => {
    const list = (r: string, rv: string): string => JSON.stringify({ t: NOW, r, k: "listend", rv });
    const census = new MissingCensus();
    for (const record of parseCapture([lineOf(rs(1)), list("pods", "7"), list("deployments", "0")].join("\n"), "f")) census.see(record);
    expect(census.missing).toEqual(["deployments", "replicationcontrollers"]);
  });
});

const CAPTURE = join(ROOT, "test/captures/rolling-update.watch.jsonl.gz");
const toldBy = ({ atMs, ...finding }: Finding): string =>
  finding.kind === "rest" ? `rest ${finding.ours.join()}` : `${atMs} ${labelOf(finding.write)} ${finding.verdict.kind}`;

const found = async (findings: AsyncGenerator<Finding>): Promise<readonly string[]> => {
  const told: string[] = [];
  for await (const finding of findings) told.push(toldBy(finding));
  return told.toSorted();
};

/** Reads a capture in batches of this many records, and keeps at most this many changes. */
async function* streamed(path: string, { batch, keptMax }: { readonly batch: number; readonly keptMax: number }): AsyncGenerator<Finding> {
  const records = parseCapture(gunzipSync(readFileSync(path)), path);
  const { firstLists } = heldCapture(records);
  const batches = async function* (): AsyncGenerator<typeof records> {
    for (let start = 0; start < records.length; start += batch) yield await Promise.resolve(records.slice(start, start + batch));
  };
  const recorded = new RecordedShadow(place, { keptMax });
  for await (const changes of changesIn({ firstLists, batches }, options)) yield* recorded.take(changes);
}

describe("a streamed comparison", () => {
  it.each([
    { name: "rolling-update", batch: 1, keptMax: 20 },
    { name: "owner-deleted", batch: 7, keptMax: 10 },
  ])("RS1 RS2 CQ1 a streamed comparison of $name gives the same findings as a complete one", async ({ name, ...sizes }) => {
    const path = join(ROOT, `test/captures/${name}.watch.jsonl.gz`);
    const whole = await found(shadow(changesOf(parseCapture(gunzipSync(readFileSync(path)), path), options), place));
    expect(await found(streamed(path, sizes))).toEqual(whole);
    expect(whole.length).toBeGreaterThan(10);
  });

  it("CQ2 sorts changes that arrive out of order by version", async () => {
    const at = (ms: number): string => new Date(nowMs + ms).toISOString();
    const size = (rv: number, replicas: number): Fields => rs(rv, { metadata: owned, spec: { replicas } });
    const lines = [
      lineOf(size(1, 1), { k: "item", at: at(0) }),
      lineOf(size(9, 3), { at: at(10) }),
      // Another resource's watch lags by 20 s.
      lineOf(workload("Deployment", "d", 5), { type: "ADDED", at: at(20_000) }),
    ];
    const history = new History([]);
    const records = parseCapture(lines.join("\n"), "f");
    const { firstLists } = heldCapture(records);
    const batches = async function* (): AsyncGenerator<typeof records> {
      for (const record of records) yield await Promise.resolve([record]);
    };
    for await (const { changes } of changesIn({ firstLists, batches }, options)) history.push(changes);
    expect(history.changes.map(({ version }) => version)).toEqual(["1", "5", "9"]);
    expect(history.after(2).map(({ metadata }) => metadata.resourceVersion)).toEqual(["1", "5"]);
  });
});

it("SH1 compares a status that is sent again after scaling with the version before the scaling", async () => {
  const resized = { metadata: { ...owned, generation: 2 }, spec: { replicas: 0 } };
  const changes = changed(
    lineOf(rs(1, { metadata: { ...owned, generation: 1 }, spec: { replicas: 1 } }), { k: "item" }),
    lineOf(rs(2, resized)),
    // The status was computed from version 1, whose generation it contains; the stored object has the size of version 2.
    lineOf(rs(3, { ...resized, status: { replicas: 0, terminatingReplicas: 0, observedGeneration: 1 } })),
  );
  const findings: Finding[] = [];
  for await (const finding of shadow(changes, place)) findings.push(finding);
  const verdicts = findings.flatMap((each) => (each.kind === "write" ? [[labelOf(each.write), each.verdict.kind]] : []));
  expect(verdicts).toContainEqual(["update replicasets/status shop/rs", "older"]);
});

it("UW1 relates a deletion to the object with the same uid, not to an earlier object of that name", async () => {
  const pod = (uid: string, rv: number, metadata: Fields = {}): Fields => ({
    kind: "Pod",
    metadata: {
      ...{ namespace: "shop", name: "web-1", uid, resourceVersion: String(rv), creationTimestamp: NOW, labels: { app: "web" } },
      ...{ ownerReferences: [{ apiVersion: "apps/v1", kind: "ReplicaSet", name: "rs", uid: "rs", controller: true }], ...metadata },
    },
    spec: template.spec,
    status: { phase: "Running" },
  });
  const changes = changed(
    lineOf(rs(1), { k: "item" }),
    lineOf(pod("first", 2), { k: "item" }),
    lineOf(pod("first", 3), { type: "DELETED" }), // a user deletes the pod, so one is missing
    lineOf(pod("second", 4), { type: "ADDED" }),
    lineOf(rs(5, { spec: { replicas: 0 } })),
    lineOf(pod("second", 6, { deletionTimestamp: NOW })),
  );
  const event = {
    ...{
      apiVersion: "audit.k8s.io/v1",
      level: "RequestResponse",
      stage: "ResponseComplete",
      verb: "delete",
      requestReceivedTimestamp: NOW,
    },
    user: { username: "system:serviceaccount:kube-system:replicaset-controller" },
    ...{ objectRef: { resource: "pods", namespace: "shop", name: "web-1" }, responseStatus: { code: 200 } },
    responseObject: pod("second", 6, { deletionTimestamp: NOW }),
  };
  const told = await found(shadow(changes, place, writesOfAudit([event], "a.log")));
  expect(told).toContain(`${nowMs} delete pods shop/web-1 exact`);
});

describe("live comparison", () => {
  const records = parseCapture(gunzipSync(readFileSync(CAPTURE)), "rolling-update");
  const endOfLists = ["deployments", "replicasets", "replicationcontrollers", "pods"].flatMap((r) =>
    parseCapture(JSON.stringify({ t: new Date((records[0]?.atMs ?? 0) - 1).toISOString(), r, k: "listend", rv: "1" }), "f"),
  );
  const live = async (given: typeof records, stepMs = 500): Promise<readonly Finding[]> => {
    const judge = new LiveShadow(place, options);
    const findings: Finding[] = [];
    const rest = given.toSorted((a, b) => a.atMs - b.atMs);
    for (let now = given[0]?.atMs ?? 0; rest.length > 0 || now < (given.at(-1)?.atMs ?? 0) + 10_000; now += stepMs) {
      while ((rest[0]?.atMs ?? Infinity) <= now) {
        const record = rest.shift();
        if (record) judge.hear(record);
      }
      for await (const finding of judge.findings(now)) findings.push(finding);
    }
    return findings;
  };

  it.each([100, 500, 3_000])("LV1 gives the same findings in steps of %i ms as for the whole recording", async (stepMs) => {
    const whole: Finding[] = [];
    for await (const finding of shadow(changesOf(records, options), place)) whole.push(finding);
    const seen = await live([...endOfLists, ...records], stepMs);
    const writes = (findings: readonly Finding[]): readonly string[] =>
      findings
        .filter(({ kind }) => kind === "write")
        .map(toldBy)
        .toSorted();
    expect(writes(seen)).toEqual(writes(whole));
    expect(seen.filter(({ kind }) => kind === "rest").length).toBeGreaterThan(0);
  });

  it("LV2 reports nothing before the first list of every resource", async () => {
    expect(await live([...endOfLists.slice(1), ...records])).toEqual([]);
  });

  it("LV2 does not attribute objects that appear or disappear in a relist to a client", async () => {
    const at = (ms: number): string => new Date(nowMs + ms).toISOString();
    const item = (object: Fields, ms: number): string => lineOf(object, { k: "item", at: at(ms) });
    const listed = (r: string, ms: number): string => JSON.stringify({ t: at(ms), r, k: "listend", rv: String(10 + ms) });
    const others = ["deployments", "replicationcontrollers", "pods"].map((r) => listed(r, 0));
    const first = [
      item(rs(1, { metadata: owned }), 0),
      item(workload("ReplicaSet", "gone", 2, { metadata: owned }), 0),
      listed("replicasets", 0),
      ...others,
    ];
    const again = [item(rs(9, { metadata: owned, spec: { replicas: 3 }, status: { replicas: 3 } }), 5_000), listed("replicasets", 5_000)];
    const findings = await live(parseCapture([...first, ...again].join("\n"), "f"));
    expect(findings.filter(({ kind }) => kind === "write")).toEqual([]);
  });
});

describe("the command", () => {
  const run = (...args: readonly string[]): { readonly code: number | null; readonly stdout: string; readonly stderr: string } => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "shadow", ...args], { encoding: "utf8" });
    return { code: status, stdout, stderr };
  };
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-shadow-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const fileOf = (content: string): string => {
    const path = join(folder, "f.jsonl");
    writeFileSync(path, content);
    return path;
  };

  it("reports a status that our controllers would not have written, and exits with 1", () => {
    const lines = gunzipSync(readFileSync(CAPTURE)).toString().split("\n");
    const forged = lines.map((line) =>
      line.includes('"MODIFIED"') && line.includes('"r":"deployments"') ? line.replace('"updatedReplicas":3', '"updatedReplicas":2') : line,
    );
    const file = fileOf(forged.join("\n"));
    const { code, stdout } = run(file);
    expect({ code, stdout }).toMatchObject({
      code: 1,
      stdout: expect.stringContaining("counters.updatedReplicas: upstream 2, deltaloop 3"),
    });
    expect(run("--capture", file).stdout).toBe(stdout);
  });

  it.each([
    { name: "two captures", args: ["a", "--capture", "b"], says: "pass one capture: FILE or --capture FILE" },
    {
      name: "a capture and a cluster",
      args: ["a", "--context", "prod", "--metrics", "127.0.0.1:0"],
      says: "a capture needs no cluster access: remove --context, --metrics",
    },
  ])("rejects $name in one line, with exit code 2", ({ args, says }) => {
    const { code, stdout, stderr } = run(...args);
    expect({ code, stdout, stderr: stderr.split("\n")[0] }).toEqual({ code: 2, stdout: "", stderr: `deltaloop: ${says}` });
  });

  it.each([
    {
      name: "a stripped capture",
      content: lineOf({ kind: "Pod", namespace: "shop", name: "a", uid: "a", resourceVersion: "1" }),
      says: /objects are stripped/,
    },
    { name: "a file that is not a capture", content: "\u001B[2J", says: /:1: not JSON/ },
    { name: "an empty file", content: "", says: /no event of a watched resource/ },
  ])("rejects $name in one line, with exit code 2", ({ content, says }) => {
    const { code, stdout, stderr } = run(fileOf(content));
    expect({ code, stdout, lines: stderr.trimEnd().split("\n").length }).toEqual({ code: 2, stdout: "", lines: 1 });
    expect(stderr).toMatch(says);
  });
});

it("compares an unexpected write with the most similar decided write, or else with the previous object", () => {
  const want = { name: "a", counters: { replicas: 3, readyReplicas: 2 } };
  const [near, far] = [
    { name: "a", counters: { replicas: 3, readyReplicas: 1 } },
    { name: "a", counters: { replicas: 1, readyReplicas: 1 } },
  ];
  expect(nearestDifferences({ kind: "unexplained", want, ours: [far, near], before: undefined })).toEqual([
    "counters.readyReplicas: upstream 2, deltaloop 1",
  ]);
  expect(nearestDifferences({ kind: "unexplained", want, ours: [{ delete: "pods a" }], before: far })).toEqual([
    "deltaloop would have made no similar write",
    "counters.replicas: upstream 3, before 1",
    "counters.readyReplicas: upstream 2, before 1",
  ]);
});
