/**
 * The agent's HTTPS API (node-agent §15), which the API server calls for `kubectl logs` and `kubectl exec`.
 *
 * HS1 every request, including an upgrade, is first authenticated and authorized; anonymous requests are rejected.
 * HS2 authorization and routing use the same path, so that only the authorized action is executed.
 * HS3 tokens, headers and queries are never logged, because a command may contain a secret.
 * HS4 when a connection closes, all work for it ends; `stop` closes all connections.
 * HS5 token reviews of unauthenticated requests have a separate queue, and few of them run at the same time.
 *
 * Source: pkg/kubelet/server/server.go.
 */
import { once } from "node:events";
import { ServerResponse } from "node:http";
import type { IncomingMessage } from "node:http";
import { createServer } from "node:https";
import type { Server } from "node:https";
import type { AddressInfo, Socket } from "node:net";
import type { Duplex } from "node:stream";
import { messageOf } from "@deltaloop/kube/objects";
import type { KeyedCertificate } from "../ports/certificates.ts";
import { answer } from "./answer.ts";
import { createAuthentication } from "./authentication.ts";
import { createAuthorization } from "./authorization.ts";
import { sendContainerLogs } from "./container-logs.ts";
import { healthz } from "./health.ts";
import type { NodeApiBackend, NodeApiOptions } from "./options.ts";
import { RESOURCE_METRICS_TYPE, resourceMetrics } from "./resource-metrics.ts";
import { routeOf } from "./routes.ts";
import type { Route } from "./routes.ts";
import { runningPods } from "./running-pods.ts";
import { attach, exec, portForward, run } from "./streams.ts";
import type { Upgrade } from "./upgrade-proxy.ts";
import { selfSignedCertificate } from "./serving-certificate.ts";

export type { NodeApiOptions };

export interface NodeApi {
  readonly port: number;
  /** Number of upgraded connections: exec, attach and port-forward. */
  streams(): number;
  /** Replaces the certificate for new connections; open connections keep the old one. */
  show(certificate: KeyedCertificate): void;
  /** Closes all connections, including those that follow logs. */
  stop(): Promise<void>;
}

/** Maximum size of the request line and the headers. The request line may contain a long command. Source: server.go MaxHeaderBytes. */
const HEADER_BYTES_MAX = 1024 * 1024;
/** Source: server.go IdleTimeout. */
const KEEP_ALIVE_MS = 90_000;
/** Delay after which the kernel probes idle connections, so that vanished peers are detected. */
const TCP_KEEP_ALIVE_MS = 30_000;

/** @throws the error of `listen`, for example if the port is in use; NodeApiError if no certificate can be created */
export async function startNodeApi(options: NodeApiOptions): Promise<NodeApi> {
  const { clientCa, log } = options;
  const tls = options.tls === "later" ? {} : (options.tls ?? (await selfSignedCertificate(options)));
  // Without an explicit CA, Node.js would trust the system's CAs.
  const context = { ...(clientCa !== undefined && { ca: clientCa }), minVersion: "TLSv1.2" } as const;
  const server = createServer({
    ...tls,
    ...context,
    ...(clientCa !== undefined && { requestCert: true, rejectUnauthorized: false }),
    maxHeaderSize: HEADER_BYTES_MAX,
    keepAliveTimeout: KEEP_ALIVE_MS,
    keepAlive: true,
    keepAliveInitialDelay: TCP_KEEP_ALIVE_MS,
    allowHalfOpen: true,
  });
  trustEachAnchor(server);
  const connections = connectionsOf(server);
  const streams = new Set<Duplex>();
  const handle = createHandler(options);
  server.on("request", (request, response) => void handle(request, response));
  server.on("upgrade", (request, socket, head) => {
    const response = responseOn(request, socket);
    if (response === undefined) return void socket.destroy();
    void handle(request, response, {
      socket,
      head,
      take: () => {
        response.detachSocket(socket as Socket); // see responseOn
        streams.add(socket);
        socket.once("close", () => streams.delete(socket));
      },
    });
  });
  // An error such as EMFILE does not affect open connections.
  server.on("error", (error) => log.warn("failed to accept a connection", { error: error.message }));
  server.on("tlsClientError", (error) => log.debug("TLS handshake failed", { error: error.message }));
  server.listen(options.port, options.host);
  await once(server, "listening");
  // A TCP server has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return {
    port,
    streams: () => streams.size,
    show(certificate) {
      server.setSecureContext({ ...certificate, ...context });
      trustEachAnchor(server);
    },
    async stop() {
      if (!server.listening) return;
      const closed = once(server, "close");
      server.close();
      for (const connection of connections) connection.destroy();
      await closed;
    },
  };
}

/**
 * Makes every certificate in the client CA file a trust anchor, even an intermediate one, as Go's CertPool does. node:tls does not apply
 * `allowPartialTrustChain` to the default context of a server, so this function sets an internal field;
 * test/conformance/trust-anchors.test.ts checks it.
 */
function trustEachAnchor(server: Server): void {
  const { context } = Reflect.get(server, "_sharedCreds") as { readonly context: { setAllowPartialTrustChain(): void } };
  context.setAllowPartialTrustChain();
}

/** Routes whose connection is upgraded. */
const UPGRADED: readonly Route["kind"][] = ["exec", "attach", "portForward"];

interface RequestContext {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly upgrade: Upgrade | undefined;
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal;
}

type Handler = (request: IncomingMessage, response: ServerResponse, upgrade?: Upgrade) => Promise<void>;

function createHandler(options: NodeApiOptions): Handler {
  const authenticate = createAuthentication(options);
  const authorize = createAuthorization(options);
  const { backend, clock, log } = options;

  async function serve({ request, response, upgrade, signal }: RequestContext): Promise<void> {
    const { method = "GET" } = request;
    const url = urlOf(request);
    if (url === undefined) return answer(response, 400, "Bad Request");
    const user = await authenticate(request, signal);
    if (user === undefined) return answer(response, 401, "Unauthorized");
    signal.throwIfAborted();
    const refusal = await authorize(user, { method, path: url.pathname, signal });
    if (refusal !== undefined) return answer(response, refusal.code, refusal.text);
    signal.throwIfAborted();

    const route = routeOf(method, url.pathname);
    if (upgrade !== undefined && !UPGRADED.includes(route.kind)) endWithClient(upgrade.socket);
    switch (route.kind) {
      case "containerLogs":
        return await sendContainerLogs(options, { ...route, query: url.searchParams, response, signal });
      case "exec":
        return await exec(options, { ...route, query: url.searchParams, request, response, upgrade });
      case "attach":
        return await attach(options, { ...route, query: url.searchParams, request, response, upgrade });
      case "portForward":
        return await portForward(options, { ...route, query: url.searchParams, request, response, upgrade });
      case "run":
        return await run(options, { ...route, query: url.searchParams, response, signal });
      case "healthz":
        return healthz(response, { ...route, query: url.searchParams, nowMs: clock.now(), lastLoopMs: backend.lastLoopMs() });
      case "pods":
        return answer(response, 200, await podList(backend), "application/json");
      case "runningPods":
        return answer(response, 200, await runningPods(backend.cri), "application/json");
      case "configz":
        return answer(response, 200, JSON.stringify({ kubeletconfig: options.configuration }), "application/json");
      case "summary":
        return await sendSummary(options, url.searchParams, response);
      case "metrics":
        return answer(response, 200, await options.metrics.text(), options.metrics.contentType);
      case "resourceMetrics":
        return answer(response, 200, await resourceMetrics(backend.cri, options.nodeUsage), RESOURCE_METRICS_TYPE);
      case "refused":
        return answer(response, route.code, route.text);
      default:
        return route satisfies never;
    }
  }

  return async (request, response, upgrade) => {
    // Ignores errors, because the client of a closed connection cannot receive a response.
    response.on("error", () => undefined);
    const gone = new AbortController();
    response.once("close", () => gone.abort(new Error("the client disconnected")));
    try {
      await serve({ request, response, upgrade, signal: gone.signal });
    } catch (error) {
      if (gone.signal.aborted) return;
      log.error("request failed", { method: request.method, path: urlOf(request)?.pathname, error: String(error) });
      if (response.headersSent) response.destroy();
      else answer(response, 500, "Internal Server Error");
    }
  };
}

/** Returns the URL without dot segments; `undefined` if the request target is invalid. */
function urlOf(request: IncomingMessage): URL | undefined {
  const target = request.url ?? "";
  return target.startsWith("/") && URL.canParse(`https://node${target}`) ? new URL(`https://node${target}`) : undefined;
}

/**
 * Creates the response for an upgrade request, because Node.js passes none, and handles errors of the socket. Returns `undefined` for a
 * pipelined request that arrives before the previous response has ended; streaming clients do not pipeline.
 */
function responseOn(request: IncomingMessage, socket: Duplex): ServerResponse | undefined {
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  socket.on("error", () => socket.destroy());
  const connection = socket as Socket; // Node.js passes a TLSSocket, but declares a Duplex
  try {
    response.assignSocket(connection);
  } catch {
    return undefined;
  }
  response.once("finish", () => connection.destroySoon()); // closes the connection, because the client may keep it open
  return response;
}

/** Resumes reading, so that the server notices when the client of a rejected upgrade disconnects. */
function endWithClient(socket: Duplex): void {
  socket.once("end", () => socket.end()).resume();
}

/** Returns the raw TCP connections. Closing them also closes upgraded connections and pending handshakes. */
function connectionsOf(server: Server): ReadonlySet<Socket> {
  const connections = new Set<Socket>();
  server.on("connection", (connection: Socket) => {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
  });
  return connections;
}

/** Source: pkg/kubelet/server/stats/handler.go handleSummary. */
async function sendSummary({ summary, log }: NodeApiOptions, query: URLSearchParams, response: ServerResponse): Promise<void> {
  const only = query.getAll("only_cpu_and_memory");
  try {
    const stats = await summary({ onlyCpuAndMemory: only.length === 1 && only[0] === "true" });
    answer(response, 200, JSON.stringify(stats), "application/json");
  } catch (error) {
    log.warn("failed to collect stats", { error: messageOf(error) });
    answer(response, 500, `Internal Error: ${messageOf(error)}`);
  }
}

/** Returns a PodList of the node's pods with their cached statuses. Source: server.go encodePods. */
async function podList(backend: NodeApiBackend): Promise<string> {
  const items = await Promise.all(
    backend.pods().map(async (pod) => {
      const { namespace, name, uid } = pod.metadata;
      const status = (await backend.pod(namespace, name, uid))?.status ?? pod.status;
      return { ...pod, ...(status !== undefined && { status }) };
    }),
  );
  return JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items });
}
