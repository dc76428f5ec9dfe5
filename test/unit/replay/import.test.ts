// Imports of watches, audit logs and queue messages: order, losses, secrets and invalid files.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { exactText } from "../../../shared/base/exact-json.ts";
import { laneOf, LANES } from "../../../shared/store/lane.ts";
import { objectKey } from "../../../shared/kube/objects/resources.ts";
import { createSigner } from "../../../shared/store/signer.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import type { Envelope } from "../../../shared/controllers/cache/messages/envelope.ts";
import { encodePack } from "../../../shared/controllers/cache/messages/pack-codec.ts";
import { CaptureError } from "../../../shared/replay/capture-format/capture.ts";
import { importFiles } from "../../../shared/replay/import/import.ts";
import { captureLines } from "../../../shared/replay/import/imported.ts";
import { ImportReport } from "../../../shared/replay/import/report.ts";
import { canary, canaryAnnotations, canaryContainer } from "../../support/canaries.ts";
import { zipOf } from "../../support/zip.ts";
import { parseCapture } from "../../support/held-capture.ts";

type Line = Readonly<Record<string, unknown>>;

const T0 = Date.parse("2026-03-01T10:00:00Z");
const TOP = mkdtempSync(join(tmpdir(), "deltaloop-import-"));
afterAll(() => rmSync(TOP, { recursive: true }));

const fileOf = (content: string | Uint8Array): string => {
  const path = join(mkdtempSync(join(TOP, "of-")), "f");
  writeFileSync(path, content);
  return path;
};

async function imported(
  paths: readonly string[],
  redact = true,
): Promise<{ readonly lines: readonly Line[]; readonly text: string; readonly report: readonly string[] }> {
  const report = new ImportReport();
  const lines = [...captureLines(await importFiles(paths, report), { digester: createDigester("a key"), redact, report })];
  parseCapture(lines.join("\n"), "written");
  return { lines: lines.map((line) => JSON.parse(line) as Line), text: lines.join("\n"), report: report.lines() };
}

const events = (lines: readonly Line[]): readonly string[] =>
  lines.flatMap(({ type, object }) => {
    const meta = ((object as Line | undefined)?.["metadata"] ?? object) as Line | undefined;
    return typeof type === "string" ? [`${type} ${String(meta?.["name"])} ${String(meta?.["resourceVersion"])}`] : [];
  });

const template = {
  metadata: { labels: { app: "web" }, annotations: canaryAnnotations() },
  spec: { containers: [canaryContainer("main", "shop:1")] },
};
const workload = (kind: string, name: string, rv: number, more: object = {}): Line => ({
  apiVersion: "apps/v1",
  kind,
  metadata: {
    namespace: "shop",
    name,
    uid: `u-${name}`,
    resourceVersion: String(rv),
    creationTimestamp: "2026-03-01T10:00:00Z",
    annotations: canaryAnnotations(),
    ...more,
  },
  spec: { replicas: 1, selector: { matchLabels: { app: "web" } }, template },
  status: { conditions: [{ type: "ReplicaFailure", status: "True", message: canary("message") }] },
});
const pod = (name: string, rv: number, more: object = {}): Line => ({
  ...workload("Pod", name, rv, more),
  apiVersion: "v1",
  spec: template.spec,
  status: { phase: "Running" },
});

const written = (verb: string, object: Line, seconds: number, more: object = {}): Line => ({
  kind: "Event",
  apiVersion: "audit.k8s.io/v1",
  level: "RequestResponse",
  stage: "ResponseComplete",
  verb,
  requestURI: `/x?note=${canary("uri")}`,
  user: { username: canary("user") },
  objectRef: {
    resource: object["kind"] === "Pod" ? "pods" : "deployments",
    ...(object["kind"] === "Pod" ? {} : { apiGroup: "apps" }),
    namespace: "shop",
    name: (object["metadata"] as Line)["name"],
  },
  responseStatus: { code: 200 },
  requestObject: object,
  responseObject: object,
  stageTimestamp: `2026-03-01T10:00:${String(seconds).padStart(2, "0")}.000000Z`,
  ...more,
});
const json = (...values: readonly unknown[]): string => values.map((value) => `${exactText(value)}\n`).join("");

const poll = (path: string, second: number, rv: number, items: readonly Line[], more: object = {}): [string, Uint8Array] => [
  `k8shark-capture/records/${path.replaceAll("/", "_")}/${second}.json.zst`,
  zstdCompressSync(
    json({
      api_path: path,
      captured_at: `2026-03-01T10:00:${String(second).padStart(2, "0")}Z`,
      http_method: "GET",
      response_code: 200,
      response_body: { metadata: { resourceVersion: String(rv) }, items },
      ...more,
    }),
  ),
];
const PODS = "/api/v1/namespaces/shop/pods";

it.each(["", `${json({ type: "ADDED", object: {} })}\n`])(
  "rejects fifty megabytes of blank lines in fifty kilobytes of gzip data early, after %j",
  async (first) => {
    const blanks = gzipSync(Buffer.alloc(2 ** 20, "\n"));
    const path = fileOf(Buffer.concat([gzipSync(first), ...Array.from({ length: 50 }, () => blanks)]));
    await expect(imported([path])).rejects.toThrow(/:\d+: more than 1 MiB of blanks between values$/);
  },
);

it("accepts the same amount of blank lines between many values", async () => {
  const value = `${json({ type: "BOOKMARK", object: {} })}${"\n".repeat(12)}`;
  await expect(imported([fileOf(value.repeat(100_000))])).rejects.toThrow("no event");
});

describe("a long integer in a template", () => {
  const long = (rv: number): Line => {
    const spec = { ...template.spec, terminationGracePeriodSeconds: 9223372036854775807n };
    return { ...workload("Deployment", "web", rv), spec: { replicas: 1, selector: {}, template: { ...template, spec } } };
  };
  it.each([
    { format: "a watch", content: json({ type: "ADDED", object: long(11) }) },
    { format: "an audit log", content: json(written("create", long(11), 1)) },
    { format: "a .kshrk archive", content: zipOf([poll("/apis/apps/v1/deployments", 1, 11, [long(11)])]) },
  ])("$format keeps every digit, and gives the same digest as the cache", async ({ content }) => {
    const path = fileOf(content);
    const whole = await imported([path], false);
    expect(whole.text).toContain('"terminationGracePeriodSeconds":9223372036854775807');
    expect(whole.text).not.toContain("9223372036854776000");
    const { digest } = strip("deployments", long(11), createDigester("a key")).spec.template;
    expect((await imported([path])).text).toContain(`"digest":"${digest}"`);
  });
});

describe("a watch", () => {
  it("a watch is ordered by version, across files", async () => {
    const { lines } = await imported([
      fileOf(json({ type: "ADDED", object: pod("a", 12) }, { type: "DELETED", object: pod("a", 15) })),
      fileOf(
        JSON.stringify({ type: "ADDED", object: workload("Deployment", "web", 11) }, undefined, 4) +
          JSON.stringify({ type: "MODIFIED", object: workload("Deployment", "web", 13) }, undefined, 4),
      ),
    ]);
    expect(events(lines)).toEqual(["ADDED web 11", "ADDED a 12", "MODIFIED web 13", "DELETED a 15"]);
  });

  it("starts with older objects, and reports assumed times", async () => {
    const { lines, report } = await imported([
      fileOf(
        json(
          { type: "ADDED", object: pod("old", 3) },
          { type: "MODIFIED", object: pod("old", 9, { creationTimestamp: "2026-03-01T11:00:00Z" }) },
        ),
      ),
    ]);
    expect(lines.filter(({ k }) => k === "item")).toHaveLength(1);
    expect(events(lines)).toEqual(["MODIFIED old 9"]);
    expect(lines.find(({ type }) => type === "MODIFIED")?.["t"]).toBe("2026-03-01T11:00:00.000000Z");
    expect(report.join("\n")).toMatch(/^assumed \(2 times\): the time/m);
  });

  it("a watch has monotonic times, even if a newer version has an older time", async () => {
    const { lines } = await imported([
      fileOf(
        json(
          { type: "ADDED", object: pod("a", 3, { creationTimestamp: "2026-03-01T10:05:00Z" }) },
          { type: "ADDED", object: pod("b", 4, { creationTimestamp: "2026-03-01T10:04:59Z" }) },
        ),
      ),
    ]);
    expect(lines.flatMap(({ type, t }) => (type === undefined ? [] : [t]))).toEqual([
      "2026-03-01T10:05:00.000000Z",
      "2026-03-01T10:05:00.000000Z",
    ]);
  });

  it('accepts bare Events, which are evidence, and Secrets, whose field "type" is their own', async () => {
    const metadata = { name: "e", namespace: "shop", uid: "uid-e", resourceVersion: "5" };
    const event = { apiVersion: "v1", kind: "Event", type: "Normal", reason: "Scaled", message: "TOKEN", metadata };
    const secret = { apiVersion: "v1", kind: "Secret", type: "Opaque", metadata: { name: "s", namespace: "shop" } };
    const { lines, report } = await imported([fileOf(json(pod("a", 3), pod("a", 4))), fileOf(json(event, secret))]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 4", "ADDED e 5"]);
    expect(JSON.stringify(lines)).not.toContain("TOKEN");
    expect(report).toContain("not imported (once): an object of a kind that deltaloop does not watch");
  });

  it("a watch without event types is imported, and the missing information is reported", async () => {
    const { lines, report } = await imported([fileOf(json(pod("a", 3), pod("a", 4)))]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 4"]);
    expect(report.join("\n")).toContain("its deletion cannot be detected");
  });

  it("keeps the complete records of a truncated watch, and imports nothing twice after a restarted watch", async () => {
    const states = [3, 5].map((rv) => ({ type: rv === 3 ? "ADDED" : "MODIFIED", object: pod("a", rv) }));
    const whole = json(...states, ...states.slice(1), ...states);
    const { lines, report } = await imported([fileOf(`${whole}{"type":"MODIFIED","obj`)]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 5"]);
    expect(report).toContain("not imported (3 times): a repeated state, as after a restarted watch");
    expect(report.join("\n")).toMatch(/a truncated last value[^]*a repeated state|a repeated state[^]*a truncated last value/);
  });
});

describe("an audit log", () => {
  const texts = [10, 13].map((rv) => JSON.stringify(written(rv === 10 ? "create" : "update", pod("a", rv), rv)));
  it.each([
    {
      of: "AKS",
      files: texts.map((log) => ({
        category: "kube-audit",
        properties: { log: `${log}\n`, stream: "stdout" },
        time: "2026-03-01T10:00:00Z",
      })),
    },
    {
      of: "AKS, in records with other logs",
      files: [{ records: ["I0301 scheduler", "{}", ...texts].map((log) => ({ properties: { log } })) }],
    },
    { of: "EKS, by filter-log-events", files: [{ events: texts.map((message) => ({ timestamp: 1, message })), searchedLogStreams: [] }] },
    { of: "EKS, by a subscription", files: [{ logEvents: texts.map((message) => ({ id: "1", message })) }] },
  ])("an audit log is read in the format of $of", async ({ files }) => {
    const { lines } = await imported([fileOf(json(...files))]);
    expect(events(lines)).toEqual(events((await imported([fileOf(texts.join("\n"))])).lines));
    expect(events(lines).length).toBeGreaterThan(0);
  });

  const line = (rv: number): string => JSON.stringify(written(rv === 10 ? "create" : "update", pod("a", rv), rv));
  const [first, second, third, fourth] = [10, 13, 15, 17].map(line) as [string, string, string, string];
  it.each([
    {
      title: "an audit log truncated in the middle, as after a crash or a full disk,",
      files: [`${first}\n${second.slice(0, 200)}\n${third}\n${fourth}\n`],
      versions: [10, 15, 17],
      torn: "not imported (once): a truncated line",
    },
    {
      title: "an audit log truncated within a string",
      files: [`${first}\n${second.slice(0, second.indexOf("audit.k8s.io") + 4)}\n${third}\n${fourth}\n`],
      versions: [10, 15, 17],
      torn: "not imported (once): a truncated line",
    },
    {
      title: "an audit log whose rotation lost the end of one file and the start of the next",
      files: [`${first}\n${second.slice(0, 200)}`, `${third.slice(300)}\n${fourth}\n`],
      versions: [10, 17],
      torn: "not imported (once): a truncated last value",
    },
    {
      title: "an audit log with two truncated records in one line",
      files: [`${first}\n${second.slice(0, 200)}${third}\n${fourth}\n`],
      versions: [10, 17],
      torn: "not imported (once): a",
    },
    {
      title: "an audit log truncated at its end",
      files: [`${first}\n${third}\n${fourth.slice(0, 200)}`],
      versions: [10, 15],
      torn: "not imported (once): a truncated last value",
    },
  ])("$title loses only the damaged records", async ({ files, versions, torn }) => {
    const { lines, report } = await imported(files.map(fileOf));
    expect(events(lines).map((event) => Number(event.split(" ").at(-1)))).toEqual(versions);
    expect(report.join("\n")).toContain(torn);
  });

  it.each(["apiVersion: v1\nkind: Pod\n", "hello\n{\n", "[1]\n"])(
    "an invalid audit log is rejected by its first line: %j",
    async (text) => {
      await expect(imported([fileOf(text)])).rejects.toThrow(/:1: value is not a JSON object$/);
    },
  );

  it("an audit log with a write that the API server truncated loses that write only", async () => {
    const cut = { annotations: { "audit.k8s.io/truncated": "true" }, requestObject: undefined, responseObject: undefined };
    const { lines, report } = await imported([
      fileOf(json(written("create", pod("a", 3), 1), written("patch", pod("a", 4), 2, cut), written("patch", pod("a", 5), 3))),
    ]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 5"]);
    expect(report.join("\n")).toContain(
      "not imported (once): a write whose objects the API server truncated in its audit log (audit.k8s.io/truncated)",
    );
  });

  it("an audit log below level RequestResponse is rejected in one line", async () => {
    const path = fileOf(
      json(
        written("create", pod("a", 3), 1),
        written("patch", pod("a", 4), 2, { level: "Metadata", requestObject: undefined, responseObject: undefined }),
      ),
    );
    await expect(imported([path])).rejects.toThrow(
      new CaptureError(`${path}:2: a write of pods was audited below level RequestResponse, so its result is not in the log`),
    );
  });

  it("shows the state after each write, in the order of versions, and never before the write", async () => {
    const { lines } = await imported([
      fileOf(
        json(
          written("create", pod("a", 3), 1),
          written("patch", pod("a", 5), 2),
          written("patch", pod("a", 4), 4), // the response came after the following request
          written("update", pod("a", 5), 5), // the request changed nothing
          written("patch", pod("b", 9), 6, { responseStatus: { code: 409 } }),
          written("patch", pod("b", 9), 6, { requestURI: "/api/v1/x?dryRun=All" }),
          written("patch", pod("b", 9), 6, { stage: "RequestReceived" }),
          written("delete", pod("a", 6, { deletionTimestamp: "2026-03-01T10:00:40Z", deletionGracePeriodSeconds: 30 }), 7),
          written("delete", pod("a", 7, { deletionTimestamp: "2026-03-01T10:00:40Z", deletionGracePeriodSeconds: 0 }), 8),
        ),
      ),
    ]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 4", "MODIFIED a 5", "MODIFIED a 6", "DELETED a 7"]);
    expect(lines.filter(({ type }) => type !== undefined).map(({ t }) => String(t).slice(17, 19))).toEqual(["01", "02", "02", "07", "08"]);
  });

  it.each([
    { name: "a bare Status", answer: { kind: "Status", status: "Success" }, verb: "delete" },
    {
      name: "the previous version, when the last finalizer is removed",
      answer: workload("Deployment", "web", 3, { deletionTimestamp: "2026-03-01T10:00:01Z", deletionGracePeriodSeconds: 0 }),
      verb: "patch",
    },
  ])("imports a deletion whose response is $name", async ({ answer, verb }) => {
    const { lines, report } = await imported([
      fileOf(
        json(
          written("create", workload("Deployment", "web", 3), 1),
          written(verb, workload("Deployment", "web", 3), 2, { responseObject: answer }),
        ),
      ),
    ]);
    expect(events(lines)).toEqual(["ADDED web 3", "DELETED web 4"]);
    expect(report).toEqual(["assumed (once): the resourceVersion of a deletion, which the response does not contain"]);
  });

  it("shows an object that a server-side apply created as added, and assumes nothing", async () => {
    const applied = { requestURI: "/apis/apps/v1/x?fieldManager=kubectl&force=false", responseStatus: { code: 201 } }; // kubernetes/kubernetes#115627
    const { lines, report } = await imported([fileOf(json(written("patch", workload("Deployment", "web", 3), 1, applied)))]);
    expect(events(lines)).toEqual(["ADDED web 3"]);
    expect(report).toEqual([]);
  });

  it("keeps spec and status if the response to the garbage collector has only metadata", async () => {
    const bare = { kind: "PartialObjectMetadata", apiVersion: "meta.k8s.io/v1", metadata: workload("Deployment", "web", 4)["metadata"] };
    const { lines } = await imported([
      fileOf(
        json(
          written("create", workload("Deployment", "web", 3), 1),
          written("patch", workload("Deployment", "web", 4), 2, { responseObject: bare }),
        ),
      ),
    ]);
    expect(lines.find(({ type }) => type === "MODIFIED")).toMatchObject({ object: { spec: { replicas: 1 } } });
  });
});

describe("messages from the delta queue", () => {
  const signer = createSigner(["a key of this test alone"], "5d3f00aa11bb");
  const strippedPod = (name: string, rv: number): Line =>
    strip("pods", pod(name, rv), createDigester("the deployment's key")) as unknown as Line; // JSON
  const item = (t: string, name: string, rv: number, more: Line = {}): Line => ({
    ...{ t, key: `shop/${name}`, uid: `u-${name}`, rv: String(rv), o: strippedPod(name, rv) },
    ...more,
  });
  const ln = (name: string): number => laneOf(objectKey("shop", name), LANES.pods);
  const pack = (sq: number, fields: Line): string => {
    const head = { v: 2, c: "5d3f00aa11bb", r: "pods", e: "e", f: "7", g: 1, ln: ln("a"), sq, k: "D", ts: T0 + sq * 1000 };
    return encodePack({ ...head, ...fields } as unknown as Envelope, signer);
  };
  const received = (...bodies: readonly string[]): string => fileOf(json({ Messages: bodies.map((Body) => ({ MessageId: "m", Body })) }));

  it("yield each state as an event, once, in version order, and a deletion with its item's version", async () => {
    const { lines, report } = await imported([
      received(
        pack(2, { items: [item("M", "a", 5)] }),
        pack(1, { items: [item("A", "a", 3)] }),
        pack(1, { items: [item("A", "a", 3)] }),
        pack(1, { f: "8", items: [item("M", "a", 5)] }), // sent by the next watcher
        pack(3, { items: [item("D", "a", 8, { o: strippedPod("a", 5) })] }),
      ),
    ]);
    expect(events(lines)).toEqual(["ADDED a 3", "MODIFIED a 5", "DELETED a 8"]);
    expect(report.filter((line) => !line.startsWith("not in the recording"))).toEqual([
      "assumed (once): an object whose creation is not recorded; its first event is ADDED",
      "assumed (once): the times of items: all items of a message have the time of its last one",
    ]);
    expect(report.filter((line) => line.startsWith("not in the recording"))).toHaveLength(4);
  });

  it.each([
    { name: "in the form in which a Lambda function receives them", wrap: (body: string) => ({ Records: [{ messageId: "m", body }] }) },
    { name: "one by one", wrap: (body: string) => ({ MessageId: "m", Body: body }) },
  ])("messages are read $name", async ({ wrap }) => {
    expect(events((await imported([fileOf(json(wrap(pack(1, { items: [item("A", "a", 3)] }))))])).lines)).toEqual(["ADDED a 3"]);
  });

  it("QM2 report a gap in a lane's numbers, but not another lane or fence", async () => {
    const { lines, report } = await imported([
      received(
        pack(1, { items: [item("A", "a", 3)] }),
        pack(2, { k: "W", rv: "4" }),
        pack(5, { items: [item("M", "a", 9)] }),
        pack(9, { f: "8", items: [item("M", "a", 12)] }),
        pack(20, { ln: ln("a") + 1, k: "W", rv: "13" }),
      ),
    ]);
    expect(lines.filter(({ k }) => k === "gap")).toMatchObject([{ r: "pods", from: "3", to: "9", ms: 3000, why: "missing" }]);
    expect(report).toContain("not imported (2 times): messages of pods between two recorded ones");
    expect(lines.findIndex(({ k }) => k === "gap")).toBeLessThan(
      lines.findIndex(({ object }) => (object as Line | undefined)?.["resourceVersion"] === "9"),
    );
  });

  it("QM3 show deletions by a later complete manifest, and the first list as the initial state", async () => {
    const rows = (...names: readonly string[]): readonly Line[] =>
      names.map((name) => ({ key: `shop/${name}`, uid: `u-${name}`, rv: "1" }));
    const first = [
      pack(1, { k: "L", L: "10", items: [item("A", "a", 3)] }),
      pack(2, { k: "M", L: "10", part: 1, parts: 1, rows: rows("a") }),
    ];
    const again = (parts: number, ...names: readonly string[]): string =>
      pack(3, { g: 2, k: "M", L: "20", part: 1, parts, rows: rows(...names) });
    const { lines, report } = await imported([received(...first, again(1))]);
    expect(lines.filter(({ k }) => k === "item" || k === "listend").slice(0, 10)).toContainEqual(
      expect.objectContaining({ k: "item", r: "pods" }),
    );
    expect(lines).toContainEqual(expect.objectContaining({ k: "listend", r: "pods", rv: "10" }));
    expect(events(lines)).toEqual(["DELETED a 20"]);
    expect(report).toContain("assumed (once): the time of a deletion, which only a later list implies");
    expect(report).toContain("not imported (once): a part of the first list of pods, which may have had more objects");
    expect(events((await imported([received(...first, again(1, "a"))])).lines)).toEqual([]);
    expect(events((await imported([received(...first, again(2))])).lines)).toEqual([]);
  });

  it.each([
    { name: "an object too large for a message", items: [item("M", "b", 4, { o: undefined, tooBig: true })], want: "an object too large" },
    { name: "an item of another type", items: [item("X", "b", 4)], want: "an item without type, version or object" },
    { name: "an invalid item", items: [7], want: "an item without type, version or object" },
  ])("report $name as not imported", async ({ items, want }) => {
    const { lines, report } = await imported([received(pack(1, { items: [item("A", "a", 3), ...items] }))]);
    expect(events(lines)).toEqual(["ADDED a 3"]);
    expect(report.join("\n")).toContain(`not imported (once): ${want}`);
  });

  it.each([
    { name: "a message of another application", body: "hello", want: "message is not in the watcher's format" },
    {
      name: "a message of another cluster",
      body: pack(2, { c: "000000000000", items: [] }),
      want: "belongs to a different cluster",
    },
    { name: "a missing body", body: 7, want: "message has no body" },
    { name: "a missing time", body: pack(2, { ts: "x", items: [] }), want: "ts is not a time" },
  ])("$name is rejected in one line", async ({ body, want }) => {
    const path = fileOf(json({ Body: pack(1, { items: [item("A", "a", 3)] }) }, { Body: body }));
    await expect(imported([path])).rejects.toThrow(new RegExp(`^${path}:2: ${want}`));
  });

  it("QM4 strips unredacted objects in forged messages", async () => {
    const { text } = await imported([received(pack(1, { items: [item("A", "a", 3, { o: pod("a", 3) })] }))]);
    expect(text).toContain("u-a");
    expect(text).not.toContain("CANARY");
  });
});

describe("a .kshrk archive", () => {
  it("a rejected poll changes no objects", async () => {
    const refused = { response_code: 403, response_body: { kind: "Status", code: 403 } };
    const { lines, report } = await imported([fileOf(zipOf([poll(PODS, 1, 10, [pod("a", 3)]), poll(PODS, 11, 20, [], refused)]))]);
    expect(events(lines)).toEqual([]);
    expect(report.join("\n")).toContain("a poll that the API server rejected");
  });

  it("an archive is imported as the changes from poll to poll", async () => {
    const { lines, report } = await imported([
      fileOf(
        zipOf([
          poll(PODS, 1, 10, [pod("a", 3), pod("b", 4), pod("c", 5)]),
          poll(PODS, 11, 20, [pod("a", 3), pod("b", 14), pod("c", 15, { uid: "another" }), pod("d", 16)]),
          poll(PODS, 21, 30, [pod("a", 3)]),
          poll(`${PODS}?as=Table`, 21, 30, [pod("z", 3)]),
        ]),
      ),
    ]);
    expect(lines.filter(({ k }) => k === "item")).toHaveLength(3);
    expect(events(lines)).toEqual([
      "DELETED c 20",
      "MODIFIED b 14",
      "ADDED c 15",
      "ADDED d 16",
      "DELETED b 30",
      "DELETED c 30",
      "DELETED d 30",
    ]);
    expect(report).toContain("assumed (4 times): time, resourceVersion and last state of a deletion that only a later list implies");
    expect(report.join("\n")).toContain("no list of deployments: decisions assume that there are none");
  });

  it.each([
    {
      name: "an entry that inflates to more than 64 MiB",
      entries: [["records/x/0.json.zst", zstdCompressSync(Buffer.alloc(65 * 2 ** 20))]],
    },
    {
      name: "entries that inflate to more than 256 MiB",
      entries: Array.from({ length: 5 }, (_, i) => [
        `records/x/${i}.json.zst`,
        zstdCompressSync(Buffer.from(json({ pad: "x".repeat(63 * 2 ** 20) }))),
      ]),
    },
  ] as readonly { readonly name: string; readonly entries: readonly [string, Uint8Array][] }[])(
    "an archive with $name is rejected",
    async ({ entries }) => {
      await expect(imported([fileOf(zipOf(entries))])).rejects.toThrow(/MiB unpacked$/);
    },
  );

  it("an archive is rejected with an error wherever it is truncated", async () => {
    const whole = zipOf([poll(PODS, 1, 10, [pod("a", 3)])]);
    for (let length = 4; length < whole.length; length += 7)
      await expect(imported([fileOf(whole.subarray(0, length))])).rejects.toThrow(CaptureError);
  });
});

it.each([
  {
    name: "watch",
    content: json(
      { type: "ADDED", object: workload("Deployment", "web", 3) },
      { type: "ADDED", object: pod("a", 4) },
      { type: "ERROR", object: { kind: "Status", message: canary("error") } },
    ),
  },
  { name: "audit", content: json(written("create", workload("Deployment", "web", 3), 1), written("create", pod("a", 4), 2)) },
  {
    name: "kshrk",
    content: zipOf([poll("/apis/apps/v1/deployments", 1, 9, [workload("Deployment", "web", 3)]), poll(PODS, 1, 9, [pod("a", 4)])]),
  },
])("[informer T100] exports no secret from the format $name without --no-redact", async ({ content }) => {
  const path = fileOf(content);
  const { text, report } = await imported([path]);
  expect(text).toContain("u-web");
  expect(text + report.join("\n")).not.toContain("CANARY");
  expect((await imported([path], false)).text).toContain(canary("env"));
});

it("shows the writer in an audit log: components always, users only without redaction", async () => {
  const by = (username: string): object => ({ ...written("create", workload("Deployment", username, 3), 1), user: { username } });
  const whoIn = async (username: string, redact: boolean): Promise<string | undefined> =>
    /"by":"([^"]*)"/.exec((await imported([fileOf(json(by(username)))], redact)).text)?.[1];
  expect(await whoIn("system:serviceaccount:kube-system:deployment-controller", true)).toContain("deployment-controller");
  expect([await whoIn("jane", true), await whoIn("jane", false)]).toEqual([undefined, "jane"]);
});

it("redacts equal values equally and different values differently within one import", async () => {
  const other = {
    ...workload("ReplicaSet", "c", 5),
    spec: { template: { ...template, spec: { containers: [canaryContainer("main", "shop:2")] } } },
  };
  const { lines } = await imported([
    fileOf(
      json(
        { type: "ADDED", object: workload("ReplicaSet", "a", 3) },
        { type: "ADDED", object: workload("ReplicaSet", "b", 4) },
        { type: "ADDED", object: other },
      ),
    ),
  ]);
  const digests = lines
    .filter(({ type }) => type !== undefined)
    .map(({ object }) => ((object as Line)["spec"] as { readonly template: Line }).template["digest"]);
  expect(digests[0]).toBe(digests[1]);
  expect(digests[2]).not.toBe(digests[0]);
});

it.each([
  { name: "a capture", content: json({ t: "2026-03-01T10:00:00Z", k: "meta" }), want: /line is from a capture/ },
  { name: "a file that is not JSON", content: `hunter2 ${canary("text")}`, want: /f:1: value is not a JSON object$/ },
  { name: "truncated JSON", content: `{"a": ${canary("text")}}`, want: /f:1: not JSON$/ },
  {
    name: "a watch of other resources",
    content: json({ kind: "Secret", metadata: { name: canary("name") } }),
    want: /found no event of a watched resource$/,
  },
  { name: "an unknown event", content: json({ type: canary("type"), object: pod("a", 3) }), want: /f:1: unknown type of watch event$/ },
])("$name is rejected in a line that quotes nothing", async ({ content, want }) => {
  const refusal = imported([fileOf(content)]);
  await expect(refusal).rejects.toThrow(CaptureError);
  await expect(refusal).rejects.toThrow(want);
});

it("reads or rejects arbitrary content without another error", async () => {
  const seed = readFileSync(new URL("../../captures/kshrk/crash-loop.kshrk", import.meta.url));
  const content = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.array(fc.jsonValue(), { maxLength: 4 }).map((values) => Buffer.from(json(...values))),
    fc
      .array(
        fc.record({ type: fc.constantFrom("ADDED", "DELETED"), object: fc.record({ kind: fc.constant("Pod"), metadata: fc.jsonValue() }) }),
        { maxLength: 4 },
      )
      .map((values) => Buffer.from(json(...values))),
    fc
      .array(
        fc.record({
          apiVersion: fc.constant("audit.k8s.io/v1"),
          verb: fc.constant("patch"),
          stage: fc.constant("ResponseComplete"),
          level: fc.constant("RequestResponse"),
          responseStatus: fc.constant({ code: 200 }),
          objectRef: fc.constant({ resource: "pods", name: "a", namespace: "b" }),
          responseObject: fc.jsonValue(),
          stageTimestamp: fc.constant("2026-03-01T10:00:00Z"),
        }),
        { minLength: 1, maxLength: 4 },
      )
      .map((values) => Buffer.from(json(...values))),
    fc.tuple(fc.nat(seed.length - 1), fc.nat(255)).map(([at, byte]) => seed.with(at, byte)),
  );
  await fc.assert(
    fc.asyncProperty(content, async (bytes) => {
      await imported([fileOf(bytes)]).catch((error: unknown) => expect(error).toBeInstanceOf(CaptureError));
    }),
    { numRuns: 150 },
  );
}, 60_000);
