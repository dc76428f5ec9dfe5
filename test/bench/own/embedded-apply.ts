/** The call that user controllers mostly wait for, on the in-memory API server: a server-side apply of a Deployment, as they send it. */
import { createApiServer } from "../../../shared/api-server/api-server.ts";
import { createSystemClock } from "../../../shared/base/system/clock.ts";
import { createSystemRandom } from "../../../shared/base/system/random.ts";
import type { BenchResult } from "../result.ts";
import { benchResult } from "../result.ts";

const WARM_UP_APPLIES = 200;
const APPLIES = 1_000;
const LIMIT_MS = 1;

/** Measures the duration of one apply. */
export async function embeddedApplies(): Promise<readonly BenchResult[]> {
  const server = createApiServer({ clock: createSystemClock(), random: createSystemRandom(), managedFields: true });
  const times: number[] = [];
  for (let i = -WARM_UP_APPLIES; i < APPLIES; i += 1) {
    const body = deploymentText(i);
    const start = performance.now();
    const answer = await server.request({
      method: "PATCH",
      path: "/apis/apps/v1/namespaces/default/deployments/web",
      query: { fieldManager: "deltaloop-website", fieldValidation: "Strict", force: true },
      headers: { "content-type": "application/apply-patch+yaml" },
      body,
    });
    if (answer.status > 201) throw new Error(JSON.stringify(answer));
    if (i >= 0) times.push(performance.now() - start);
  }
  server.close();
  return [benchResult("server-side apply of a Deployment (embedded server)", "ms", times, { name: "1 ms", value: LIMIT_MS })];
}

/** Each Deployment differs from the previous one in its size and image. */
function deploymentText(i: number): string {
  const app = { app: "web" };
  const env = Array.from({ length: 5 }, (_, n) => ({ name: `VARIABLE_${n}`, value: `${n}` }));
  const container = { name: "web", image: `nginx:${i + WARM_UP_APPLIES}`, env, ports: [{ containerPort: 80 }] };
  return JSON.stringify({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web", labels: app },
    spec: {
      replicas: Math.abs(i % 5),
      selector: { matchLabels: app },
      template: { metadata: { labels: app }, spec: { containers: [container] } },
    },
  });
}
