import type { KubeHttpConfig } from "../../shared/adapters/kube-http/config.ts";
import { createSystemClock } from "../../shared/adapters/system/clock.ts";
import { createSystemRandom } from "../../shared/adapters/system/random.ts";
import { createKubeClient } from "../../shared/local/scripted-nodes/kube-client.ts";
import { runScriptedNodes } from "../../shared/local/scripted-nodes/scripted-nodes.ts";
import { printable } from "./printable.ts";

/** Scripted nodes against a real API server, until `signal` aborts; their failure ends the process by name. */
export async function startNodes(access: KubeHttpConfig, count: number, bindPods: boolean, signal: AbortSignal): Promise<void> {
  const { server, ca, cert, key, insecure } = access;
  const token = await access.token?.();
  const client = createKubeClient(
    {
      server,
      ...(ca !== undefined && { ca }),
      ...(cert !== undefined && { cert }),
      ...(key !== undefined && { key }),
      ...(token !== undefined && { token }),
      ...(insecure !== undefined && { insecureSkipTlsVerify: insecure }),
    },
    { userAgent: "deltaloop-nodes" },
  );
  const running = runScriptedNodes(client, { count, clock: createSystemClock(), random: createSystemRandom(), bindPods }, signal);
  running.catch((error: unknown) => {
    if (!signal.aborted)
      process.stderr.write(`deltaloop: the scripted nodes ended: ${printable(error instanceof Error ? error.message : String(error))}\n`);
  });
}
