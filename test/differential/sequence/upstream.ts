/** Runs upstream's controllers for a whole history, in a synctest bubble. The clock of their API server follows the bubble's time. */
import { RESOURCES, type CachedResource } from "../../../shared/kube/objects/resources.ts";
import type { WatchStream } from "../../../shared/api-server/rest/watch.ts";
import type { Judge, Told } from "../judge.ts";
import type { Script } from "./script.ts";
import { EXPIRED, START_MS, type Scenario } from "./scenario.ts";

/** Limit of steps at the same virtual time: more writes indicate a loop. */
const STEPS_MAX = 20_000;

export async function playUpstream(scenario: Scenario, script: Script, judge: Judge, patience: number): Promise<void> {
  const { clock, server } = scenario;
  const streams = new Map<CachedResource, WatchStream>();
  const moveTo = async (nowMs: number): Promise<void> => clock.advance(nowMs - clock.now());
  const served: Parameters<Judge["live"]>[0] = {
    async request(request, nowMs) {
      await moveTo(nowMs);
      return await scenario.request(request);
    },
    async watch({ resource, resourceVersion }) {
      const query = { watch: true, timeoutSeconds: 1_000_000, resourceVersion };
      const answer = await server.request({ method: "GET", path: `/${RESOURCES[resource].path}/${resource}`, query });
      if (answer.kind !== "watch") throw new Error("the server returned no watch");
      streams.set(resource, answer.stream);
    },
  };
  const waiting: (Told & { readonly dueMs: number })[] = [];
  const tell = (resource: CachedResource, line: object): void =>
    void waiting.push({ resource, line, dueMs: clock.now() + (resource === "pods" ? script.podsLagMs : 0) });
  const collect = (): void => {
    for (const [resource, stream] of streams) {
      const lines = stream.take();
      if (!scenario.blind.has(resource)) for (const line of lines) tell(resource, line);
    }
  };
  const living = await judge.live(served, {
    controllers: script.controllers,
    nowMs: clock.now(),
    resyncMs: script.resyncMs ?? 0,
    patience,
  });
  const goOnTo = async (untilMs: number): Promise<void> => {
    for (let steps = 0; ; steps++) {
      if (steps > STEPS_MAX) throw new Error("the controllers never become idle");
      collect();
      const due = waiting.filter(({ dueMs }) => dueMs <= clock.now());
      if (due.length === 0 && clock.now() >= untilMs) return;
      for (const told of due) waiting.splice(waiting.indexOf(told), 1);
      const nextMs = Math.min(untilMs, ...waiting.map(({ dueMs }) => dueMs));
      await moveTo(
        await living.step(
          due.map(({ resource, line }) => ({ resource, line })),
          nextMs,
        ),
      );
    }
  };
  for (const act of script.acts) {
    await goOnTo(START_MS + act.atMs);
    collect(); // drops the events so far
    await scenario.act(act);
    if (act.kind === "see") tell(act.resource, EXPIRED);
  }
  await goOnTo(START_MS + script.endMs);
  await living.end();
}
