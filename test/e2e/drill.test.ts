/**
 * The operations drill: deploys the product as a user would and then runs, in one sequence, the operations and losses of a deployment. Runs
 * `serverless deploy` of serverless.yml to LocalStack, whose event source mappings invoke the zips, with a real Redis, the watcher as a
 * process, a real control plane, scripted nodes, and tokens of our own service accounts. Without a control plane, it uses the in-memory API
 * server. The drill starts with the commit in test/upgrade/base and ends with a rollback to it.
 */
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";

import { ListQueuesCommand, PurgeQueueCommand, SendMessageCommand } from "@aws-sdk/client-sqs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { functionNames } from "../../infra/build/bundle.ts";
import type { Edition } from "../../infra/local/deploy.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createClient } from "../../shared/kube/http/client.ts";
import { createSecrets } from "../../shared/store/secrets/secrets.ts";
import { CACHED_RESOURCES, CONTROLLERS } from "../../shared/kube/objects/resources.ts";
import { ENVELOPE_VERSION } from "../../shared/controllers/cache/messages/envelope.ts";
import { signBody } from "../../shared/controllers/cache/messages/signed-body.ts";
import { kubeSecret, secretName, syncFunction } from "../../shared/controllers/registry/names.ts";
import { ROLES } from "../../shared/controllers/registry/rights.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { canary, canaryAnnotations, canaryContainer, CHANGE_CAUSE, found } from "../support/canaries.ts";
import { baseCheckout } from "../support/drill/base.ts";
import { memoryCluster, messagesIn, realCluster, seconds, startDeployed } from "../support/drill/deployed.ts";
import type { Deployed, SomeCluster } from "../support/drill/deployed.ts";
import { editionOf, everythingMade, functionsOf, readQueues } from "../support/drill/localstack-api.ts";
import { rightsAtTheLease, rightsIn, rightsOf, triedBeyond, usesOf } from "../support/drill/rights.ts";
import { revocableToken, takeTokensAndRotate } from "../support/drill/tokens.ts";
import { dump, generations, loseRedis, watchMessages } from "../support/drill/traces.ts";
import { eventually, isRunning, killHard, measured, ROOT } from "../support/e2e.ts";
import { ensureRedisServer } from "../support/redis.ts";

const START_MS_MAX = 240_000;
const STACK = "deltaloop-local";
const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets";
/** Shortens the refresh of secrets to seconds; test/unit/lambda/live-configuration.test.ts tests the product's five minutes. */
const OURS: Edition = { secretsSeconds: 2 };

const venv = await localStackVenv();
const missing = "missing" in venv ? venv.missing : ensureRedisServer();
if (missing !== undefined) {
  process.stderr.write(`!!!!  the drill cannot run: ${missing}\n`);
  it.skip(`the drill: ${missing}`);
} else {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) process.stderr.write(`!!!!  the drill uses the in-memory API server: ${binaries.missing}\n`);
  suite("missing" in binaries ? memoryCluster : realCluster, "missing" in binaries ? binaries.missing : undefined);
}

function suite(startCluster: () => Promise<SomeCluster>, inMemory: string | undefined): void {
  describe("the drill: deployed to LocalStack", () => {
    let deployed: Deployed;
    let base: Edition & { remove?(): Promise<void> };
    beforeAll(async () => {
      const checkout = await baseCheckout();
      if ("missing" in checkout) {
        process.stderr.write(`!!!!  the upgrade starts from this same commit: ${checkout.missing}\n`);
        base = { preamble: "globalThis.deltaloopBase = true;" };
      } else base = { ...checkout, kubernetes: "any" }; // the base commit may be older than the control plane's release
      deployed = await startDeployed({
        startCluster,
        edition: base,
        token: async ({ real }, role) => (real === undefined ? undefined : await revocableToken(real, role)),
      });
    }, START_MS_MAX);
    afterAll(async () => {
      await deployed?.stop();
      await base.remove?.();
    });

    const client = () => deployed.cluster.client;
    const endpoint = () => deployed.local.localStack.endpoint;

    it("creates, scales and rolls a Deployment, and scales a ReplicationController", async () => {
      const { create, patch, rolledOut } = deployed;
      const labels = { app: "old-way" };
      await client().request("POST", "/api/v1/namespaces/default/replicationcontrollers", {
        metadata: { name: "old-way" },
        spec: {
          replicas: 2,
          selector: labels,
          template: { metadata: { labels }, spec: { containers: [{ name: "main", image: "shop:1" }] } },
        },
      });
      await create("web", 3);
      await rolledOut("web", 3, "shop:1");
      await patch("web", { replicas: 6 });
      await rolledOut("web", 6, "shop:1");
      await patch("web", { template: { spec: { containers: [{ name: "web", image: "shop:2" }] } } });
      await rolledOut("web", 6, "shop:2");
      await eventually("the ReplicationController has its pods", async () => {
        const { status } = await client().request("GET", "/api/v1/namespaces/default/replicationcontrollers/old-way");
        return (status as { readonly readyReplicas?: number }).readyReplicas === 2; // the status of a ReplicationController
      });
    });

    it("reuses a few execution environments for many invocations, and writes function logs to LocalStack's log", async () => {
      const text = await deployed.log();
      const started = text.match(/deltaloop-local-apply-deltas: environment started/g) ?? [];
      const invoked = text.match(/deltaloop-local-apply-deltas: START RequestId/g) ?? [];
      expect(started.length).toBeLessThanOrEqual(2);
      expect(invoked.length).toBeGreaterThan(started.length * 2);
      expect(text).toMatch(/deltaloop-local-sync-replicaset: REPORT RequestId/);
    });

    it("continues a rollout during an upgrade of first the functions and then the watcher", async () => {
      const former = await codeDeployed();
      await deployed.inTheMiddleOfARollout("upgraded", async () => {
        await deployed.local.redeploy(OURS);
        await deployed.local.renewWatcher();
      });
      for (const [name, code] of await codeDeployed()) expect(former.get(name), name).not.toBe(code);
      expect(await codeDeployed()).toEqual(await codeBuilt(ROOT));
    });

    it("changes nothing when deployed again without a change", async () => {
      const before = await editionOf(endpoint(), STACK);
      const running = environments(await deployed.log()).filter(isRunning);
      const from = performance.now();
      await deployed.local.redeploy(OURS);
      measured(`deployed again without a change after ${seconds(from)}`);
      expect(await editionOf(endpoint(), STACK)).toEqual(before);
      await deployed.create("unchanged", 2);
      await deployed.rolledOut("unchanged", 2, "shop:1");
      expect(running.length).toBeGreaterThan(0);
      expect(running.filter((pid) => !isRunning(pid))).toEqual([]);
    });

    it("puts no canary into a message, a log or a Redis value", async () => {
      const name = "secretive";
      const messages = new Set<string>();
      const watched = new AbortController();
      const watching = watchMessages(deployed.local, messages, watched.signal);
      const template = { metadata: { labels: { app: name } }, spec: { containers: [canaryContainer(name, "shop:1")] } };
      await client().request("POST", "/api/v1/namespaces/default/secrets", {
        metadata: { name },
        data: { token: Buffer.from(canary("secret")).toString("base64") },
      });
      await client().request("POST", "/api/v1/namespaces/default/configmaps", {
        metadata: { name },
        data: { url: canary("configmap") },
      });
      await deployed.create(name, 2, { template });
      const annotate = { metadata: { annotations: canaryAnnotations() } };
      await client().request("PATCH", `${DEPLOYMENTS}/${name}`, annotate, "application/merge-patch+json");
      await deployed.rolledOut(name, 2, "shop:1");
      await eventually("the ReplicaSet says why", async () => {
        const { items } = await client().list(REPLICA_SETS, { labelSelector: `app=${name}` });
        return JSON.stringify(items).includes(canaryAnnotations()[CHANGE_CAUSE] ?? "none");
      });
      watched.abort();
      await watching;
      const redis = await dump(deployed.local);
      expect({ messages: [...messages].some((text) => text.includes(name)), redis: redis.some((text) => text.includes(name)) }).toEqual({
        messages: true,
        redis: true,
      });
      measured(`looked for canaries in ${messages.size} messages and ${redis.length} texts of Redis`);
      expect({ messages: found([...messages]), redis: found(redis), log: found([await deployed.log()]) }).toEqual({
        messages: [],
        redis: [],
        log: [],
      });
    });

    const ifReal = inMemory === undefined ? it : it.skip;
    const reason = inMemory === undefined ? "" : `: ${inMemory}`;

    it("rotates MAC key and tokens during a rollout, rejects no message as forged, and removes the old key everywhere", async () => {
      const [old = ""] = await secretsNow(["mac-key"]);
      const forged = await forgeries();
      const { real } = deployed.cluster;
      const tokensRotated = async (): Promise<void> => {
        if (real === undefined) return void process.stderr.write(`!!!!  no tokens are rotated: ${inMemory}\n`);
        const said = await takeTokensAndRotate(real, "web", endpoint());
        expect(said.match(/^[\w-]+: renewed, ends /gm)).toHaveLength(1 + CONTROLLERS.length);
        for (const secret of await secretsNow(CONTROLLERS.map((name) => kubeSecret(syncFunction(name)))))
          expect(said).not.toContain((JSON.parse(secret) as { readonly token: string }).token); // a token that `rotate tokens` wrote
      };
      await deployed.inTheMiddleOfARollout("the MAC key and the tokens rotated", async () => {
        const [said] = await Promise.all([deployed.run("rotate", "mac-key"), tokensRotated()]);
        const [fresh = ""] = await secretsNow(["mac-key"]);
        expect(fresh).toMatch(/^[0-9a-f]{64}$/);
        expect(fresh).not.toBe(old);
        for (const key of [old, fresh]) expect(said).not.toContain(key);
      });
      await deployed.withCache(async ({ store }) => {
        for (const resource of CACHED_RESOURCES)
          expect(await store.keyUse(resource, false), resource).toMatchObject({ former: 0, foreign: 0, ghosts: 0 });
      });
      expect(await forgeries()).toBe(forged);
    });

    it("rotates the digest key during a rollout: the watcher exits with code 4 and starts a new epoch", async () => {
      const [old = ""] = await secretsNow(["digest-key"]);
      const endings = deployed.local.watcher.endings().length;
      const before = await epochNow();
      await deployed.inTheMiddleOfARollout("the digest key rotated", async () => {
        const said = await deployed.run("rotate", "digest-key");
        const [fresh = ""] = await secretsNow(["digest-key"]);
        expect(fresh).not.toBe(old);
        for (const key of [old, fresh]) expect(said).not.toContain(key);
        measured(`the digest key: ${/gates were closed for .*/.exec(said)?.[0]}`);
      });
      expect(deployed.local.watcher.endings().slice(endings)).toEqual(["code 4"]);
      expect((await epochNow()).digestPrefix).not.toBe(before.digestPrefix);
    });

    it("continues a rollout after the watcher is killed", async () => {
      const endings = deployed.local.watcher.endings().length;
      await deployed.inTheMiddleOfARollout("the watcher killed", async () => {
        killHard(deployed.local.watcher.pid());
        await eventually("another one is started", () => deployed.local.watcher.endings().length > endings);
      });
      expect(deployed.local.watcher.endings().slice(endings)).toEqual(["SIGKILL"]);
    });

    it("continues a rollout after queues are purged with messages in them", async () => {
      const { deltas, doorbells } = deployed.local.queueUrls;
      const syncs = CONTROLLERS.map((name) => syncFunction(name));
      const purge = async (what: string, urls: readonly string[]): Promise<void> => {
        const count = async () =>
          (await Promise.all(urls.map((url) => messagesIn(deployed.sqs, url)))).reduce((sum, each) => sum + each, 0);
        const lost = await eventually(`there is something in ${what}`, async () => (await count()) || undefined);
        await Promise.all(urls.map((QueueUrl) => deployed.sqs.send(new PurgeQueueCommand({ QueueUrl }))));
        measured(`${lost} messages purged from ${what}`);
      };
      await deployed.inTheMiddleOfARollout("queues purged", async () => {
        await readQueues(endpoint(), ["apply-deltas", ...syncs], false);
        await deployed.create("purged", 1);
        await purge("the delta queue", [deltas]);
        await readQueues(endpoint(), ["apply-deltas"], true);
        await purge("the doorbells", Object.values(doorbells));
        await readQueues(endpoint(), syncs, true);
        await deployed.rolledOut("purged", 1, "shop:1", 120_000);
      });
    });

    it("quarantines a poison message without blocking other messages, even of its own group", async () => {
      const nobodys = await send("not an envelope");
      const ours = await send(await signed({ v: ENVELOPE_VERSION, c: deployed.local.cluster }));
      await eventually("ours is quarantined", async () => (await quarantined(ours)).length > 0);
      await eventually("the other one is named", async () =>
        (await deployed.log()).split("\n").some((line) => line.includes('"forged message"') && line.includes(nobodys)),
      );
      const named = await deployed.withCache(({ store }) => store.forgeries());
      expect(named.map(({ messageId }) => messageId)).toContain(nobodys);
      await deployed.create("after", 2);
      await deployed.rolledOut("after", 2, "shop:1");
      await eventually("its queue is empty", async () => (await messagesIn(deployed.sqs, deployed.local.queueUrls.deltas)) === 0, 10_000);
    });

    it("moves a message that fails on every delivery to the dead-letter queue, and lists everything again", async () => {
      const { epoch } = await epochNow();
      const before = await generations(deployed.local, epoch);
      const from = performance.now();
      // A message with an unknown version, whose resource is therefore unknown, too.
      const id = await send(await signed({ v: ENVELOPE_VERSION + 1, c: deployed.local.cluster }));
      await deployed.withCache(async ({ store }) => {
        const shut = CONTROLLERS.map((controller) =>
          eventually(
            `the gate of ${controller} shuts because of it`,
            async () => {
              const gate = await store.gate(controller);
              return !gate.open && gate.reason.includes("SUSPECT") && gate.reason.includes(id) && gate.reason;
            },
            60_000,
          ),
        );
        await Promise.all(shut);
        measured(`given up after three tries and ${seconds(from)}: ${await shut[0]}`);
        const at = performance.now();
        await eventually("all gates are open again", async () =>
          (await Promise.all(CONTROLLERS.map((controller) => store.gate(controller)))).every(({ open }) => open),
        );
        measured(`listed again after ${seconds(at)}`);
      });
      const after = await generations(deployed.local, epoch);
      expect(Object.keys(after).toSorted()).toEqual(["deployments", "pods", "replicasets", "replicationcontrollers"]);
      for (const [resource, generation] of Object.entries(after)) expect(generation, resource).toBeGreaterThan(before[resource] ?? 0);
      expect(await quarantined(id)).toMatchObject([
        { where: expect.stringContaining("dead-letter queue"), why: expect.stringContaining(`version ${ENVELOPE_VERSION + 1}`) },
      ]);
      expect(await deployed.log()).toMatch(new RegExp(`deltaloop-local-dead-deltas: .*${id}`));
      await deployed.create("revived", 2);
      await deployed.rolledOut("revived", 2, "shop:1");
    });

    // The quarantine above belongs to the previous epoch.
    it("continues a rollout with a new epoch after Redis is lost", async () => {
      const before = await epochNow();
      await deployed.inTheMiddleOfARollout("Redis lost", () => loseRedis(deployed.local));
      expect((await epochNow()).epoch).not.toBe(before.epoch);
    });

    ifReal(`each function has the rights of its role, uses no other and is refused everything else${reason}`, async () => {
      const { real } = deployed.cluster;
      if (real === undefined) throw new Error("no control plane");
      // Too big for a message, so that apply-deltas reads the object live. Names are short, because managedFields would otherwise exceed
      // etcd's limit.
      const labels = Object.fromEntries(Array.from({ length: 14_000 }, (_, index) => [`l${index}`, "x".repeat(63)]));
      const huge = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "huge", labels }, spec: emptyDeployment("huge") };
      await client().request("POST", DEPLOYMENTS, huge);
      const roles = ROLES.filter(({ name }) => name !== "deltaloop-watcher");
      const tokens = await secretsNow(roles.map(({ name }) => kubeSecret(name.replace("deltaloop-", ""))));
      expect(roles).toHaveLength(1 + CONTROLLERS.length);
      await eventually("apply-deltas reads it", async () => usesOf(await real.audit(), "deltaloop-apply-deltas").length > 0);

      const anybody = await real.plane.serviceAccountKubeconfig("default", "default");
      const everybodys = await rightsOf(createClient(await kubeHttpConfigFrom(anybody, { component: "anybody" })), "default");
      for (const [index, role] of roles.entries()) {
        const uses = usesOf(await real.audit(), role.name);
        const used = new Set(uses.map(({ right }) => right));
        const wanted = rightsIn(role);
        expect(used.size, role.name).toBeGreaterThan(0);
        expect(
          [...used].filter((right) => !wanted.has(right) && !rightsAtTheLease(role).has(right)),
          role.name,
        ).toEqual([]);
        expect(
          uses.filter(({ code }) => code === 403),
          role.name,
        ).toEqual([]);

        const { token } = JSON.parse(tokens[index] ?? "") as { readonly token: string }; // written by `rotate tokens`
        const { server, ca } = await kubeHttpConfigFrom(anybody, { component: "e2e" });
        const own = createClient({ server, component: "e2e", userAgent: "e2e", token: () => Promise.resolve(token), ...(ca && { ca }) });
        const has = await rightsOf(own, "default");
        expect([...has].filter((right) => !everybodys.has(right)).toSorted(), role.name).toEqual([...wanted].toSorted());
        const { tried, through } = await triedBeyond(own, has);
        expect(through, role.name).toEqual([]);
        const unused = [...wanted].filter((right) => !used.has(right));
        measured(`${role.name}: ${wanted.size} rights, all but ${unused.join(", ") || "none"} used; ${tried} calls beyond refused`);
      }
    });

    it("continues a rollout during a rollback", async () => {
      await deployed.inTheMiddleOfARollout("rolled back", async () => {
        await deployed.local.redeploy(base);
        await deployed.local.renewWatcher();
      });
      expect(await codeDeployed()).toEqual(await codeBuilt(base.root ?? ROOT));
    });

    it("leaves no resource and no process behind after serverless remove", async () => {
      const from = performance.now();
      const pids = environments(await deployed.log());
      expect(pids.length).toBeGreaterThan(0);
      await deployed.local.remove();
      measured(`serverless remove after ${seconds(from)}`);
      expect((await deployed.sqs.send(new ListQueuesCommand({}))).QueueUrls ?? []).toEqual([]);
      for (const made of await everythingMade(endpoint())) expect(made).not.toContain("deltaloop");
      await eventually("the environments have ended", () => pids.every((pid) => !isRunning(pid)), 10_000);
    });

    const codeDeployed = async () => new Map((await functionsOf(endpoint())).map((each) => [each.FunctionName, each.CodeSha256]));

    /** Returns the code hash of each function in that checkout's latest build. */
    async function codeBuilt(root: string): Promise<ReadonlyMap<string, string>> {
      const built = new Map<string, string>();
      for (const name of await functionNames(root)) {
        const zip = await readFile(join(root, "dist", "functions", `${name}.zip`));
        built.set(`${STACK}-${name}`, createHash("sha256").update(zip).digest("base64"));
      }
      return built;
    }

    async function secretsNow(parts: readonly string[]): Promise<readonly string[]> {
      const secrets = createSecrets({ endpoint: endpoint() });
      try {
        const names = parts.map((part) => secretName("local", part));
        const values = await secrets.read(names);
        return names.map((name) => values.get(name) ?? "");
      } finally {
        secrets.close();
      }
    }

    const epochNow = () => deployed.withCache(async ({ store }) => (await store.epoch()) ?? expect.unreachable("there is no epoch"));
    const forgeries = () => deployed.withCache(async ({ store }) => (await store.forgeries()).length);
    const quarantined = (id: string) =>
      deployed.withCache(async ({ store }) => (await store.quarantined()).filter(({ what }) => what === id));
    const signed = (fields: object) =>
      deployed.withCache(({ signer }) => Promise.resolve(signBody(signer, deployed.local.cluster, JSON.stringify(fields))));

    /**
     * Sends a message to the message group of a lane of pods.
     * @returns the queue's message id
     */
    async function send(body: string): Promise<string> {
      const to = {
        QueueUrl: deployed.local.queueUrls.deltas,
        MessageGroupId: `${deployed.local.cluster}.pods.0`,
        MessageDeduplicationId: createHash("sha256").update(body).digest("hex"),
      };
      return (await deployed.sqs.send(new SendMessageCommand({ ...to, MessageBody: body }))).MessageId ?? "";
    }
  });
}

/** A Deployment without pods. */
function emptyDeployment(app: string): object {
  const template = { metadata: { labels: { app } }, spec: { containers: [{ name: "main", image: "shop:1" }] } };
  return { replicas: 0, selector: { matchLabels: { app } }, template };
}

/** Returns the process ids of all function processes in the log. */
function environments(log: string): readonly number[] {
  return [...log.matchAll(/environment started, pid (\d+)/g)].map(([, pid]) => Number(pid));
}
