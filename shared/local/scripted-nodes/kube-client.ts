/** KubeHttp over node:http and node:https: keep-alive, own CA, client certificate or token. */
import { Agent as HttpAgent, type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import { errorOf, type KubeHttp, type KubeHttpEvent, type KubeHttpObject, readPages, withQuery } from "./kube-http.ts";

export interface Connection {
  /** `https://127.0.0.1:6443` or, for the in-memory API server, `http://…`. */
  readonly server: string;
  readonly ca?: string | Buffer;
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  readonly token?: string;
  readonly insecureSkipTlsVerify?: boolean;
}

const REQUEST_TIMEOUT_MS = 30_000;
const SOCKETS_MAX = 64;

interface OpenOptions {
  readonly agent: HttpAgent | HttpsAgent | undefined;
  readonly headers?: Readonly<Record<string, string | number>>;
  readonly timeout?: number;
  readonly signal?: AbortSignal;
}

/** KubeHttp, and answers as they came, refusals too. */
export interface KubeClient extends KubeHttp {
  raw(
    method: string,
    path: string,
    body?: unknown,
    contentType?: string,
  ): Promise<{ readonly status: number; readonly body: KubeHttpObject }>;
}

export function createKubeClient(connection: Connection, { userAgent }: { readonly userAgent: string }): KubeClient {
  const base = new URL(connection.server);
  const isTls = base.protocol === "https:";
  const { ca, cert, key, token, insecureSkipTlsVerify = false } = connection;
  const tls = { rejectUnauthorized: !insecureSkipTlsVerify, ...defined({ ca, cert, key }) };
  // Watches hold a socket each for minutes, so they get an agent of their own.
  const agents = [0, 1].map(() =>
    isTls
      ? new HttpsAgent({ keepAlive: true, maxSockets: SOCKETS_MAX, ...tls })
      : new HttpAgent({ keepAlive: true, maxSockets: SOCKETS_MAX }),
  );
  const [agent, watchAgent] = agents;

  const open = (method: string, path: string, { headers: own = {}, ...options }: OpenOptions): ClientRequest => {
    const url = new URL(path, base);
    const headers = {
      accept: "application/json",
      "user-agent": userAgent,
      ...defined({ authorization: token === undefined ? undefined : `Bearer ${token}` }),
      ...own,
    };
    return (isTls ? httpsRequest : httpRequest)(url, { method, ...options, headers });
  };

  const raw = async (
    method: string,
    path: string,
    body?: unknown,
    contentType = "application/json",
  ): Promise<{ status: number; body: KubeHttpObject }> => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = text === undefined ? {} : { "content-type": contentType, "content-length": Buffer.byteLength(text) };
    const response = await send(open(method, path, { agent, headers, timeout: REQUEST_TIMEOUT_MS }), text);
    return { status: response.statusCode ?? 0, body: parse(await readText(response)) };
  };

  const call = async (method: string, path: string, body?: object, contentType?: string): Promise<KubeHttpObject> => {
    const answer = await raw(method, path, body, contentType);
    if (answer.status >= 400) throw errorOf(answer.status, answer.body);
    return answer.body;
  };

  return {
    list: (path, query) => readPages((page) => call("GET", withQuery(path, page)), query),
    request: call,
    raw,
    async watch(path, query, onEvent, signal) {
      const request = open("GET", withQuery(path, { ...query, watch: true }), { agent: watchAgent, signal });
      const response = await send(request, undefined);
      const code = response.statusCode ?? 0;
      if (code >= 400) throw errorOf(code, parse(await readText(response)));
      for await (const line of linesOf(response)) {
        const event: { type?: unknown; object?: unknown } = parse(line);
        if (event.type === "ERROR") throw errorOf(500, event.object);
        // Decoded from the server's own stream, whose events have this shape.
        onEvent(event as unknown as KubeHttpEvent);
      }
      if (!response.complete) throw new Error(`the watch of ${path} broke off`);
    },
  };
}

/** What a loaded kubeconfig says about its current context. Exec plugins run here. */
export async function connectionOf(kubeConfig: KubeConfig): Promise<Connection> {
  const cluster = kubeConfig.getCurrentCluster();
  if (cluster === null) throw new Error("the kubeconfig has no current cluster");
  const options: RequestOptions = {};
  await kubeConfig.applyToHTTPSOptions(options);
  const authorization = new Headers(options.headers as Record<string, string> | undefined).get("authorization");
  return {
    server: cluster.server,
    insecureSkipTlsVerify: cluster.skipTLSVerify === true,
    ...defined({ ca: pem(options.ca), cert: pem(options.cert), key: pem(options.key), token: authorization?.replace(/^Bearer /u, "") }),
  };
}

function pem(value: unknown): string | Buffer | undefined {
  return typeof value === "string" || Buffer.isBuffer(value) ? value : undefined;
}

/** The entries that are there, for options that must be absent rather than undefined. */
function defined<T extends Record<string, unknown>>(entries: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  // Exactly the entries that are not undefined remain.
  return Object.fromEntries(Object.entries(entries).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}

function send(request: ClientRequest, body: string | undefined): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.once("response", resolve);
    request.once("error", reject);
    request.once("timeout", () => request.destroy(new Error("the API server did not answer in time")));
    request.end(body);
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  response.setEncoding("utf8");
  let text = "";
  for await (const chunk of response) text += String(chunk);
  return text;
}

/** Whole lines; a partial one at the end is dropped with the connection that broke off. */
async function* linesOf(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  response.setEncoding("utf8");
  let partial = "";
  for await (const chunk of response) {
    const lines = `${partial}${String(chunk)}`.split("\n");
    partial = lines.pop() ?? "";
    yield* lines.filter((line) => line !== "");
  }
}

/** @throws {SyntaxError} for what is no JSON object. */
function parse(text: string): KubeHttpObject {
  const value: unknown = JSON.parse(text);
  if (typeof value !== "object" || value === null) throw new SyntaxError("the answer is no JSON object");
  return { ...value };
}
