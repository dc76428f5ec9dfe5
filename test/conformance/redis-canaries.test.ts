/**
 * Checks that no secret leaves the API server: plants canaries wherever users and tools store secrets, and searches every text that the
 * whole system sends on a real Redis and fauxqs. Also checks that writes to the API server are complete.
 */
import { Socket } from "node:net";

import { Redis } from "ioredis";
import { afterEach, expect, it, vi } from "vitest";

import { describeTrace } from "../../cli/explain/describe.ts";
import { startEmbedded } from "../../cli/dev/embedded.ts";
import type { Embedded } from "../../cli/dev/embedded.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { CACHED_RESOURCES } from "../../shared/kube/objects/resources.ts";
import { recordingWatch } from "../../shared/replay/capture-format/recorder.ts";
import { bodyText, canary, canaryAnnotations, canaryContainer, CHANGE_CAUSE, DENIAL, found, FOREIGN } from "../support/canaries.ts";
import { ensureRedisServer } from "../support/redis.ts";
import { recordingLog } from "../unit/recording-log.ts";
import { rawClientIn } from "../support/raw-client.ts";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments";
const REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets";
const CORE = "/api/v1/namespaces/default";
const MERGE = "application/merge-patch+json";
const EVENTUALLY = { timeout: 30_000, interval: 50 };
vi.setConfig({ testTimeout: 120_000 });

interface Live {
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly status?: { readonly availableReplicas?: number; readonly conditions?: readonly { readonly message?: string }[] };
}

const reason = ensureRedisServer();
const ends = new AbortController();
let embedded: Embedded | undefined;
afterEach(async () => {
  ends.abort();
  await embedded?.stop();
  vi.restoreAllMocks();
});

it.skipIf(reason !== undefined)(`no canary value appears outside the API server${reason === undefined ? "" : ` (${reason})`}`, async () => {
  const [queued, stored, traced, captured] = [tapQueues(), tapRedis(), [] as string[], [] as string[]];
  const log = recordingLog();
  const system = await startEmbedded({
    log,
    nodes: 1,
    pace: { readyAfterMs: [0, 0], deleteAfterMs: [0, 0] },
    trace: (line) => void traced.push(describeTrace(line), JSON.stringify(line)),
  });
  embedded = system;
  denyPodsOf(system, "denied");
  const person = rawClientIn(system.server);
  const list = async (path: string) => (await person.list<Live>(path)).items;
  await system.ready();

  await person.request("POST", `${CORE}/secrets`, {
    metadata: { name: "token" },
    stringData: { token: canary("secret") },
    data: { t: btoa(canary("secret")) },
  });
  await person.request("POST", `${CORE}/configmaps`, { metadata: { name: "settings" }, data: { url: canary("configmap") } });
  for (const name of ["web", "denied"]) await person.request("POST", DEPLOYMENTS, deployment(name));
  await person.request("POST", `${CORE}/replicationcontrollers`, replicationController());
  const web = async () => await person.request<Live>("GET", `${DEPLOYMENTS}/web`);
  const rsOf = async (name: string) => (await list(REPLICA_SETS)).filter(({ metadata }) => metadata.name.startsWith(`${name}-`));
  await vi.waitFor(async () => expect((await web()).status?.availableReplicas).toBe(2), EVENTUALLY);

  // The API server has all objects as upstream would write them.
  const [first] = await rsOf("web");
  const { "kubectl.kubernetes.io/last-applied-configuration": _lastApplied, ...copied } = canaryAnnotations();
  expect(first?.metadata.annotations).toMatchObject(copied);
  expect(first?.metadata.annotations).not.toHaveProperty(["kubectl.kubernetes.io/last-applied-configuration"]);
  expect(JSON.stringify(await list(`${CORE}/pods`))).toContain(canary("env"));
  await vi.waitFor(async () => expect((await rsOf("denied"))[0]?.status?.conditions?.[0]?.message).toBe(DENIAL), EVENTUALLY);

  // Changes an annotation and the template, and adds another client's condition, which status writes must preserve.
  const again = `again ${canary("cause")}`;
  await person.request("PATCH", `${DEPLOYMENTS}/web`, { metadata: { annotations: { [CHANGE_CAUSE]: again } } }, MERGE);
  await vi.waitFor(async () => expect((await rsOf("web"))[0]?.metadata.annotations?.[CHANGE_CAUSE]).toBe(again), EVENTUALLY);
  const { status } = await web();
  const foreign = { type: "Foreign", status: "True", reason: "Seen", message: FOREIGN };
  await person.request("PATCH", `${DEPLOYMENTS}/web/status`, { status: { conditions: [...(status?.conditions ?? []), foreign] } }, MERGE);
  await person.request("PATCH", `${DEPLOYMENTS}/web`, { spec: { template: template("web", "shop:2") } }, MERGE);
  await vi.waitFor(async () => expect(await rsOf("web")).toHaveLength(2), EVENTUALLY);
  await vi.waitFor(
    async () => expect((await web()).status).toMatchObject({ updatedReplicas: 2, replicas: 2, availableReplicas: 2 }),
    EVENTUALLY,
  );
  expect((await web()).status?.conditions).toContainEqual(expect.objectContaining(foreign));
  await capture(system.url, captured);

  const events = (await list(`${CORE}/events`)).map((event) => JSON.stringify(event));
  expect([system.storeName, queued.length > 10, stored.length > 100, traced.length > 10, captured.length > 10, events.length > 5]).toEqual([
    "redis-server",
    ...Array.from({ length: 5 }, () => true),
  ]);
  expect({
    queued: found(queued, { cached: true }),
    stored: found(stored, { cached: true }),
    logged: found(log.lines.map((line) => JSON.stringify(line))),
    traced: found(traced),
    captured: found(captured),
    // Our Event quotes the webhook, as upstream's does.
    events: found(events),
  }).toEqual({ queued: [], stored: [], logged: [], traced: [], captured: [], events: ["CANARY-denial"] });
  // The denied create is logged; a status was cached with the condition message that it must preserve.
  expect(log.lines.map(({ fields }) => fields["reason"])).toContain("403 Forbidden");
  expect(found(stored)).toEqual(["CANARY-denial", "CANARY-foreign"]);
});

const template = (name: string, image: string): object => ({
  metadata: { labels: { app: name }, annotations: canaryAnnotations() },
  spec: { containers: [canaryContainer("main", image)] },
});

const deployment = (name: string): object => ({
  apiVersion: "apps/v1",
  kind: "Deployment",
  metadata: { name, annotations: canaryAnnotations() },
  spec: { replicas: 2, selector: { matchLabels: { app: name } }, template: template(name, "shop:1") },
});

const replicationController = (): object => ({
  apiVersion: "v1",
  kind: "ReplicationController",
  metadata: { name: "rc", annotations: canaryAnnotations() },
  spec: { replicas: 1, selector: { app: "rc" }, template: template("rc", "shop:1") },
});

/** Rejects pods as a validating webhook would; the in-memory API server has no webhooks. */
function denyPodsOf({ server }: Embedded, app: string): void {
  const request = server.request.bind(server);
  vi.spyOn(server, "request").mockImplementation(async (asked) => {
    const denied = asked.method === "POST" && asked.path.endsWith("/pods") && String(asked.body).includes(`"app":"${app}"`);
    if (!denied) return request(asked);
    const body = { apiVersion: "v1", kind: "Status", metadata: {}, status: "Failure", code: 403, reason: "Forbidden", message: DENIAL };
    return { kind: "object", status: 403, headers: { "content-type": "application/json" }, body };
  });
}

/** Records the bodies of all messages as they leave the process, for every client. */
function tapQueues(): readonly string[] {
  const bodies: string[] = [];
  const write = Socket.prototype.write;
  vi.spyOn(Socket.prototype, "write").mockImplementation(function (this: Socket, ...args: Parameters<typeof write>) {
    const [head, body] = String(args[0]).split("\r\n\r\n", 2);
    if (body !== undefined && /^x-amz-target: AmazonSQS\.SendMessage/im.test(head ?? "")) bodies.push(...messagesIn(body));
    return write.apply(this, args);
  });
  return bodies;
}

function messagesIn(request: string): readonly string[] {
  // the body of SendMessage or SendMessageBatch
  const { MessageBody, Entries = [] } = JSON.parse(request) as { MessageBody?: string; Entries?: readonly { MessageBody: string }[] };
  return [...(MessageBody === undefined ? [] : [MessageBody]), ...Entries.map((entry) => entry.MessageBody)].map(bodyText);
}

/** Records keys and values of all commands, including the arguments of scripts. */
function tapRedis(): readonly string[] {
  const texts: string[] = [];
  const sendCommand = Redis.prototype.sendCommand;
  vi.spyOn(Redis.prototype, "sendCommand").mockImplementation(function (this: Redis, ...args: Parameters<typeof sendCommand>) {
    for (const arg of args[0].args.flat()) texts.push(String(arg));
    return sendCommand.apply(this, args);
  });
  return texts;
}

/** Runs `deltaloop capture`: one list of everything, and the start of a watch. */
async function capture(server: string, lines: string[]): Promise<void> {
  const kube = recordingWatch(createKubeHttp({ server, component: "watcher" }), {
    write: (line) => lines.push(line),
    clock: createSystemClock(),
    digester: createDigester("a key of this test alone"),
    raw: false,
    server,
  });
  for (const resource of CACHED_RESOURCES) {
    const watching = AbortSignal.any([ends.signal, AbortSignal.timeout(500)]);
    const before = lines.length;
    await kube.listPage(resource, {}, watching);
    const watch = kube.watch(resource, { resourceVersion: "1", allowWatchBookmarks: true, timeoutSeconds: 1 }, watching);
    await (async () => {
      for await (const _ of watch);
    })().catch(() => undefined);
    expect(lines.length - before, resource).toBeGreaterThan(2);
  }
}
