/**
 * The whole system on memory adapters: an API server, the watcher, and the deployed handlers behind the delta queue, its dead-letter queue
 * and the doorbells. The attacker holds `sqs:SendMessage` on the delta queue and its dead-letter queue, has seen genuine messages, and has
 * no MAC key.
 */
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createMemoryData } from "../../shared/store/memory/store/data.ts";
import { createMemoryDeltaQueue } from "../../shared/store/memory/queue/delta-queue.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { SIGNATURE_CHARACTERS } from "../../shared/store/signer.ts";
import type { CachedResource } from "../../shared/kube/objects/resources.ts";
import { createApiServer } from "../../shared/api-server/api-server.ts";
import { assembleSystem, memoryBackend } from "../../shared/local/assemble-system.ts";
import type { QueueEntry } from "../../shared/store/ports/delta-queue.ts";
import { createSimulatedKube } from "../simulation/kube.ts";
import { envelopeOf, testSigner } from "../support/signer.ts";
import { recordingLog } from "../unit/recording-log.ts";

export const CLUSTER = "5d3f00aa11bb";

/** Starts the system; resolves when everything is listed and all gates are open. */
export async function startQ1Rig() {
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const random = createSeededRandom(1);
  const server = createApiServer({ clock, random: createSeededRandom(2) });
  const data = createMemoryData();
  const digester = createDigester("a digest key of tests");
  const backend = memoryBackend({ clock, random, digester, deployment: "test", cluster: CLUSTER, data });
  const { store, queue } = backend;
  const deadLetters = createMemoryDeltaQueue({ clock, random });
  const log = recordingLog();
  const kube = (component: string) => createSimulatedKube({ server, clock, random, component, faults: () => ({ api: 0, watch: 0 }) });
  const sent: QueueEntry[] = [];
  const writes: string[] = [];
  server.onRequest(({ userAgent, verb, resource, name }) => {
    if (userAgent.includes("replicaset") && verb !== "get" && verb !== "list") writes.push(`${verb} ${resource} ${name}`);
  });

  const tee = { send: (entries: readonly QueueEntry[]) => (sent.push(...entries), queue.send(entries)) };
  const sources = { ...backend.sources, deadDeltas: deadLetters };
  const { handlers } = assembleSystem(
    { clock, random, digester, signer: testSigner(CLUSTER), log, ...backend, queue: tee, sources, kube, functions: functionHandlers },
    { cluster: CLUSTER, clusterUid: "cluster", lease: { namespace: "kube-system", name: "deltaloop-watcher" } },
  );

  const create = async (path: string, body: object): Promise<void> => {
    const { status } = await server.request({ method: "POST", path, body: JSON.stringify(body) });
    if (status !== 201) throw new Error(`POST ${path}: ${status}`);
  };
  await create("/api/v1/namespaces", { metadata: { name: "shop" } });
  const pods = () => data.epoch?.resources.get("pods");
  const rig = {
    clock,
    log,
    store,
    queue,
    deadLetters,
    handlers,
    /** The watcher's messages, which the attacker has read. */
    sent,
    /** The ReplicaSet controller's requests to the API server, without reads. */
    writes,
    fence: () => pods()?.fence ?? "",
    watermarks: () => (pods()?.lanes ?? []).map(({ watermark }) => watermark),
    cached: (resource: CachedResource = "pods") =>
      (data.epoch?.resources.get(resource)?.lanes ?? []).flatMap(({ rows }) => [...rows.keys()]).toSorted(),
    gateIsOpen: async () => (await store.gate("replicaset")).open,
    createPod: (name: string) =>
      create("/api/v1/namespaces/shop/pods", {
        metadata: { name, labels: { app: "vault" } },
        spec: { containers: [{ name: "c", image: "i" }] },
      }),
    get: async (path: string) => (await server.request({ method: "GET", path })).status,
    pass: async (ms: number) => {
      for (let left = ms; left > 0; left -= 250) await clock.advance(Math.min(left, 250));
    },
    /** Returns the head of the next message in the lane of `resource`. */
    nextHead: (resource: CachedResource, lane: number) => {
      const last = sent
        .map(({ body }) => envelopeOf(body))
        .findLast(({ r, ln, f }) => r === resource && ln === lane && f === rig.fenceOf(resource));
      if (!last) throw new Error(`nothing was sent to lane ${lane} of ${resource}`);
      const { v, c, r, e, f, ln, sq } = last;
      return { v, c, r, e, f, ln, sq: sq + 1, ts: clock.now() };
    },
    fenceOf: (resource: CachedResource) => data.epoch?.resources.get(resource)?.fence ?? "",
    /** Sends a message to the delta queue, as any client with that permission can. */
    inject: (group: string, body: string, id = `injected-${++injected}`) => queue.send([{ group, id, body }]),
  };
  let injected = 0;
  await rig.pass(3_000);
  if (!(await rig.gateIsOpen())) throw new Error("the gate is closed");
  return rig;
}

/** Returns forgeries of a text without a key: bare, in a frame, and with the signature of another text. */
export function disguises(text: string, genuine: string): readonly string[] {
  const signature = genuine.slice(CLUSTER.length + 1, CLUSTER.length + 1 + SIGNATURE_CHARACTERS);
  return [text, `${CLUSTER}.${"A".repeat(SIGNATURE_CHARACTERS)}.${text}`, `${CLUSTER}.${signature}.${text}`];
}

/** Descriptions of the forgeries with their index in `disguises`, for tables. */
export const DISGUISES = [
  { name: "without a signature", index: 0 },
  { name: "with a guessed signature", index: 1 },
  { name: "with the signature of another message", index: 2 },
] as const;
