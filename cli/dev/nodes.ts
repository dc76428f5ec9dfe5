import type { KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";
import { createKubeHttp } from "../../shared/adapters/kube-http/kube-http.ts";
import { createSystemClock } from "../../shared/adapters/system/clock.ts";
import { createSystemRandom } from "../../shared/adapters/system/random.ts";
import { runScriptedNodes } from "../../shared/local/scripted-nodes/scripted-nodes.ts";
import { printable } from "../output/printable.ts";
import { messageOf } from "../../shared/api/errors.ts";

/** Scripted nodes against a real API server, until `signal` aborts; their failure is told by name. */
export function startNodes(access: KubeHttpConfig, count: number, bindPods: boolean, signal: AbortSignal): void {
  const kube = createKubeHttp({ ...access, userAgent: "deltaloop-nodes" });
  const running = runScriptedNodes(kube, { count, clock: createSystemClock(), random: createSystemRandom(), bindPods }, signal);
  running.catch((error: unknown) => {
    if (!signal.aborted) process.stderr.write(`deltaloop: the scripted nodes ended: ${printable(messageOf(error))}\n`);
  });
}
