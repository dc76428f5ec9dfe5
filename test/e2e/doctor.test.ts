/** `deltaloop doctor` with a running `deltaloop dev --act` on a real control plane. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseEnv } from "node:util";

import { PurgeQueueCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { CHECKS } from "../../cli/doctor/finding.ts";
import type { Finding } from "../../cli/doctor/finding.ts";
import { sqsClient } from "../../shared/store/sqs/client.ts";
import { environmentOf, parseConfiguration } from "../../shared/controllers/lambda/configuration.ts";
import { laneOf } from "../../shared/store/lane.ts";
import { CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import type { Configuration } from "../../shared/controllers/lambda/configuration.ts";
import { openCache, redisStore } from "../../shared/controllers/lambda/connect.ts";
import type { Store } from "../../shared/store/ports/store.ts";
import { deltaloop, eventually, measured, ROOT, startCluster, startDev, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster, Running } from "../support/e2e.ts";
import { startRedis } from "../support/redis.ts";
import type { RedisServer } from "../support/redis.ts";

const TOOK_MS_MAX = 10_000;
/** Limit in ms: on an idle cluster, a lane reaches the list's version only with the next bookmark. */
const AUDIT_MS_MAX = 150_000;

interface Said {
  readonly code: number | null;
  readonly findings: readonly (Finding & { readonly looked: string })[];
  readonly tookMs: number;
}

await whereRealPartsAre("doctor on a real control plane", () => {
  describe("doctor on a real control plane", () => {
    let [cluster, redis, dev, client, sqs]: [Cluster?, RedisServer?, Running?, Redis?, ReturnType<typeof sqsClient>?] = [];
    let args: readonly string[];
    let configuration: Configuration;
    let store: Store;

    beforeAll(async () => {
      [cluster, redis] = await Promise.all([startCluster({ machines: false }), startRedis()]);
      client = new Redis(redis.url).on("error", () => undefined); // the test kills the server
      dev = await startDev(cluster, "--redis", redis.url);
      const line = await dev.line("to check it, run: deltaloop ");
      args = line.slice(line.indexOf("doctor")).split(" ");
      configuration = parseConfiguration(parseEnv(await readFile(args[args.indexOf("--env") + 1] ?? "", "utf8")));
      store = openCache(
        configuration,
        redisStore(configuration.redis, () => undefined),
      ).store;
      sqs = sqsClient({ endpoint: configuration.queues.endpoint ?? "" });
    });
    afterAll(async () => {
      await store?.close();
      client?.disconnect();
      sqs?.destroy();
      await dev?.stop();
      await redis?.stop();
      await cluster?.stop();
    });

    /** Runs the command that `dev` prints. */
    async function doctor(environment: Readonly<Record<string, string>> = {}, asked = args, tookMsMax = TOOK_MS_MAX): Promise<Said> {
      const command = deltaloop([...asked, "--json"], environment);
      const { code, afterMs } = await command.exited;
      const { findings, tookMs } = JSON.parse(command.output()) as Said; // cli/README.md describes the format
      measured(`doctor took ${(tookMs / 1000).toFixed(1)} s, with the start of Node ${(afterMs / 1000).toFixed(1)} s`);
      expect(tookMs).toBeLessThan(tookMsMax);
      return { code, findings, tookMs };
    }

    const failures = ({ findings }: Said) =>
      findings.filter(({ state }) => state === "failure").map(({ check, of = "", seen }) => `${check} ${of}: ${seen}`);
    const states = ({ findings }: Said, ...checks: readonly string[]) =>
      new Set(findings.filter(({ check }) => checks.includes(check)).map(({ state }) => state));
    /** The watcher's environment, for a doctor without `--env`. */
    const environment = (change: Partial<Configuration>) => environmentOf({ ...configuration, ...change });

    it("exits with 0 for a healthy system, after every check", async () => {
      const healthy = await doctor();
      expect(healthy.findings.filter(({ state }) => state !== "ok")).toEqual([]);
      expect(new Set([...healthy.findings.map(({ check }) => check), "cache.audit"])).toEqual(new Set(Object.keys(CHECKS)));
      expect(healthy.code).toBe(0);
      const people = deltaloop(args);
      expect((await people.exited).code).toBe(0);
      expect(people.output()).toMatch(
        /^deltaloop doctor: deployment dev, cluster .*\n\n(ok .*\n( +.*\n)*)+\n0 failures, 0 warnings, 0 not checked, \d+ ok/,
      );
    });

    interface Fault {
      readonly name: string;
      readonly strike: () => unknown;
      readonly want: readonly RegExp[];
      readonly mend?: () => unknown;
    }
    const FAULTS: readonly Fault[] = [
      {
        name: "an eviction policy that evicts keys",
        strike: () => client?.config("SET", "maxmemory-policy", "allkeys-lru"),
        want: [/^redis\.policy : allkeys-lru/],
        mend: () => client?.config("SET", "maxmemory-policy", "noeviction"),
      },
      {
        name: "revoked permissions",
        strike: () => cluster?.kubectl("delete", "clusterrolebinding", "deltaloop-sync-replicaset"),
        want: [/^permissions deltaloop-sync-replicaset: lacks .*list pods/],
        mend: () => cluster?.kubectl("apply", "-f", join(ROOT, "infra/manifests/rbac.yaml")),
      },
      {
        name: "a doorbell in the dead-letter queue",
        strike: () => sqs?.send(new SendMessageCommand({ QueueUrl: deadLetters(), MessageBody: "{}" })),
        want: [/^queue\.deadLetters replicaset: 1 messages/],
        mend: () => sqs?.send(new PurgeQueueCommand({ QueueUrl: deadLetters() })),
      },
      {
        name: "a parked key",
        strike: park,
        want: [/^work\.parked deployment: default\/web after 1 failures/],
        mend: () => cluster?.kubectl("annotate", "deployment/web", "mended=yes"),
      },
      {
        name: "a quarantined object",
        strike: () => store.quarantine({ what: "default/odd", where: "pods lane 3", why: "no uid", atMs: Date.now() }),
        want: [/^cache\.quarantine : 1: default\/odd \(pods lane 3: no uid\)/],
        mend: async () => client?.del(...(await client.keys("dl:dev:*:quar"))),
      },
    ];

    for (const { name, strike, want, mend } of FAULTS) {
      it(`${name}: exits with 1, with only that finding`, async () => {
        await strike();
        try {
          const said = await doctor();
          expect(failures(said)).toEqual(want.map((each) => expect.stringMatching(each)));
          expect(said.code).toBe(1);
          for (const { state, remedy } of said.findings) if (state === "failure") expect(remedy).toMatch(/\.$/);
        } finally {
          await mend?.();
        }
      });
    }

    it("doctor --audit reports exactly the object whose row is missing", async () => {
      await cluster?.kubectl("run", "audited", "--image=shop:1"); // no scheduler binds this pod, so its row does not change
      const rows = async () => (await store.readLane("pods", laneOf("default/audited", (await store.readLane("pods", 0)).lanes))).rows;
      await eventually("its row", async () => (await rows()).some(({ key }) => key === "default/audited"));
      for (const name of (await client?.keys("dl:dev:*:[vs]:pods:*")) ?? []) await client?.hdel(name, "default/audited");
      const said = await doctor({}, [...args, "--audit"], AUDIT_MS_MAX);
      expect(failures(said)).toEqual([expect.stringMatching(/^cache\.audit pods: 1 of \d+: missing default\/audited/)]);
      expect(said.code).toBe(1);
      await cluster?.kubectl("delete", "pod", "audited", "--now");
    });

    it("shows the other components when the API server does not answer", async () => {
      const said = await doctor(environment({ kube: { server: "https://127.0.0.1:9" } }), ["doctor", "--startup-timeout", "0s"]);
      expect(failures(said)).toEqual([expect.stringMatching(/^api\.answers : no answer: .*ECONNREFUSED/)]);
      expect(states(said, "redis.answers", "queue.answers", "cache.gate", "work.due")).toEqual(new Set(["ok"]));
      expect(states(said, "permissions", "watcher.lease", "clock.redis")).toEqual(new Set(["notChecked"]));
    });

    it("prints no secret when the password is wrong", async () => {
      await client?.config("SET", "requirepass", "the-right-one");
      const secret = "hunter22-hunter22";
      const url = configuration.redis.url.replace("://", `://:${secret}@`);
      const text = await Promise.all(
        [["--json"], []].map(async (more) => {
          const command = deltaloop(
            ["doctor", "--kubeconfig", cluster?.rolesKubeconfig ?? "", ...more],
            environment({ redis: { ...configuration.redis, url } }),
          );
          expect((await command.exited).code).toBe(1);
          return command.output();
        }),
      );
      await client?.config("SET", "requirepass", "");
      expect(text.join()).toMatch(/redis\.answers.*(WRONGPASS|NOAUTH)/);
      const tokens = [...(await readFile(cluster?.rolesKubeconfig ?? "", "utf8")).matchAll(/"token": ?"([^"]+)"/g)].map(
        ([, token = ""]) => token,
      );
      expect(tokens.length).toBeGreaterThan(0);
      for (const each of [secret, configuration.digestKey, ...configuration.macKeys, ...tokens]) expect(text.join()).not.toContain(each);
    });

    it("reports for each controller why its gate is closed when there is no watcher", async () => {
      process.kill(dev?.pids()["watcher"] ?? 0, "SIGSTOP"); // the watcher cannot repair it
      await store.markSuspect("pods", "a message was lost");
      const said = await doctor();
      const shut = /^cache\.gate \w+: closed: pods: SUSPECT \(a message was lost\)/;
      expect(failures(said).filter((each) => shut.test(each))).toHaveLength(CONTROLLERS.length);
      expect(said.code).toBe(1);
    });

    it("reports within 10 s when Redis hangs or is stopped, and shows the other components", async () => {
      redis?.pause();
      const hanging = await doctor().finally(() => redis?.resume());
      await redis?.kill();
      for (const [said, why] of [
        [hanging, /no answer: .*(timed out|no response within)/],
        [await doctor(), /no answer: .*ECONNREFUSED/],
      ] as const) {
        expect(failures(said)).toContainEqual(expect.stringMatching(/^redis\.answers/));
        expect(failures(said).join("\n")).toMatch(why);
        expect(said.code).toBe(1);
        expect(states(said, "api.answers", "permissions", "queue.answers")).toEqual(new Set(["ok"]));
        expect(states(said, "cache.gate", "cache.epoch", "work.due", "work.intents")).toEqual(new Set(["notChecked"]));
      }
    });

    it("exits with 2 and prints a line for each usage error", async () => {
      const refused = async (asked: readonly string[], environment = {}): Promise<string> => {
        const command = deltaloop(asked, environment);
        expect((await command.exited).code, command.output()).toBe(2);
        return command.output();
      };
      expect(await refused(["doctor"], { DELTALOOP_DEPLOYMENT: "d" })).toMatch(/^deltaloop: DELTALOOP_CLUSTER: is missing\n/);
      expect(await refused(["doctor", "--env", "/no/such/file"])).toMatch(/^deltaloop: \/no\/such\/file cannot be read: ENOENT.*\n$/);
      expect(await refused([...args, "--kubeconfig", "/no/such/file"])).toMatch(/^deltaloop: kubeconfig \/no\/such\/file .*\n$/);
      expect(await refused(["doctor", "--cure"])).toMatch(/unknown option '--cure'/);
    });

    function deadLetters(): string {
      return `${configuration.queues.doorbells.replicaset}-dead`;
    }

    /** Parks the key, as the controller does after its last retry. */
    async function park(): Promise<void> {
      const labels = { app: "web" };
      const template = { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
      // A paused Deployment, so that it does not change after its status is written.
      const spec = { paused: true, selector: { matchLabels: labels }, template };
      await cluster?.apply({ apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "web", namespace: "default" }, spec });
      const { metadata } = (await cluster?.get<{ metadata: { uid: string } }>("/apis/apps/v1/namespaces/default/deployments/web")) ?? {};
      const epoch = (await store.epoch())?.epoch ?? "";
      const run = { epoch, controller: "deployment", key: "default/web", token: "the-test" } as const;
      await eventually("the key is parked, and nothing adds it any more", async () => {
        await store.add(epoch, "deployment", run.key, 0);
        const { kind } = await store.take(run, metadata ?? {});
        if (kind === "ok") await store.done(run, { kind: "drop" });
        await sleep(1_500);
        return (await store.parked("deployment")).length === 1;
      });
    }
  });
});
