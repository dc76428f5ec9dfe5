import type { KubeHttpConfig } from "@deltaloop/kube/http";
import { createKubeHttp } from "@deltaloop/kube/http";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { runScriptedNodes } from "@deltaloop/api-server";
import { printable } from "@deltaloop/base/output";
import { messageOf } from "@deltaloop/kube/objects";

/** Scripted nodes against a real API server, until `signal` aborts; logs their failure. */
export function startNodes(access: KubeHttpConfig, count: number, bindPods: boolean, signal: AbortSignal): void {
  const kube = createKubeHttp({ ...access, userAgent: "deltaloop-nodes" });
  const running = runScriptedNodes(kube, { count, clock: createSystemClock(), random: createSystemRandom(), bindPods }, signal);
  running.catch((error: unknown) => {
    if (!signal.aborted) process.stderr.write(`deltaloop: the scripted nodes failed: ${printable(messageOf(error))}\n`);
  });
}
