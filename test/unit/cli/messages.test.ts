/**
 * Error messages of the command as a process. Catches: a stack trace, a message that does not state the cause and its place, and a password
 * in a message.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { kubeconfigOf } from "../../support/kubeconfig.ts";

const ROOT = join(import.meta.dirname, "..", "..", "..");
const UNDO = join(ROOT, "test/captures/undo.watch.jsonl.gz");

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "deltaloop-messages-"));
  writeFileSync(join(folder, "empty.json"), "\n");
  writeFileSync(join(folder, "half.json"), "{");
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Runs the command in a shell, with `before` and `after` around it. */
function run(parameters: readonly string[], { before = "", after = "", env = {} } = {}) {
  const command = ["-c", `${before}"$@" ${after}`, "sh", process.execPath, join(ROOT, "cli/main.ts"), ...parameters];
  return spawnSync("/bin/sh", command, { cwd: folder, encoding: "utf8", env: { ...process.env, TMPDIR: folder, ...env } });
}

const QUEUES = ["DELTAS", "DOORBELLS_DEPLOYMENT", "DOORBELLS_REPLICASET", "DOORBELLS_REPLICATIONCONTROLLER"];
const env = {
  DELTALOOP_DEPLOYMENT: "d",
  DELTALOOP_CLUSTER: "0123456789ab",
  DELTALOOP_MAC_KEY: "a key of this test alone",
  DELTALOOP_DIGEST_KEY: "another key of this test",
  DELTALOOP_REDIS_URL: "redis://:secret@127.0.0.1:9",
  DELTALOOP_KUBE_SERVER: "http://127.0.0.1:9",
  ...Object.fromEntries(QUEUES.map((queue) => [`DELTALOOP_${queue}_URL`, "http://127.0.0.1:9/q"])),
};

it.each([
  { parameters: ["cost", "--prices", "empty.json"], says: "empty.json is empty: see cli/cost for examples" },
  { parameters: ["cost", "--counts", "half.json"], says: "half.json is not JSON: Expected property name" },
  { parameters: ["dev", "--redis", "secret"], says: "--redis takes a URL such as redis://host:6379" },
  { parameters: ["dev", "--redis", "redis://:secret@"], says: "--redis takes a URL such as redis://host:6379" },
  { parameters: ["keys"], says: "DELTALOOP_REDIS_URL: the Redis at 127.0.0.1:9 cannot be used: connect ECONNREFUSED 127.0.0.1:9" },
])("exits with code 2 and the message '$says'", ({ parameters, says }) => {
  const { status, stdout, stderr } = run(parameters, { env });
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(/^deltaloop: [^\n]*\n$/);
  expect(stderr).toContain(`deltaloop: ${says}`);
  expect(stderr).not.toContain("secret");
});

describe("in the environment of listed clusters", () => {
  const listed = { ...env, DELTALOOP_MODE: "act" };

  it.each([
    { parameters: ["rotate", "mac-key"], says: /^deltaloop: rotate handles a deployment of one cluster.*`deltaloop keys --resign`/ },
    { parameters: ["rotate", "digest-key"], says: /^deltaloop: rotate handles a deployment of one cluster.*write a new key to its secret/ },
    { parameters: ["resume"], says: /^deltaloop: name the cluster to resume; it is one of: blue$/m },
    { parameters: ["resume", "red"], says: /^deltaloop: \S+ has no cluster red; it is one of: blue$/m },
    { parameters: ["keys"], says: /^deltaloop: DELTALOOP_REDIS_URL: the Redis at 127\.0\.0\.1:9 cannot be used/m },
  ])("$parameters exits with code 2 and the remedy", ({ parameters, says }) => {
    const clusters = mkdtempSync(join(folder, "clusters-"));
    writeFileSync(join(clusters, "blue"), kubeconfigOf({ server: "https://blue.example.com" }, { token: "t0ken" }), { mode: 0o600 });
    const { status, stderr } = run(parameters, { env: { ...listed, DELTALOOP_CLUSTERS: clusters } });
    expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(says) });
  });

  it("resume refuses a name for a deployment of one cluster", () => {
    expect(run(["resume", "blue"], { env })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining("blue is the name of a listed cluster: add --clusters"),
    });
  });
});

it.each(["--version", "-V"])("[informer T114] %s prints the version in package.json", (flag) => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { readonly version: string };
  expect(run([flag])).toMatchObject({ status: 0, stdout: `deltaloop ${version}\n`, stderr: "" });
});

it.each(["constructor", "__proto__", "toString", "version"])("[informer T114] %s is reported as an unknown command", (name) => {
  const { status, stdout, stderr } = run([name]);
  expect({ status, stdout, stderr }).toEqual({
    status: 2,
    stdout: "",
    stderr: `deltaloop: unknown command '${name}'\nRun 'deltaloop --help' for the commands and 'deltaloop COMMAND --help' for its options.\n`,
  });
});

it.each([["keys"], ["doctor"], ["resume"], ["rotate", "mac-key"]])(
  "`deltaloop %s %s` reads the environment of a running dev",
  (...parameters) => {
    const own = join(folder, "deltaloop-dev-x");
    mkdirSync(own, { recursive: true, mode: 0o700 });
    writeFileSync(join(own, "env"), "DELTALOOP_DEPLOYMENT=d\n");
    const { status, stderr } = run(parameters, { env: { DELTALOOP_DEPLOYMENT: undefined } });
    expect(status).toBe(2);
    expect(stderr).toContain(`deltaloop: reading the environment of deltaloop dev, ${join(own, "env")}\n`);
    expect(stderr).toMatch(/DELTALOOP_MAC_KEY(_SECRET)?\W+is (missing|not in)/);
  },
);

it.each([["explain", UNDO, "deploy/web"], ["replay", UNDO], ["cost"], ["--help"]])(
  "reports in one line that standard output is full: %s",
  (...parameters) => {
    const { status, stderr } = run(parameters, { after: "> /dev/full" });
    expect(status).toBe(1);
    expect(stderr).toMatch(/^deltaloop: cannot write to standard output: ENOSPC[^\n]*\n$/);
  },
);

describe("a byte order mark at the start of a capture", () => {
  it.each([
    { name: "bom.jsonl", packed: (text: Buffer) => text },
    { name: "bom.jsonl.gz", packed: gzipSync },
  ])("a byte order mark is ignored: $name", ({ name, packed }) => {
    writeFileSync(join(folder, name), packed(Buffer.concat([Buffer.from([0xef, 0xbb, 0xbf]), gunzipSync(readFileSync(UNDO))])));
    const [marked, plain] = [name, UNDO].map((path) => run(["explain", path, "deploy/web", "--json"]));
    expect(marked).toMatchObject({ status: 0, stderr: "", stdout: plain?.stdout });
  });
});
