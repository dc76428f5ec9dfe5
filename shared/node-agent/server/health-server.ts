/**
 * Serves `/healthz` to a supervisor on the same machine, without TLS and authentication (node-agent §15). Retries while its port is in use.
 *
 * Source: cmd/kubelet/app/server.go RunKubelet.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock, Log } from "@deltaloop/base";
import { answer } from "./answer.ts";
import { healthz } from "./health.ts";

const RETRY_MS = 5_000;

export interface HealthServerOptions {
  readonly host: string;
  readonly port: number;
  readonly lastLoopMs: () => number;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when the server has started to listen. */
  readonly onListening?: (port: number) => void;
}

/** Runs until `signal` aborts. */
export async function runHealthServer(options: HealthServerOptions, signal: AbortSignal): Promise<void> {
  const { host, port, lastLoopMs, clock, log } = options;
  const server = createServer((request, response) => {
    const url = URL.canParse(`http://node${request.url}`) ? new URL(`http://node${request.url}`) : undefined;
    const [, first, check, ...more] = url?.pathname.split("/") ?? [];
    if (url === undefined || first !== "healthz" || more.length > 0) return answer(response, 404, "404 page not found\n");
    if (request.method !== "GET" && request.method !== "HEAD") return answer(response, 405, "405: Method Not Allowed");
    const state = { query: url.searchParams, nowMs: clock.now(), lastLoopMs: lastLoopMs() };
    healthz(response, { ...state, ...(check !== undefined && check !== "" && { check }) });
  });
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  for (let isLogged = false; !signal.aborted;) {
    const listened = Promise.withResolvers<Error | undefined>();
    const listens = (): void => listened.resolve(undefined);
    server.once("error", listened.resolve).once("listening", listens);
    server.listen(port, host);
    const failed = await listened.promise;
    server.off("error", listened.resolve).off("listening", listens);
    if (failed === undefined) {
      server.on("error", (error) => log.warn("health server error", { error: error.message }));
      options.onListening?.((server.address() as AddressInfo).port); // a TCP server has an AddressInfo
      await ended;
      break;
    }
    if (!isLogged) log.warn("failed to listen on the health port, retrying", { host, port, error: failed.message });
    isLogged = true;
    await clock.after(RETRY_MS, signal).catch(() => undefined);
  }
  if (!server.listening) return;
  const closed = new Promise((resolve) => server.close(resolve));
  server.closeAllConnections();
  await closed;
}
