/**
 * The function host of user controllers, without processes. Catches: an endless loop that stops other keys, and a key that never ends
 * because its host has died.
 */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { ownHosts } from "../../../cli/own/functions.ts";
import type { FromHost, ToHost } from "../../../cli/own/messages.ts";
import type { MessagingChild } from "../../../shared/local/processes.ts";
import { Pod } from "../../../shared/sdk/kinds.ts";
import { defineController } from "../../../shared/sdk/index.ts";
import { silentLog } from "../../support/silent-log.ts";

const { definition } = defineController({ name: "c", for: Pod, concurrency: 2, sync: () => undefined });

/** A host that runs `behave`. After `hangs` it never responds, like a process in an endless loop. */
function child(
  behave: (message: ToHost) => FromHost | "hangs" | undefined,
  loads: FromHost = { kind: "loaded", definitions: [definition], files: ["c.ts"] },
): MessagingChild & { readonly seen: string[]; die(): void } {
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
      queueMicrotask(() => hear({ kind: "started" }));
    },
    send(message) {
      if (isHanging) return;
      const sent = message as ToHost; // a message to the host
      if (sent.kind === "load") return queueMicrotask(() => hear(loads));
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

async function scene() {
  const clock = createVirtualClock(0);
  let loads: FromHost | undefined;
  const children: ReturnType<typeof child>[] = [];
  const hosts = ownHosts({
    clock,
    log: silentLog,
    start() {
      const started = child((message) => {
        if (message.kind !== "sync" || message.key === "a/slow") return undefined;
        return message.key === "a/loop" ? "hangs" : { kind: "returned", id: message.id, result: message.key };
      }, loads);
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
  (await hosts.load()).use();
  await clock.advance(1_000);
  const loadNext = (next?: FromHost) => {
    loads = next;
    return hosts.load();
  };
  return { clock, children, sync, loadNext };
}

const toError = (error: unknown): unknown => error;

describe("the function host of user controllers", () => {
  it("kills the host of a sync that runs for 60 s, and from then on runs its key in a second host", async () => {
    const { clock, children, sync } = await scene();
    const [loop, behind] = [sync("a/loop").catch(toError), sync("a/other").catch(toError)];
    await clock.advance(60_000);
    const endless = "sync did not end within 60 s: killed with its function host";
    // Only the key whose code is the cause gets an Event.
    expect(await loop).toMatchObject({ message: endless, summary: endless });
    expect(await behind).toMatchObject({ message: "the function host exited (SIGKILL)", summary: undefined });
    await clock.advance(1_000);
    const again = sync("a/loop").catch(String);
    expect(await sync("a/other")).toBe("a/other");
    expect(children.map(({ seen }) => seen)).toEqual([["a/loop", "a/other"].slice(0, 1), ["a/other"], ["a/loop"]]);
    await clock.advance(60_000);
    expect(await again).toContain("sync did not end within 60 s");
  });

  it("reports a timeout for the key whose code never returns, not for an earlier key that it blocked", async () => {
    const { clock, sync } = await scene();
    const slow = sync("a/slow").catch(String);
    await clock.advance(30_000);
    const loop = sync("a/loop").catch(String);
    await clock.advance(30_000);
    expect(await loop).toContain("sync did not end within 60 s");
    expect(await slow).toContain("the function host exited (SIGKILL)");
  });

  it("fails running syncs when the host exits, and restarts the host after a second", async () => {
    const { clock, children, sync } = await scene();
    const loop = sync("a/loop").catch(String);
    await clock.advance(1);
    children[0]?.die();
    expect(await loop).toBe("Error: the function host exited (SIGKILL)");
    await clock.advance(1_000);
    expect(await sync("a/other")).toBe("a/other");
    expect(children).toHaveLength(2);
  });

  it("keeps the old host while saved files do not load, and reports the problem", async () => {
    const { children, sync, loadNext } = await scene();
    const problem = "c.ts:3: does not load: Expression expected";
    await expect(loadNext({ kind: "unloadable", problem, files: ["c.ts", "lib.ts"] })).rejects.toMatchObject({
      message: problem,
      files: ["c.ts", "lib.ts"],
    });
    expect(await sync("a/other")).toBe("a/other");
    expect(children.map(({ seen }) => seen)).toEqual([["a/other"], []]);
  });

  it("runs later calls in the new host, and kills the old host and its running syncs", async () => {
    const { clock, children, sync, loadNext } = await scene();
    const slow = sync("a/slow").catch(String);
    await clock.advance(1);
    const loaded = await loadNext();
    await sync("a/before");
    loaded.use();
    expect(await sync("a/after")).toBe("a/after");
    expect(children.map(({ seen }) => seen)).toEqual([["a/slow", "a/before"], ["a/after"]]);
    await clock.advance(200);
    expect(await slow).toBe("Error: its files were saved while it ran");
    await clock.advance(10_000);
    expect(children).toHaveLength(2);
  });

  it("runs a key whose sync timed out in the new host after a reload", async () => {
    const { clock, children, sync, loadNext } = await scene();
    const loop = sync("a/loop").catch(String);
    await clock.advance(60_000);
    expect(await loop).toContain("sync did not end within 60 s");
    await clock.advance(1_000);
    (await loadNext()).use();
    void sync("a/loop").catch(String);
    await clock.advance(1);
    expect(children.at(-1)?.seen).toEqual(["a/loop"]);
    expect(children).toHaveLength(3);
  });

  it("reports a file that never finishes loading", async () => {
    const { clock, loadNext } = await scene();
    const loading = loadNext({ kind: "loads", file: "c.ts" }).catch(String);
    await clock.advance(5_000);
    expect(await loading).toContain("c.ts: does not load within 5 s");
  });
});
