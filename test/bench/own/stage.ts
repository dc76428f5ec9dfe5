/** A real API server, a redis-server and user controllers whose `sync` runs in a function host, for the benchmark `own`. */
import { Redis } from "ioredis";
import { Website } from "../../../examples/website/website.ts";
import { ownHosts } from "../../../cli/own/functions.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { isAlreadyExists } from "../../../shared/kube/client/errors.ts";
import type { Kube } from "../../../shared/kube/client/kube.ts";
import { createKubeHttp } from "../../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../../shared/kube/kubeconfig/kubeconfig.ts";
import type { MessagingChild } from "../../../shared/local/processes.ts";
import { crdManifest } from "../../../shared/sdk/definitions.ts";
import type { Controller } from "../../../shared/sdk/index.ts";
import { createRedisStore } from "../../../shared/store/redis/redis-store.ts";
import { startControlPlane } from "../../envtest/control-plane.ts";
import type { ControlPlane } from "../../envtest/control-plane.ts";
import { counting } from "../../harness/own/counting.ts";
import { startFunctionHost } from "../../harness/own/function-host.ts";
import { startOwnSystem } from "../../harness/own/system.ts";
import type { OwnSystem } from "../../harness/own/system.ts";
import { eventually } from "../../support/eventually.ts";
import { rawClientAt } from "../../support/raw-client.ts";
import type { RawClient } from "../../support/raw-client.ts";
import { startRedis } from "../../support/redis.ts";
import { silentLog } from "../../support/silent-log.ts";

/** Concurrent invocations, as in `dev`. */
const INVOCATIONS = 10;
const NO_LIMITS = { qps: 5_000, burst: 5_000 };
export const WEBSITES = "/apis/demo.example.com/v1/namespaces/default/websites";

export interface OwnStage {
  readonly user: RawClient;
  /** PIDs by name, without this process and the function host. */
  pids(): Readonly<Record<string, number>>;
  /** Starts controllers on an empty Store; `file` is the module that exports them. */
  start(controllers: readonly Controller[], file: string): Promise<RunningOwn>;
  stop(): Promise<void>;
}

export interface RunningOwn extends OwnSystem {
  /** Requests of the functions and Redis commands of their Store since `reset`. */
  readonly counts: { requests: number; commands: number };
  reset(): void;
  /** Resolves with the time (`performance.now()`) of the response to a function's write, such as `create services a`. */
  answered(write: string): Promise<number>;
  /** Bytes of all keys and their names, without scripts and connections. */
  storeBytes(): Promise<number>;
  readonly hostPid: number;
}

/** @throws {Error} if this machine has no control plane (see test/envtest) */
export async function startOwnStage(): Promise<OwnStage> {
  const plane = await startControlPlane({ controllers: "accounts", kubeApi: NO_LIMITS });
  const redis = await startRedis();
  const user = await rawClientAt(plane.adminKubeconfig, "bench");
  await user.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crdManifest(Website.data));
  await eventually("Websites are served", () => user.list(WEBSITES).then(() => true));
  return {
    user,
    pids: () => ({ ...plane.pids(), "redis-server": redis.pid }),
    start: (controllers, file) => run(plane, redis.url, controllers, file),
    async stop() {
      await redis.stop();
      await plane.stop();
    },
  };
}

async function run(plane: ControlPlane, redisUrl: string, controllers: readonly Controller[], file: string): Promise<RunningOwn> {
  const redis = new Redis(redisUrl);
  await redis.flushall();
  const counts = { requests: 0, commands: 0 };
  const answers = new Map<string, PromiseWithResolvers<number>>();
  const answerOf = (write: string): PromiseWithResolvers<number> => {
    const answer = answers.get(write) ?? Promise.withResolvers<number>();
    answers.set(write, answer);
    return answer;
  };
  const access = await kubeHttpConfigFrom(plane.adminKubeconfig, { component: "own" });
  const kube = (component: string): Kube => {
    const plain = createKubeHttp({ ...access, component });
    if (!component.startsWith("sync-")) return plain;
    const counted = counting(plain, ["get", "list", "create", "patch", "delete"], () => counts.requests++);
    return {
      ...counted,
      async create(request) {
        const exists = (): void => answerOf(`create ${request.resource} ${nameOf(request.body)}`).resolve(performance.now());
        try {
          const object = await counted.create(request);
          exists();
          return object;
        } catch (error) {
          if (isAlreadyExists(error)) exists(); // the response to an earlier create was lost
          throw error;
        }
      },
      async patch(request) {
        const object = await counted.patch(request);
        const { resource, subresource, name } = request;
        const [plural = ""] = resource.split("."); // a resource that is not in RESOURCES has its version and group appended
        answerOf(`patch ${subresource === undefined ? plural : `${plural}/${subresource}`} ${name}`).resolve(performance.now());
        return object;
      },
    };
  };
  let host: MessagingChild | undefined;
  const hosts = ownHosts({ start: () => (host = startFunctionHost([file])), clock: createSystemClock(), log: silentLog });
  (await hosts.load()).use();
  const system = await startOwnSystem({
    ...{ controllers, kube, functions: hosts, concurrency: INVOCATIONS },
    makeStore: (options) => createRedisStore(redis, options),
    // The applier also handles heartbeats, at its own times.
    functionStore: (store) => {
      const names = Object.keys(store).filter((name) => name !== "applyPack") as (keyof typeof store)[]; // keys of the Store itself
      return counting(store, names, () => counts.commands++);
    },
  });
  return {
    ...system,
    counts,
    reset: () => void Object.assign(counts, { requests: 0, commands: 0 }),
    answered: (write) => answerOf(write).promise,
    storeBytes: () => bytesOf(redis),
    hostPid: host?.pid ?? Number.NaN,
    async stop() {
      await system.stop();
      hosts.stop();
      redis.disconnect();
    },
  };
}

async function bytesOf(redis: Redis): Promise<number> {
  const usages = (await redis.keys("*")).map((key) => redis.memory("USAGE", key, "SAMPLES", 0));
  return (await Promise.all(usages)).reduce<number>((sum, bytes) => sum + Number(bytes), 0);
}

function nameOf(body: object): string | undefined {
  return (body as { readonly metadata?: { readonly name?: string } }).metadata?.name; // the body is a JSON object
}
