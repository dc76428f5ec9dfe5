/**
 * `deltaloop capture` during a rollout on a real control plane, and `deltaloop replay` of its output, which must repeat the decisions of
 * our own controllers. Also searches all data outside the API server for values of the pod template and must find none.
 */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { setTimeout as sleep } from "node:timers/promises";

import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { functionHandlers } from "../../cli/functions/functions.ts";
import { SYNC_HANDLERS } from "../../cli/functions/sync-handlers.ts";
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import type { Controller } from "../../shared/kube/objects/resources.ts";
import type { CapturedObject } from "../../shared/replay/capture-format/capture.ts";
import { replay } from "../../shared/replay/engine/replay.ts";
import type { ReplayedSync } from "../../shared/replay/engine/sync-log.ts";
import { labelOf, writesOfAudit } from "../../shared/replay/shadow/upstream-writes.ts";
import type { AuditEvent } from "../../shared/replay/shadow/upstream-writes.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { silentLog } from "../support/silent-log.ts";
import { CACHED_RESOURCES } from "../../shared/kube/objects/resources.ts";
import { deltaloop, eventually, measured, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { writesMade, writesReplayed } from "../support/own-writes.ts";
import type { WriteEvent } from "../support/own-writes.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";
import { payloadOf } from "../support/signer.ts";
import { changesOf, heldCapture, readCapture, shadow } from "../support/held-capture.ts";

/** Values that no component would write by chance. */
const SECRET = "hunter2-value-of-an-environment-variable";
const [ARGUMENT, ANNOTATION] = ["hunter2-argument-of-a-container", "hunter2-annotation-of-a-template"];
const PLANTED = /hunter2/;
const SEEDS = [1, 2, 3];
const LOOK_MS = 10_000;
/**
 * At this age in ms, the youngest pod is past 2^34 ns and the oldest is far from 2^35, so their ages count as equal. Close to such a
 * boundary, the time of a sync decides which pod is deleted, and a replay's time differs by milliseconds.
 */
const AS_OLD_MS = 18_000;
/** Interval in ms at which a capture is flushed. */
const FLUSH_MS = 1_000;

const run = promisify(execFile);
const labels = { app: "vault" };
const container = { name: "main", image: "shop:1", args: [ARGUMENT], env: [{ name: "PASSWORD", value: SECRET }] };
const template = { metadata: { labels, annotations: { note: ANNOTATION } }, spec: { containers: [container] } };
const vault = {
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name: "vault", namespace: "default" },
  spec: { replicas: 3, selector: { matchLabels: labels }, template },
};

/** One object of every other cached kind. */
const others = [
  {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name: "vault-rs", namespace: "default" },
    spec: { replicas: 0, selector: { matchLabels: labels }, template },
  },
  {
    apiVersion: "v1",
    kind: "ReplicationController",
    metadata: { name: "vault-rc", namespace: "default" },
    spec: { replicas: 0, selector: labels, template },
  },
  {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "vault-pod", namespace: "default", annotations: { note: ANNOTATION } },
    spec: template.spec,
  },
];

/** Our functions' usernames in the audit log. */
const FUNCTIONS = /^system:serviceaccount:deltaloop:deltaloop-sync-/;
/** Two functions may write for one controller. A DELETE has no manager, so it is attributed to the owner's controller. */
function ownWriter({ user, requestURI = "", responseObject }: AuditEvent): Controller | undefined {
  if (!FUNCTIONS.test(user?.username ?? "")) return undefined;
  const manager = /[?&]fieldManager=deltaloop-(\w+)/.exec(requestURI)?.[1];
  const kind = responseObject?.metadata === undefined ? undefined : controllerRef(responseObject.metadata)?.kind;
  return CONTROLLERS.find((each) => each === (manager ?? kind?.toLowerCase()));
}

/**
 * Whether both lists of sizes end equally, and one only lacks at most one size of the other: on a busy machine the capture receives events
 * at other times than the watcher did, so one of both syncs may see two changes at once and skip a size.
 */
function isSamePath(a: readonly number[], b: readonly number[]): boolean {
  const [shorter, longer] = a.length < b.length ? [a, b] : [b, a];
  let at = 0;
  for (const size of longer) if (size === shorter[at]) at++;
  return at === shorter.length && longer.length - shorter.length <= 1 && a.at(-1) === b.at(-1);
}

/** Delay in ms until the status writes that follow the watch events are recorded. */
const SETTLED_MS = 1_500;

/** One owner of each kind, with 3 pods each. */
const OWN = [
  { apiVersion: "apps/v1", kind: "Deployment", app: "own-deployment", selector: { matchLabels: { app: "own-deployment" } } },
  { apiVersion: "apps/v1", kind: "ReplicaSet", app: "own-rs", selector: { matchLabels: { app: "own-rs" } } },
  { apiVersion: "v1", kind: "ReplicationController", app: "own-rc", selector: { app: "own-rc" } },
].map(({ apiVersion, kind, app, selector }) => ({
  ...{ apiVersion, kind, metadata: { name: "own", namespace: "default" } },
  spec: {
    ...{ replicas: 3, selector },
    template: { metadata: { labels: { app } }, spec: { containers: [{ name: "main", image: "v1" }], terminationGracePeriodSeconds: 1 } },
  },
}));

interface Named {
  readonly metadata: { readonly name: string };
}

function isOwn({ metadata }: Named): boolean {
  return metadata.name.startsWith("own-");
}

await whereRealPartsAre("capture and replay on a real control plane", () => {
  describe("capture, replay and secrets", () => {
    let directory: string;
    let cluster: Cluster;
    let redis: RedisServer;
    let dev: Running;
    let monitor: Redis;
    const commands: string[] = [];
    const file = (): string => join(directory, "rollout.jsonl");

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), "deltaloop-e2e-"));
      [cluster, redis] = await Promise.all([startCluster({ auditAnswers: true }), startRedis()]);
      // Starts MONITOR before other commands: output during the setup would reach ioredis before it is in monitor mode.
      monitor = await new Redis(redis.port, { lazyConnect: true }).monitor();
      monitor.on("monitor", (_time: string, command: readonly string[]) => commands.push(command.join(" ")));
      dev = await startDev(cluster, "--redis", redis.url, "--verbose");
    });
    afterAll(async () => {
      await dev?.stop();
      monitor?.disconnect();
      await redis?.stop();
      await cluster?.stop();
      await rm(directory, { recursive: true, force: true });
    });

    it("captures a rollout until it is interrupted", async () => {
      // Captures with the watcher's role, whose rights must be sufficient.
      const capture = deltaloop(["capture", "-o", file(), "--kubeconfig", cluster.rolesKubeconfig, "--context", "deltaloop-watcher"]);
      await capture.line("capturing");
      await cluster.apply(vault);
      await cluster.rolledOut("default", "vault");
      await cluster.kubectl("set", "image", "deployment/vault", "main=shop:2");
      await cluster.rolledOut("default", "vault");
      await eventually(
        "the old ReplicaSet has no pods left",
        async () => (await cluster.list("/api/v1/namespaces/default/pods")).length === 3,
      );
      expect(await capture.stop()).toBeLessThan(5_000);
      expect((await capture.exited).code).toBe(0);
      const text = await readFile(file(), "utf8");
      measured(`capture of a rollout of 3: ${text.trim().split("\n").length} lines, ${Math.round(text.length / 1024)} KiB`);
      expect(text).toContain("vault-");
      expect(text).toMatch(/^[^\n]*"kubernetes":"v1\.\d+\./);
      expect(text).not.toMatch(PLANTED);
      expect(capture.output()).not.toMatch(PLANTED);
    });

    it("[informer T84] replays it completely, with the same final cache for every seed", async () => {
      const digests = new Set<string>();
      for (const seed of SEEDS) {
        const replay = deltaloop(["replay", file(), "--faults", "duplicate", "--seed", String(seed)]);
        expect((await replay.exited).code, replay.output()).toBe(0);
        expect(replay.output()).toMatch(
          /decided [1-9]\d* writes; none was sent\. Cache at the end: 1 Deployments, 3 ReplicaSets, 0 ReplicationControllers, 3 pods\./,
        );
        // Upstream creates a ReplicaSet within milliseconds, perhaps before the replayed sync; its pods take longer, so each sync that
        // creates some is replayed.
        expect(new Set(replay.output().match(/replicaset\.apps\/vault-[a-z0-9]{6,}(?= )/g)).size).toBe(2);
        expect(replay.output()).not.toMatch(PLANTED);
        digests.add(/Cache digest (\S+)/.exec(replay.output())?.[1] ?? "none");
      }
      expect(digests.size).toBe(1);
      expect(digests).not.toContain("none");
    });

    it("explains the reason and rule for scaling a ReplicaSet down, and its outcome", async () => {
      const explained = deltaloop(["explain", file(), "deploy/vault", "--all"]);
      expect((await explained.exited).code, explained.output()).toBe(0);
      expect(explained.output()).toMatch(
        /the sum of spec\.replicas is \d+, less the 3 that must be available \(3 − 0\).*\[deployment §11\.3\]/,
      );
      expect(explained.output()).toMatch(/→ patch ReplicaSet vault-\S+: replicas 3 → 2; recorded \d+ ms later/);
      expect(explained.output()).not.toMatch(PLANTED);
    });

    it("kubectl reads the end of the first rollout from the capture", async () => {
      const binaries = await controlPlaneBinaries();
      if ("missing" in binaries) throw new Error(binaries.missing);
      const lines = (await readFile(file(), "utf8")).split("\n");
      const complete = lines.find((line) => line.includes('"r":"deployments"') && line.includes('"availableReplicas":3')) ?? "{}";
      const { t } = JSON.parse(complete) as { readonly t?: string };
      const opened = deltaloop(["open", file(), "--at", t ?? "none"]);
      const kubeconfig = (await opened.line("export KUBECONFIG=")).replace(/^.*KUBECONFIG=/, "");
      const kubectl = async (...args: readonly string[]) => run(binaries.kubectl, ["--kubeconfig", kubeconfig, ...args]);
      const pods = await kubectl("get", "pods", "-n", "default");
      expect(pods.stdout.match(/^vault-\S+ +1\/1 /gm)).toHaveLength(3);
      expect(pods.stderr).toMatch(/^Warning: rollout\.jsonl at .*not captured$/m);
      const { stdout } = await kubectl("describe", "deployment/vault", "-n", "default");
      expect(stdout).toMatch(/Image: +shop:1\n[^]*NewReplicaSet: +vault-\S+ \(3\/3 replicas created\)/);
      expect(stdout).not.toMatch(PLANTED);
      expect((await deltaloop(["open", "--set", "10000-01-01"], { KUBECONFIG: kubeconfig }).exited).code).toBe(2);
      expect((await kubectl("rollout", "history", "deployment/vault", "-n", "default")).stdout).toContain("1         <none>");
      await expect(kubectl("delete", "deployment/vault", "-n", "default")).rejects.toThrow("nothing can be changed");
      expect(await opened.stop()).toBeLessThan(2_000);
    });

    it("rotates files, and after kill -9 the last file alone can be replayed", async () => {
      const parts = join(directory, "parts.jsonl.gz");
      const capture = deltaloop([
        ...["capture", "-o", parts, "--rotate-every", "2s", "--keep", "2"],
        ...["--kubeconfig", cluster.rolesKubeconfig, "--context", "deltaloop-watcher"],
      ]);
      await capture.line("continuing in");
      await cluster.kubectl("scale", "deployment/vault", "--replicas=4");
      await cluster.rolledOut("default", "vault");
      await capture.line("parts.0004");
      await sleep(2 * FLUSH_MS);
      process.kill(capture.pid, "SIGKILL");
      await capture.exited;
      // A new process may be starting; until its file is logged, the list has only the earlier files.
      const said = Array.from(capture.output().matchAll(/continuing in (\S+)/g), ([, path = ""]) => path);
      const files = (await readdir(directory)).filter((name) => name.startsWith("parts.")).map((name) => join(directory, name));
      expect(files).toEqual(expect.arrayContaining(said.slice(-2)));
      expect(files.length).toBeLessThanOrEqual(3);
      const replay = deltaloop(["replay", said.at(-1) ?? ""]);
      expect((await replay.exited).code, replay.output()).toBe(0);
      expect(replay.output()).toContain("Cache at the end: 1 Deployments, 3 ReplicaSets, 0 ReplicationControllers, 4 pods.");
    });

    it("keeps values of pod templates out of Redis, queues and logs", async () => {
      await cluster.apply(...others);
      const bodies = await bodiesWhileFunctionsSleep(dev, async () => {
        await cluster.kubectl("set", "image", "deployment/vault", "main=shop:3");
        await cluster.kubectl("label", "--overwrite", "rs/vault-rs", "rc/vault-rc", "pod/vault-pod", "looked=at");
      });
      await cluster.rolledOut("default", "vault", 90);
      expect(bodies.filter((body) => PLANTED.test(body))).toEqual([]);
      const texts = commands.filter((command) => command.includes("vault"));
      measured(
        `searched ${commands.length} Redis commands (${texts.length} about it), ${bodies.length} queue bodies, ${dev.output().length} characters of logs`,
      );
      expect(texts.length).toBeGreaterThan(20);
      expect(commands.filter((command) => PLANTED.test(command))).toEqual([]);
      expect(dev.output()).not.toMatch(PLANTED);
      // Authorized readers see the values.
      expect(JSON.stringify(await cluster.list("/api/v1/namespaces/default/pods"))).toContain(SECRET);
    });

    it("a replay of the capture decides exactly the recorded writes of deltaloop's controllers", async () => {
      const path = join(directory, "own.jsonl");
      const flags = ["--no-redact", "--kubeconfig", cluster.rolesKubeconfig, "--context", "deltaloop-watcher"];
      const capture = deltaloop(["capture", "-o", path, ...flags]);
      await capture.line("capturing");
      await sleep(FLUSH_MS); // so that the capture includes the lists
      const before = (await cluster.audit()).length;
      await cluster.apply(...OWN);
      await cluster.rolledOut("default", "own");
      await cluster.kubectl("set", "image", "deployment/own", "main=v2");
      await cluster.rolledOut("default", "own");
      await cluster.kubectl("scale", "deployment/own", "--replicas=5");
      await cluster.rolledOut("default", "own");
      await sleep(AS_OLD_MS);
      await cluster.kubectl("scale", "deployment/own", "rs/own", "rc/own", "--replicas=2");
      await eventually(
        "what was scaled down is gone",
        async () => (await cluster.list<Named>("/api/v1/namespaces/default/pods")).filter(isOwn).length === 6,
      );
      await sleep(SETTLED_MS);
      await capture.stop();
      const audited = (await cluster.audit()).slice(before);
      const digester = createDigester("a key of this test alone");
      const records = readCapture(path);

      const syncs: ReplayedSync[] = [];
      await replay(heldCapture(records), {
        ...{ digester, seed: 1, log: silentLog, functions: functionHandlers, faults: () => ({}) },
        onSync: (sync) => void syncs.push(sync),
      });
      const made = writesMade(audited as unknown as readonly WriteEvent[], FUNCTIONS, digester); // the audit log contains WriteEvents
      const { sizes, ...replayed } = writesReplayed(syncs);
      const { sizes: recorded, ...others } = made;
      expect(replayed).toEqual(others);
      expect([...sizes.keys()]).toEqual([...recorded.keys()]);
      for (const [name, steps] of recorded) {
        const decided = sizes.get(name) ?? [];
        expect(isSamePath(decided, steps), `${name}: ${steps.join()}; replayed: ${decided.join()}`).toBe(true);
      }
      expect([...made.pods.values()].toSorted()).toEqual([3, 3, 3, 5]);

      // Compares statuses, too, each with the state from which it was computed.
      const changes = changesOf(records, { name: path, digester, malformed: (what) => expect.fail(what) });
      const writes = writesOfAudit(audited as unknown as readonly CapturedObject[], path, { writerOf: ownWriter });
      const verdicts = new Map<string, number>();
      for await (const finding of shadow(changes, { handlers: SYNC_HANDLERS, digester }, writes)) {
        const told = finding.kind === "rest" ? finding.ours.join() : `${labelOf(finding.write)}: ${JSON.stringify(finding.verdict)}`;
        const verdict = finding.kind === "rest" ? "rest" : finding.verdict.kind;
        expect(["exact", "older", "tie", ...(told === "" ? ["rest"] : [])], told).toContain(verdict);
        verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
      }
      measured(`our own ${writes.length} writes among those of our syncs: ${[...verdicts].map(([kind, n]) => `${n} ${kind}`).join(", ")}`);
      expect(writes.length).toBeGreaterThan(50);
    }, 120_000);
  });
});

/**
 * Returns all messages that the delta queue receives during `act`. The function host is suspended meanwhile, so the messages stay in the
 * delta queue and are processed afterwards.
 */
async function bodiesWhileFunctionsSleep(dev: Running, act: () => Promise<void>): Promise<readonly string[]> {
  const pid = dev.pids()["functions"] ?? 0;
  // The queue's URL is in the environment that `dev` wrote for the function host.
  const environment = new Map(
    readFileSync(`/proc/${pid}/environ`, "utf8")
      .split("\0")
      .map((entry) => [entry.split("=", 1)[0], entry.slice(entry.indexOf("=") + 1)]),
  );
  const queue = environment.get("DELTALOOP_DELTAS_URL")?.split("/").at(-1);
  const url = `${environment.get("DELTALOOP_SQS_ENDPOINT")}/_fauxqs/queues/${queue}`;
  const look = async (): Promise<readonly string[]> => {
    const { messages } = (await (await fetch(url)).json()) as InspectedQueue; // the response of fauxqs
    return [...messages.ready, ...messages.inflight.map(({ message }) => message)].map(({ body }) => payloadOf(body));
  };
  process.kill(pid, "SIGSTOP");
  try {
    await act();
    return await eventually(
      "a message of each resource is there",
      async () => {
        const bodies = await look();
        const isThere = (resource: string): boolean =>
          bodies.some((body) => body.includes(`"r":"${resource}"`) && body.includes("default/vault"));
        return CACHED_RESOURCES.every(isThere) && bodies;
      },
      LOOK_MS,
    );
  } finally {
    process.kill(pid, "SIGCONT");
  }
}

interface InspectedQueue {
  readonly messages: {
    readonly ready: readonly { readonly body: string }[];
    readonly inflight: readonly { readonly message: { readonly body: string } }[];
  };
}
