/**
 * The metrics and health server of a process: /metrics, /healthz, /livez and /readyz. Plain HTTP without authentication, on loopback by
 * default, like upstream's.
 *
 * TL1 only GET, and no request changes anything. Responses contain no object names and no text from tenants.
 * TL2 a check that takes longer than 2 s counts as failed, so that probes get a response while Redis hangs.
 */
import { once } from "node:events";
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { PrometheusMetrics } from "@deltaloop/base/prometheus";
import { messageOf } from "@deltaloop/kube/objects";
import type { Log } from "@deltaloop/base";
import { healthAnswer } from "./healthz.ts";
import type { Checked, HealthCheck } from "./healthz.ts";
import { UsageError } from "@deltaloop/base";

export interface MetricsServerOptions {
  /** `host:port`; port 0 selects a free port. */
  readonly listen: string;
  readonly metrics: PrometheusMetrics;
  /** Updates the metrics before each scrape. */
  readonly sample?: () => Promise<void> | void;
  /** Checks whose failure means that the process should be restarted. `healthz` includes livez and readyz. */
  readonly livez: readonly HealthCheck[];
  /** Checks whose failure means that the process currently does not do its work. */
  readonly readyz: readonly HealthCheck[];
  readonly log: Log;
}

export interface MetricsServer {
  /** `http://127.0.0.1:41234` */
  readonly address: string;
  stop(): Promise<void>;
}

/** Default of --metrics. */
export const METRICS_LISTEN = "127.0.0.1:0";
const CHECK_MS_MAX = 2_000;
const PING: HealthCheck = { name: "ping", check: () => Promise.resolve(undefined) };

/** Starts the server. @throws {UsageError} if it cannot listen on the address */
export async function serveMetrics(options: MetricsServerOptions): Promise<MetricsServer> {
  const { host, port } = parseListen(options.listen);
  const server = createServer((request, response) => {
    void answer(options, request.method ?? "GET", request.url ?? "/", response).catch((error: unknown) => {
      options.log.warn("failed to answer a metrics or health request", { error: messageOf(error) });
      send(response, 500, "Internal Server Error\n");
    });
  });
  server.listen(port, host);
  await once(server, "listening").catch((error: unknown) => {
    throw new UsageError(`cannot listen on ${options.listen}: ${messageOf(error)}`);
  });
  server.unref();
  const address = server.address() as AddressInfo; // a TCP server has such an address
  const where = `http://${address.family === "IPv6" ? `[${address.address}]` : address.address}:${address.port}`;
  options.log.info(`metrics and health: ${where}/metrics, ${where}/readyz?verbose`);
  return {
    address: where,
    async stop() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

function parseListen(listen: string): { readonly host: string; readonly port: number } {
  const [, host = "", port = ""] = /^(.*):(\d{1,5})$/.exec(listen) ?? [];
  if (host === "" || Number(port) > 65_535) throw new UsageError(`${listen} is not host:port`);
  return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
}

async function answer(options: MetricsServerOptions, method: string, target: string, response: ServerResponse): Promise<void> {
  if (!URL.canParse(`http://metrics${target}`)) return send(response, 400, "Bad Request\n");
  const { pathname, searchParams } = new URL(`http://metrics${target}`);
  if (method !== "GET") return send(response, 405, "Method Not Allowed\n");
  if (pathname === "/metrics") {
    await limited(Promise.resolve(options.sample?.())).catch((error: unknown) =>
      options.log.debug("failed to update some metrics", { error: messageOf(error) }),
    );
    return send(response, 200, await options.metrics.text(), options.metrics.contentType);
  }
  const [, endpoint = "", name, ...rest] = pathname.split("/");
  const checks = checksOf(options, endpoint);
  if (checks === undefined || rest.length > 0) return send(response, 404, "404 page not found\n");
  const asked = name === undefined ? checks : checks.filter((check) => check.name === name);
  if (asked.length === 0) return send(response, 404, "404 page not found\n");
  const excluded = searchParams.getAll("exclude");
  const checked = await Promise.all(asked.filter((check) => !excluded.includes(check.name)).map(run));
  for (const { name: failed, failure } of checked)
    if (failure !== undefined) options.log.info("health check failed", { endpoint, check: failed, why: failure });
  const names = asked.map((check) => check.name);
  const { code, body } = healthAnswer(endpoint, names, checked, { verbose: searchParams.has("verbose"), excluded });
  send(response, code, body);
}

function checksOf({ livez, readyz }: MetricsServerOptions, endpoint: string): readonly HealthCheck[] | undefined {
  switch (endpoint) {
    case "livez":
      return [PING, ...livez];
    case "readyz":
    case "healthz":
      return [PING, ...livez, ...readyz];
    default:
      return undefined;
  }
}

async function run({ name, check }: HealthCheck): Promise<Checked> {
  try {
    const note = await limited(check());
    return { name, ...(note !== undefined && { note }) };
  } catch (error) {
    return { name, failure: messageOf(error) };
  }
}

async function limited<T>(asked: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`no response within ${CHECK_MS_MAX} ms`)), CHECK_MS_MAX);
  });
  return Promise.race([asked, late]).finally(() => clearTimeout(timer));
}

function send(response: ServerResponse, code: number, body: string, type = "text/plain; charset=utf-8"): void {
  if (response.headersSent) return void response.destroy();
  response.writeHead(code, { "content-type": type, "x-content-type-options": "nosniff" }).end(body);
}
