/**
 * `on-redis.ts KUBECONFIG REDIS_URL`: runs the examples on a cluster, with the Store of the deployed functions. A test kills this program,
 * its function host, or Redis.
 */
import { Redis } from "ioredis";
import { ownHosts } from "../../cli/own/functions.ts";
import { consoleLog } from "../../shared/base/output.ts";
import { createSystemClock } from "../../shared/base/system/clock.ts";
import { createKubeHttp } from "../../shared/kube/http/kube-http.ts";
import { kubeHttpConfigFrom } from "../../shared/kube/kubeconfig/kubeconfig.ts";
import { createRedisStore } from "../../shared/store/redis/redis-store.ts";
import { startFunctionHost } from "../harness/own/function-host.ts";
import { EXAMPLE_FILES, EXAMPLES } from "../harness/own/scenes.ts";
import { startOwnSystem } from "../harness/own/system.ts";

const RETRY_MS = 50;
const COMMAND_MS_MAX = 2_000;

const [kubeconfig = "", url = ""] = process.argv.slice(2);
const log = consoleLog("deltaloop: ", "info");
const access = await kubeHttpConfigFrom(kubeconfig, { component: "own" });
const redis = new Redis(url, { retryStrategy: () => RETRY_MS, commandTimeout: COMMAND_MS_MAX, maxRetriesPerRequest: 1 });
redis.on("error", () => undefined); // commands report the connection's errors
const functions = ownHosts({ start: () => startFunctionHost(EXAMPLE_FILES), clock: createSystemClock(), log });
(await functions.load()).use();
await startOwnSystem({
  ...{ controllers: EXAMPLES, functions, log },
  kube: (component) => createKubeHttp({ ...access, component }),
  makeStore: (options) => createRedisStore(redis, options),
  lease: { namespace: "kube-system", name: "deltaloop-own" },
});
process.stdout.write("ready: on Redis\n");
