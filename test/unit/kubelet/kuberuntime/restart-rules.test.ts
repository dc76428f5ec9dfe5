// Would catch: a container that is restarted by its own rule but whose probe ended with the previous instance, or whose pod counts as
// completed.
import { expect, test } from "vitest";
import type { ProbeOutcome } from "../../../../shared/node-agent/ports/prober.ts";
import { startedNode } from "../../../harness/node/node.ts";

const SECONDS = 1_000;
const MATCHING = [{ action: "Restart", exitCodes: { operator: "In", values: [42] } }];

test.each([
  { rules: MATCHING, restarts: true },
  { rules: [{ action: "Restart", exitCodes: { operator: "NotIn", values: [42] } }], restarts: false },
])(
  "under Never, a container that exits with 42 is restarted if its restart rule matches that code: $restarts",
  async ({ rules, restarts }) => {
    const ok = (): Promise<ProbeOutcome> => Promise.resolve({ result: "Success", output: "" });
    const node = await startedNode({
      prober: { httpGet: ok, tcpSocket: ok, grpcHealth: ok },
      images: { "ends:1": { exitAfterMs: 10 * SECONDS, exitCode: 42 } },
    });
    const readinessProbe = { tcpSocket: { port: 80 }, periodSeconds: 1 };
    const app = { name: "app", image: "ends:1", restartPolicy: "Never", restartPolicyRules: rules, readinessProbe };
    await node.create("p", { restartPolicy: "Never", containers: [app] });
    await node.until("ready", () => node.isReady("p"));
    await node.until("not ready", () => !node.isReady("p"));
    if (restarts) await node.until("ready again", () => node.isReady("p"));
    else await node.advance(60 * SECONDS);
    const { containerStatuses: [status] = [], phase } = node.pod("p")?.status ?? {};
    expect((status?.restartCount ?? 0) > 0).toBe(restarts);
    expect(phase).toBe(restarts ? "Running" : "Failed");
  },
);
