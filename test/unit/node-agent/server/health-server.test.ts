/**
 * Would catch: an agent that exits because its health port is in use, an agent that never binds the port later, and an unhealthy agent that
 * reports that it is healthy.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { expect, it } from "vitest";

import { runHealthServer } from "../../../../shared/node-agent/server/health-server.ts";
import { recordingLog } from "../../recording-log.ts";

it("[node-agent 307] serves health on its own port, and waits while the port is in use", async () => {
  const other = createServer();
  await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
  const { port } = other.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const [log, ends, listening] = [recordingLog(), new AbortController(), Promise.withResolvers<number>()];
  let [now, waits] = [1_000_000, 0];
  const warned: string[] = [];
  const warn = ({ message }: Error): void => void warned.push(message);
  process.on("warning", warn);
  const clock = {
    now: () => now,
    after: async (ms: number) => {
      expect(ms).toBe(5_000);
      if (++waits === 12) await new Promise((resolve) => other.close(resolve));
    },
  };
  const server = { host: "127.0.0.1", port, lastLoopMs: () => 1_000_000, clock, log, onListening: listening.resolve };
  const running = runHealthServer(server, ends.signal);
  const address = `http://127.0.0.1:${await listening.promise}`;
  const ask = async (path: string, method = "GET"): Promise<readonly [number, string]> => {
    const answer = await fetch(`${address}${path}`, { method });
    return [answer.status, await answer.text()];
  };
  expect(log.lines.filter(({ level }) => level === "warn")).toHaveLength(1);
  expect(await ask("/healthz")).toEqual([200, "ok"]);
  expect(await ask("/healthz/ping")).toEqual([200, "ok"]);
  expect((await ask("/healthz/none"))[0]).toBe(404);
  expect((await ask("/pods"))[0]).toBe(404);
  expect((await ask("/healthz", "POST"))[0]).toBe(405);
  now += 6 * 60_000;
  expect(await ask("/healthz/syncloop")).toEqual([500, "internal server error: sync Loop took longer than expected\n"]);
  ends.abort();
  await running;
  process.off("warning", warn);
  expect(warned).toEqual([]); // no warning about leaked event listeners
  await expect(fetch(`${address}/healthz`)).rejects.toThrow();
});
