/** `deltaloop explain` for files that are not captures: they are imported first, with a report on standard error. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, it } from "vitest";
import { RESOURCES } from "../../../../shared/kube/objects/resources.ts";
import { deployment, event, oldPods, pod, replicaSet } from "../../../support/incident.ts";

const MAIN = join(import.meta.dirname, "../../../../cli/main.ts");
const CAPTURES = join(import.meta.dirname, "../../../captures");
let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-recordings-"));
  const waiting = { reason: "ImagePullBackOff", message: 'Back-off pulling image "app:v2"' };
  const denied = event(
    "Failed",
    'Failed to pull image "app:v2": pull access denied, repository does not exist or may require authorization',
  );
  const placed = [deployment(), replicaSet("web-a"), replicaSet("web-b"), ...oldPods, pod({ state: { waiting } }), denied];
  const items = placed.map(([resource, fields]) => ({
    apiVersion: RESOURCES[resource].apiVersion,
    kind: RESOURCES[resource].kind,
    ...fields,
  }));
  writeFileSync(
    join(folder, "list.json"),
    JSON.stringify({ apiVersion: "v1", kind: "List", metadata: { resourceVersion: "" }, items }, undefined, 2),
  );
});
afterAll(() => rmSync(folder, { recursive: true }));

function explain(
  file: string,
  input?: Buffer,
  ...more: readonly string[]
): { readonly status: number | null; readonly stdout: string; readonly stderr: string } {
  return spawnSync(process.execPath, [MAIN, "explain", file, ...more], { cwd: folder, encoding: "utf8", ...(input && { input }) });
}

it("reads a kubectl list with its Events", () => {
  const { status, stdout, stderr } = explain("list.json", undefined, "deploy/web");
  expect(stdout.split("\n").slice(0, 2).join(" ")).toMatch(/STUCK, revision 2.*image app:v2 of container web cannot be pulled: access/);
  expect(stderr).toContain("read as watch\n");
  expect(status).toBe(0);
});

it("reads an audit log, with user names", () => {
  const { stdout, stderr } = explain(join(CAPTURES, "pause-resume.audit.jsonl.gz"), undefined, "deploy/web", "--until", "14:54:36");
  expect(stdout).toContain("the Deployment is paused");
  expect(stdout).toMatch(/at 14:54:34Z \(user \S+\):\n +- paused false → true\n/);
  expect(stderr).toContain("read as audit\n");
});

it("reads a k8shark archive", () => {
  const { stdout, stderr } = explain(join(CAPTURES, "kshrk/basic-workloads.kshrk"));
  expect(stdout).toMatch(/^\d+ workloads?: /);
  expect(stderr).toContain("read as kshrk\n");
});

it("reads standard input, compressed or not", () => {
  const packed = readFileSync(join(CAPTURES, "rolling-update.watch.jsonl.gz"));
  for (const input of [packed, gunzipSync(packed)]) {
    const { status, stdout } = explain("-", input, "deploy/web");
    expect(stdout.split("\n")[0]).toMatch(/^deployment\.apps\/web -n default: COMPLETE, revision 2/);
    expect(status).toBe(0);
  }
  expect(explain("-", Buffer.from("no capture\n")).stderr).toMatch(/^deltaloop: standard input:1: not JSON /);
});

it("reads a list of only pods, and prints a verdict for each", () => {
  const { items } = JSON.parse(readFileSync(join(folder, "list.json"), "utf8")) as { readonly items: readonly { readonly kind: string }[] };
  writeFileSync(
    join(folder, "pods.json"),
    JSON.stringify({ apiVersion: "v1", kind: "List", items: items.filter(({ kind }) => kind === "Pod") }),
  );
  const { status, stdout } = explain("pods.json");
  expect(stdout).toMatch(/^4 workloads: 1 not complete\nstuck {7}0\/1 {2}pod\/web-b-1 -n shop\n/);
  expect(status).toBe(0);
});

const CAPTURE = join(CAPTURES, "pause-resume.watch.jsonl.gz");
it.each<{ readonly words: readonly [string, ...string[]]; readonly says: string; readonly code?: number }>([
  { words: [CAPTURE, "-n", "nope"], says: `no workload found in namespace nope of ${CAPTURE}`, code: 1 },
  { words: [".", "deploy/web"], says: ". is a directory: name a capture file" },
  { words: ["deplyo/web"], says: "deplyo/web: kind deplyo is not supported: write deploy/web, rs/web-7f8fb, rc/web or pod/web-x2x4z" },
  { words: ["-"], says: "standard input is empty: pipe a capture or a recording into it" },
  {
    words: [CAPTURE, "--until", "5m"],
    says: "--until 5m is not a time: write +12.3s after the start, 10:02:11.5 or 2026-03-01T10:02:11Z",
  },
  { words: [CAPTURE, "--since", "14:54:36", "--until", "14:54:33"], says: "--since 14:54:36 is after --until 14:54:33" },
  { words: [CAPTURE, "--watch"], says: `--watch needs a running cluster; ${CAPTURE} is a file` },
])("reports the error in one line for $words", ({ words: [file, ...more], says, code = 2 }) => {
  const { status, stderr } = explain(file, Buffer.alloc(0), ...more);
  expect(stderr).toBe(`deltaloop: ${says}\n`);
  expect(status).toBe(code);
});
