/** The function host of user controllers, without processes. Catches: a loop that stops other keys, and a key that hangs with a dead host. */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { ownHosts } from "../../../cli/own/functions.ts";
import type { FromHost, ToHost } from "../../../cli/own/messages.ts";
import type { MessagingChild } from "../../../shared/local/processes.ts";
import { Pod } from "../../../shared/sdk/kinds.ts";
import { defineController } from "../../../shared/sdk/index.ts";
import { silentLog } from "../../support/silent-log.ts";

const { definition } = defineController({ name: "c", for: Pod, concurrency: 2, sync: () => undefined });

/** A host whose code is `behave`; `hangs`: it never answers again, like a process in an endless loop. */
function child(behave: (message: ToHost) => FromHost | "hangs" | undefined): MessagingChild & { readonly seen: string[]; die(): void } {
  const exited = Promise.withResolvers<{ code: number | null; signal: NodeJS.Signals | null }>();
  const seen: string[] = [];
  let hear: (message: unknown) => void = () => undefined;
  let isHanging = false;
  const die = (): void => exited.resolve({ code: null, signal: "SIGKILL" });
  return {
    pid: 1,
    seen,
    die,
    kill: die,
    exited: exited.promise,
    onMessage(listener) {
      hear = listener;
      queueMicrotask(() => hear({ kind: "ready" }));
    },
    send(message) {
      if (isHanging) return;
      const sent = message as ToHost; // of the host
      if (sent.kind === "sync") {
        seen.push(sent.key);
        hear({ kind: "runs", id: sent.id });
      }
      const answer = behave(sent);
      if (answer === "hangs") isHanging = true;
      else if (answer) queueMicrotask(() => hear(answer));
    },
  };
}

function scene() {
  const clock = createVirtualClock(0);
  const children: ReturnType<typeof child>[] = [];
  const hosts = ownHosts([definition], {
    clock,
    log: silentLog,
    start() {
      const started = child((message) => {
        if (message.kind !== "sync" || message.key === "a/slow") return undefined;
        return message.key === "a/loop" ? "hangs" : { kind: "returned", id: message.id, result: message.key };
      });
      children.push(started);
      return started;
    },
  });
  const sync = (key: string): Promise<unknown> =>
    hosts.sync({
      controller: "c",
      key,
      snapshot: { object: { apiVersion: "v1", kind: "Pod", metadata: { name: "x" } }, owned: [], watched: [] },
      nowMs: 0,
      live: () => Promise.resolve(undefined),
    });
  return { clock, children, sync };
}

describe("the function host of user controllers", () => {
  it("kills a sync after 60 s with its host, and runs its key in a second host from then on", async () => {
    const { clock, children, sync } = scene();
    const [loop, behind] = [sync("a/loop").catch(String), sync("a/other").catch(String)];
    await clock.advance(60_000);
    expect(await loop).toContain("sync did not end within 60 s");
    expect(await behind).toContain("the function host ended (SIGKILL)");
    await clock.advance(1_000);
    const again = sync("a/loop").catch(String);
    expect(await sync("a/other")).toBe("a/other");
    expect(children.map(({ seen }) => seen)).toEqual([["a/loop", "a/other"].slice(0, 1), ["a/other"], ["a/loop"]]);
    await clock.advance(60_000);
    expect(await again).toContain("sync did not end within 60 s");
  });

  it("blames the key whose code never returns, not an earlier key that it kept from ending in time", async () => {
    const { clock, sync } = scene();
    const slow = sync("a/slow").catch(String);
    await clock.advance(30_000);
    const loop = sync("a/loop").catch(String);
    await clock.advance(30_000);
    expect(await loop).toContain("sync did not end within 60 s");
    expect(await slow).toContain("the function host ended (SIGKILL)");
  });

  it("fails running syncs when the host exits, and restarts the host after a second", async () => {
    const { clock, children, sync } = scene();
    const loop = sync("a/loop").catch(String);
    await clock.advance(1);
    children[0]?.die();
    expect(await loop).toBe("Error: the function host ended (SIGKILL)");
    await clock.advance(1_000);
    expect(await sync("a/other")).toBe("a/other");
    expect(children).toHaveLength(2);
  });
});
