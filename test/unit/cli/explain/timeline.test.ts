/** `deltaloop explain --html`. Would catch: a page whose data lacks changes, a secret in a page, and a page that can send requests. */
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { gunzipSync } from "node:zlib";
import { Ajv2020 } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { TimelineInput, TimelineObject } from "../../../../shared/timeline/input.ts";
import { pageCode } from "../../../../shared/timeline/page-code.ts";
import { crashLoopCapture, imagePullCapture } from "../../../support/incident-captures.ts";

const ROOT = join(import.meta.dirname, "../../../..");
const KIB = 1_024;
const fits = new Ajv2020({ strictTuples: false }).compile(
  JSON.parse(readFileSync(join(ROOT, "shared/timeline/input.schema.json"), "utf8")) as object,
);
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-timeline-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function explain(...words: readonly string[]): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  return spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "explain", ...words], { cwd: folder, encoding: "utf8", timeout: 30_000 });
}

function recorded(name: string): string {
  return join(ROOT, `test/captures/${name}.watch.jsonl.gz`);
}

function dataIn(html: string): TimelineInput {
  const [, packed = ""] = /id="data">([^<]*)</.exec(html) ?? [];
  return JSON.parse(gunzipSync(Buffer.from(packed, "base64")).toString()) as TimelineInput; // the schema check has passed
}

/** Returns the page of a capture, and its data after the schema check. */
function pageOf(capture: string, ...words: readonly string[]): { readonly html: string; readonly input: TimelineInput } {
  const { status, stderr } = explain(capture, ...words, "--html", "page.html", "--force");
  expect(status, stderr).toBe(0);
  const html = readFileSync(join(folder, "page.html"), "utf8");
  const input = dataIn(html);
  fits(input);
  expect(fits.errors ?? []).toEqual([]);
  return { html, input };
}

function named({ objects }: TimelineInput, pattern: RegExp): TimelineObject {
  const found = objects.find(({ name }) => pattern.test(name));
  if (found === undefined) throw new Error(`no object matches ${pattern}`);
  return found;
}

describe("the data of a page", () => {
  let rollover: TimelineInput;
  beforeAll(() => {
    rollover = pageOf(recorded("rollover")).input;
  });

  it("the page has each ReplicaSet with its sizes, its pods with their states, and who changed what", () => {
    const { objects } = rollover;
    const [deployment] = objects;
    expect(objects.map(({ kind }) => kind).filter((kind) => kind !== "Pod")).toEqual(["Deployment", ...Array(4).fill("ReplicaSet")]);
    const sets = objects.filter(({ kind }) => kind === "ReplicaSet");
    expect(sets.map(({ revision, images, owner }) => [revision, images, owner])).toEqual([4, 3, 2, 1].map((n) => [n, [`app:v${n}`], 0]));
    expect(sets[0]?.sizes?.at(-1)?.slice(1)).toEqual([5, 5, 5]);
    const images = deployment?.changes.filter(({ isRequest }) => isRequest).flatMap(({ differences }) => differences.map(({ to }) => to));
    expect(images).toEqual(expect.arrayContaining(["app:v2", "app:v3", "app:v4"]));
    const gone = objects.filter(({ kind, until }) => kind === "Pod" && until !== undefined);
    expect(gone[0]?.states?.map(([, state]) => state)).toEqual(expect.arrayContaining(["ready", "terminating"]));
  });

  it("the page has the reasons of each decision, with the section of their rule", () => {
    const creates = rollover.marks.find(({ kind, title }) => kind === "sync" && title.startsWith("create ReplicaSet"));
    expect(creates?.reasons).toContainEqual({ text: "it has no ReplicaSet yet", rule: "deployment §6" });
    expect(rollover.objects[creates?.object ?? -1]?.kind).toBe("Deployment");
  });

  it("the page has a cause that ended before the recording's end, with its times and its object", () => {
    const { input } = pageOf(recorded("refused"));
    const [finding] = input.findings;
    expect(finding?.cause).toMatch(/^ResourceQuota few refuses new pods/);
    expect(input.objects[finding?.objects[0] ?? -1]?.kind).toBe("ReplicaSet");
    expect(finding?.until).toBeGreaterThan(finding?.from ?? Infinity);
    expect(input.marks.some(({ kind }) => kind === "refusal")).toBe(true);
  });

  it("the page shows a cause from its first recorded evidence, even if that was read later, with the affected Node", () => {
    const { input } = pageOf(join(import.meta.dirname, "../../../captures/incidents/node-lost.jsonl.gz"));
    const [finding] = input.findings;
    expect(finding?.cause).toMatch(/^node node-b does not report/);
    const node = named(input, /^node-b$/);
    expect(finding?.objects.map((index) => input.objects[index]?.kind)).toEqual(["Pod", "Pod", "Node"]);
    expect(node.states?.map(([, state]) => state)).toEqual(["ready", "failed"]);
    // The condition's time is 20:42:10, with a resolution of one second.
    expect(finding).toMatchObject({ from: node.states?.[1]?.[0], begin: { clock: "recorded" } });
    expect(new Date(input.startMs + (finding?.from ?? 0)).toISOString()).toMatch(/^2026-11-28T20:42:10\.[1-9]/);
  });

  it("the page has pulls, waiting reasons and restarts of pods", () => {
    const states = (input: TimelineInput): readonly string[] =>
      (named(input, /^web-b-1$/).states ?? []).map(([, state, reason]) => reason ?? state);
    const { input: pull } = pageOf(imagePullCapture(join(folder, "pull.jsonl")));
    expect(states(pull).slice(0, 5)).toEqual(["pending", "starting", "pulling", "ErrImagePull", "ImagePullBackOff"]);
    const { input: crash } = pageOf(crashLoopCapture(join(folder, "crash.jsonl")), "deploy/web");
    expect(states(crash).slice(2, 6)).toEqual(["running", "Error", "CrashLoopBackOff", "running"]);
    expect(named(crash, /^web-b-1$/).restarts).toHaveLength(3);
    expect(crash.findings[0]).toMatchObject({ level: "cause", cause: "container web ends with exit code 3" });
  });
});

describe("secrets", () => {
  const secrets = ["canary-env", "canary-argument", "canary-event"];
  beforeAll(() => {
    const path = imagePullCapture(join(folder, "secret.jsonl"));
    const text = readFileSync(path, "utf8")
      .replaceAll('"image":"app:v2"', '"image":"app:v2","env":[{"name":"TOKEN","value":"canary-env"}],"args":["canary-argument"]')
      .replaceAll("Failed to pull image", "canary-event failed to pull");
    writeFileSync(path, text);
  });

  it("secrets are not in the page, even if the capture contains them", () => {
    const { html, input } = pageOf("secret.jsonl");
    const text = html + JSON.stringify(input);
    expect(secrets.filter((each) => text.includes(each))).toEqual([]);
    expect(named(input, /^web$/).changes.flatMap(({ differences }) => differences)).toContainEqual({ field: "web.env.TOKEN", to: "added" });
  });

  it("a page written with --no-redact contains secrets, and is readable only by its owner", () => {
    const { input } = pageOf("secret.jsonl", "--no-redact");
    expect(input.redacted).toBe(false);
    expect(secrets.filter((each) => !JSON.stringify(input).includes(each))).toEqual([]);
    expect(statSync(join(folder, "page.html")).mode & 0o077).toBe(0);
  });
});

describe("the file of a page", () => {
  it("has at most 400 KiB of script and style", async () => {
    const { script, style } = await pageCode();
    expect(Buffer.byteLength(script + style)).toBeLessThanOrEqual(400 * 1024);
  });

  it("allows only its own script and style, by hash, and forbids every request", async () => {
    const { html } = pageOf(recorded("refused"));
    const { script, style } = await pageCode();
    const hash = (text: string): string => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
    const [, policy = ""] = /Content-Security-Policy" content="([^"]+)"/.exec(html) ?? [];
    expect(policy.split("; ")).toEqual([
      ...[
        "default-src 'none'",
        `script-src ${hash(script)}`,
        `style-src ${hash(style)}`,
        "worker-src blob:",
        "base-uri 'none'",
        "form-action 'none'",
      ],
    ]);
    expect(html).toContain(`<script>${script}</script>`);
    expect(Buffer.byteLength(script + style)).toBeLessThan(400 * KIB);
    expect(script).toContain("Jason Miller"); // the author in Preact's licence
  });

  it("contains markup and reordering characters of names and messages as harmless text", () => {
    const path = imagePullCapture(join(folder, "markup.jsonl"));
    writeFileSync(path, readFileSync(path, "utf8").replaceAll("app:v2", "</script><b>app\u202e"));
    const { html, input } = pageOf(path);
    expect(html).not.toContain("<b>app");
    expect(named(input, /^web-b$/).images).toEqual([String.raw`</script><b>app\u202e`]);
  });

  it("refuses to overwrite a page without --force, and prints the page's path last", () => {
    const path = join(folder, "there.html");
    writeFileSync(path, "mine");
    const refused = explain(recorded("refused"), "--html", "there.html");
    expect(refused.stderr).toMatch(/there\.html exists and is not empty: .* --force/);
    expect(refused.status).toBe(2);
    expect(readFileSync(path, "utf8")).toBe("mine");
    expect(explain(recorded("refused"), "--html", "there.html", "--force").stdout).toBe("1 workload: all complete\nTimeline: there.html\n");
  });

  it("the verdict contains the command for the timeline if there is a finding", () => {
    imagePullCapture(join(folder, "wrong.jsonl"));
    const hint = "\nTimeline  deltaloop explain wrong.jsonl --html timeline.html\n";
    for (const words of [[], ["deploy/web"]]) expect(explain("wrong.jsonl", ...words).stdout).toContain(hint);
    for (const words of [
      ["-o", "json"],
      ["deploy/web", "--all"],
    ])
      expect(explain("wrong.jsonl", ...words).stdout).not.toContain("--html");
    expect(explain(recorded("refused")).stdout).not.toContain("--html");
  });

  it("a page is not written over the capture, nor to standard output", () => {
    const path = imagePullCapture(join(folder, "kept.jsonl"));
    const before = readFileSync(path, "utf8");
    expect(explain(path, "--html", "kept.jsonl", "--force").stderr).toContain("is the capture itself");
    expect(readFileSync(path, "utf8")).toBe(before);
    expect(explain(path, "--html", "-")).toMatchObject({ status: 2, stdout: "" });
  });

  it("a page is written for a capture with a cycle of owners", () => {
    const path = imagePullCapture(join(folder, "cycle.jsonl"));
    const cyclic = { kind: "ReplicaSet", name: "web-a", uid: "uid-web-a", controller: true };
    const lines = readFileSync(path, "utf8").replaceAll(
      /"ownerReferences":\[\{[^}]*"name":"web","uid":"uid-web"[^}]*\}\]/g,
      `"ownerReferences":[${JSON.stringify(cyclic)}]`,
    );
    expect(lines).toContain(JSON.stringify(cyclic));
    writeFileSync(path, lines);
    expect(pageOf(path).input.objects.map(({ name }) => name)).toContain("web");
  });

  it("--open serves the page until a signal, only at the printed URL with its token", async () => {
    const { DISPLAY: _, WAYLAND_DISPLAY: __, ...env } = process.env;
    const child = spawn(process.execPath, [join(ROOT, "cli/main.ts"), "explain", recorded("refused"), "--open"], { cwd: folder, env });
    const exited = once(child, "exit");
    let url: string | undefined;
    for await (const line of createInterface({ input: child.stdout })) if ((url ??= /http:\S+/.exec(line)?.[0]) !== undefined) break;
    const entry = await fetch(url ?? "", { redirect: "manual" });
    const page = new URL(entry.headers.get("location") ?? "", url);
    expect((await fetch(page)).status).toBe(401);
    const cookie = entry.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    expect(dataIn(await (await fetch(page, { headers: { cookie } })).text()).objects.length).toBeGreaterThan(3);
    child.kill("SIGINT");
    expect(await exited).toEqual([0, null]);
  });

  it("refuses to write a page with an option that limits the recording", () => {
    for (const [option, ...value] of [["--at", "+1s"], ["--all"]] as const)
      expect(explain(recorded("refused"), option, ...value, "--html", "part.html")).toMatchObject({ status: 2, stdout: "" });
    expect(explain(recorded("refused"), "--no-redact").stderr).toContain("--no-redact needs --html or --open");
    expect(explain(recorded("refused"), "--force").stderr).toContain("--force needs --html");
  });
});
