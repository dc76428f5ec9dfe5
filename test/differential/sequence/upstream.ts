/** Upstream's controllers for a whole life, in the judge's bubble: their API server's clock follows its time. */
import { CACHED_RESOURCES, RESOURCES } from "../../../shared/api/resources.ts";
import type { Judge, Told } from "../judge.ts";
import type { Script } from "./script.ts";
import { START_MS } from "./world.ts";
import type { World } from "./world.ts";

/** Quiet steps in one virtual moment: so many writes at once are a loop. */
const STEPS_MAX = 20_000;

export async function playUpstream(world: World, script: Script, judge: Judge, patience: number): Promise<void> {
  const { clock, server } = world;
  const streams = await Promise.all(
    CACHED_RESOURCES.map(async (resource) => {
      const path = `/${RESOURCES[resource].path}/${resource}`;
      const query = { watch: true, timeoutSeconds: 1_000_000, resourceVersion: server.resourceVersion };
      const answer = await server.request({ method: "GET", path, query });
      if (answer.kind !== "watch") throw new Error("no watch");
      return { resource, stream: answer.stream };
    }),
  );
  const moveTo = async (nowMs: number): Promise<void> => clock.advance(nowMs - clock.now());
  const serve: Parameters<Judge["live"]>[0] = async (request, nowMs) => {
    await moveTo(nowMs);
    await moveTo(nowMs);
    return await world.request(request);
  };
  const waiting: (Told & { readonly dueMs: number })[] = [];
  const collect = (): void => {
    for (const { resource, stream } of streams)
      for (const line of stream.take()) waiting.push({ resource, line, dueMs: clock.now() + (resource === "pods" ? script.podsLagMs : 0) });
  };
  const living = await judge.live(serve, { controllers: script.controllers, nowMs: clock.now(), resyncMs: 0, patience });
  const goOnTo = async (untilMs: number): Promise<void> => {
    for (let steps = 0; ; steps++) {
      if (steps > STEPS_MAX) throw new Error("never quiet");
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
    await world.act(act);
  }
  await goOnTo(START_MS + script.endMs);
  await living.end();
}
