/**
 * A fault-injecting API server: a reverse proxy in front of an in-memory or real API server, with the rules of fault-profile.ts.
 *
 * RU1 it changes no response to which no rule applies: status, headers and body pass through unchanged, watches chunk by chunk.
 * RU2 clients keep their identity: it forwards tokens, and presents the client's certificate to the API server, for which the key must be
 *     among `identities`.
 * RU3 it drops a write whose client disconnects before the write is forwarded, as the API server cancels requests of disconnected clients.
 * RU4 the size of bodies and the number of connections are bounded, and no fault lasts longer than the API server's own request timeout.
 */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { createServer, Agent as HttpAgent, request as httpRequest } from "node:http";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { createServer as createTlsServer, Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { TLSSocket } from "node:tls";

import type { Certificate } from "../envtest/pki.ts";
import { withNewFields, withNewFieldsInLines } from "./new-fields.ts";
import { askedOf, createFaultInjector } from "./fault-profile.ts";
import type { Asked, Fault, FaultRule } from "./fault-profile.ts";
import { TIMED_OUT } from "./refusals.ts";
import type { Refusal } from "./refusals.ts";

export interface FaultInjectingOptions {
  /** The URL of the real API server. */
  readonly url: string;
  /** The CA that signed that API server's certificate and the clients' certificates, PEM. Absent with plain HTTP. */
  readonly ca?: string;
  /** The server's certificate and key; if given, it serves TLS. */
  readonly certificate?: Certificate;
  readonly identities?: readonly Certificate[];
  readonly rules?: readonly FaultRule[];
}

/** One request and its response. */
export interface Exchange {
  readonly asked: Asked;
  readonly atMs: number;
  /** The rule that applied. */
  readonly rule?: string;
  /** The API server's response code; undefined if it was not called or did not respond. */
  readonly code?: number;
  /** The code sent to the client; undefined if the connection was closed before. */
  readonly told?: number;
}

export interface FaultInjectingServer {
  readonly url: string;
  /** @returns a function that removes the rules */
  behave(...rules: readonly FaultRule[]): () => void;
  /** All requests that were answered or aborted; watches are included from their start. */
  exchanges(): readonly Exchange[];
  close(): Promise<void>;
}

/** The API server's own limits: the size of a body, and the duration of a request other than a watch. */
const BODY_BYTES_MAX = 3 * 1024 * 1024;
const DEED_MS_MAX = 60_000;
const CONNECTIONS_MAX = 2_048;
const EXCHANGES_MAX = 500_000;
const NEWLINE = 0x0a;
const HOP_BY_HOP = ["connection", "keep-alive", "transfer-encoding", "upgrade", "te", "trailer", "proxy-connection"];

export async function startFaultInjectingServer(options: FaultInjectingOptions): Promise<FaultInjectingServer> {
  const injector = createFaultInjector(options.rules);
  const exchanges: Exchange[] = [];
  const passOn = createPassage(options);
  const listener = (request: IncomingMessage, response: ServerResponse): void => {
    serve(request, response).catch(() => response.destroy());
  };
  const { certificate, ca } = options;
  const server =
    certificate === undefined
      ? createServer(listener)
      : createTlsServer(
          { cert: certificate.certificate, key: certificate.key, ca, requestCert: true, rejectUnauthorized: false },
          listener,
        );
  server.keepAliveTimeout = 0; // clients reuse their connections and close idle ones themselves
  server.requestTimeout = 0;
  server.maxConnections = CONNECTIONS_MAX;
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo; // the address of a listening TCP server is an object

  return {
    url: `${certificate === undefined ? "http" : "https"}://127.0.0.1:${port}`,
    behave: (...rules) => injector.add(...rules),
    exchanges: () => exchanges,
    async close() {
      const closed = once(server, "close");
      server.close();
      server.closeAllConnections();
      await closed;
      passOn.close();
    },
  };

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(request);
    const asked = askedOf(request.method ?? "GET", request.url ?? "/", request.headers["user-agent"]);
    const { rule, addsFields } = injector.meets(asked);
    const exchange: { -readonly [K in keyof Exchange]: Exchange[K] } = { asked, atMs: Date.now(), ...(rule && { rule: rule.name }) };
    if (exchanges.length < EXCHANGES_MAX) exchanges.push(exchange);
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    const refuse = (refusal: Refusal): void => {
      exchange.told = refusal.code;
      answerRefusal(response, refusal);
    };
    const ask = async (): Promise<IncomingMessage> => {
      const answer = await passOn.pass(request, body, gone.signal);
      exchange.code = answer.statusCode ?? 0;
      return answer;
    };

    const fault: Fault | undefined = rule?.fault;
    switch (fault?.kind) {
      case "refuse":
        return refuse(fault.with);
      case "loseRequest":
        return void response.destroy();
      case "admitSlowly": {
        const limitMs = timeoutMsOf(request.url ?? "/");
        await sleep(Math.min(fault.ms, limitMs), undefined, { signal: gone.signal });
        if (fault.ms >= limitMs) return refuse(TIMED_OUT);
        break;
      }
      case "refuseAfter":
      case "loseAnswer":
        await readAll(await ask());
        return fault.kind === "refuseAfter" ? refuse(fault.with) : void response.destroy();
      case "cutAnswer": {
        const answer = await ask();
        const whole = await readAll(answer);
        response.writeHead(answer.statusCode ?? 0, { ...passable(answer.headers), "content-length": whole.length });
        response.write(whole.subarray(0, whole.length / 2), () => response.destroy());
        return;
      }
      case "standStill":
        if (fault.isDone) await readAll(await ask());
        await sleep(DEED_MS_MAX, undefined, { signal: gone.signal });
        return void response.destroy();
      case "addFields":
      case "cutWatch":
      case "stallWatch":
      case undefined:
        break;
      default:
        fault satisfies never;
    }

    const answer = await ask();
    exchange.told = answer.statusCode ?? 0;
    const isJson = answer.headers["content-type"]?.includes("json") === true;
    if (asked.verb === "watch" && answer.statusCode === 200) {
      await passPieces(asked, answer, response, isJson);
    } else if (addsFields && isJson) {
      const text = Buffer.from(withNewFields((await readAll(answer)).toString("utf8")));
      response.writeHead(answer.statusCode ?? 0, { ...passable(answer.headers), "content-length": text.length }).end(text);
    } else {
      response.writeHead(answer.statusCode ?? 0, passable(answer.headers, answer.headers["content-length"]));
      answer.pipe(response);
    }
  }

  /** Forwards a watch's stream and applies the rules to each chunk: complete lines of JSON, or whatever data arrives at once. */
  async function passPieces(asked: Asked, answer: IncomingMessage, response: ServerResponse, isJson: boolean): Promise<void> {
    response.writeHead(200, passable(answer.headers)).flushHeaders();
    for await (const piece of isJson ? wholeLines(answer) : (answer as AsyncIterable<Buffer>)) {
      const { rule, addsFields } = injector.meetsPiece(asked);
      const fault = rule?.fault;
      if (fault?.kind === "cutWatch") {
        response.write(piece.subarray(0, piece.length / 2), () => response.destroy());
        return;
      }
      if (fault?.kind === "stallWatch") await sleep(Math.min(fault.ms, DEED_MS_MAX));
      if (response.destroyed) return;
      const sent = addsFields && isJson ? withNewFieldsInLines(piece) : piece;
      if (!response.write(sent)) await drained(response);
    }
    response.end();
  }
}

async function drained(response: ServerResponse): Promise<void> {
  const settled = new AbortController();
  const { signal } = settled;
  await Promise.race([once(response, "drain", { signal }), once(response, "close", { signal })]);
  settled.abort();
}

/** Yields complete lines; holds an incomplete line until its end arrives, and yields it as it is at the end of the stream. */
async function* wholeLines(stream: IncomingMessage): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const all = Buffer.concat([rest, chunk]);
    const end = all.lastIndexOf(NEWLINE) + 1;
    rest = all.subarray(end);
    if (end > 0) yield all.subarray(0, end);
  }
  if (rest.length > 0) yield rest;
}

/** The connection to the real API server, with the client's identity. */
function createPassage({ url, ca, identities = [] }: FaultInjectingOptions): {
  pass(request: IncomingMessage, body: Buffer, gone: AbortSignal): Promise<IncomingMessage>;
  close(): void;
} {
  const base = new URL(url);
  const isTls = base.protocol === "https:";
  const tls = ca === undefined ? {} : { ca };
  const agentFor = (identity?: Certificate): HttpAgent =>
    isTls
      ? new HttpsAgent({ keepAlive: true, ...tls, ...(identity && { cert: identity.certificate, key: identity.key }) })
      : new HttpAgent({ keepAlive: true });
  const nobody = agentFor();
  const known = new Map(identities.map((identity) => [new X509Certificate(identity.certificate).fingerprint256, agentFor(identity)]));

  return {
    pass(request, body, gone) {
      const agent = agentOf(request);
      const { host: _ours, "accept-encoding": _compressed, ...headers } = passable(request.headers);
      const options = { method: request.method, path: request.url, agent, signal: gone };
      const sent = (isTls ? httpsRequest : httpRequest)(base, {
        ...options,
        headers: body.length === 0 ? headers : { ...headers, "content-length": body.length },
      });
      return new Promise((resolve, reject) => {
        sent.once("response", resolve);
        sent.on("error", reject);
        sent.end(body);
      });
    },
    close() {
      for (const agent of [nobody, ...known.values()]) agent.destroy();
    },
  };

  function agentOf({ socket }: IncomingMessage): HttpAgent {
    if (!(socket instanceof TLSSocket)) return nobody;
    const { fingerprint256 } = socket.getPeerCertificate();
    // A certificate without a known key counts as anonymous: the API server rejects its requests.
    return (socket.authorized && known.get(fingerprint256)) || nobody;
  }
}

function answerRefusal(response: ServerResponse, { code, retryAfterSeconds, body }: Refusal): void {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  response.writeHead(code, {
    "content-type": typeof body === "string" ? "text/plain; charset=utf-8" : "application/json",
    "content-length": Buffer.byteLength(text),
    ...(retryAfterSeconds !== undefined && { "retry-after": String(retryAfterSeconds) }),
  });
  response.end(text);
}

/** Returns the headers without hop-by-hop headers, and without the length unless `length` is given. */
function passable(headers: IncomingHttpHeaders, length?: string): IncomingHttpHeaders {
  const kept = Object.fromEntries(Object.entries(headers).filter(([name]) => !HOP_BY_HOP.includes(name) && name !== "content-length"));
  return length === undefined ? kept : { ...kept, "content-length": length };
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const body = await readAll(request);
  if (body.length > BODY_BYTES_MAX) throw new Error("the body exceeds the API server's limit");
  return body;
}

async function readAll(stream: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const UNITS_MS: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Returns the duration in `timeout=5s` or `timeout=1m30s` (Go's notation), otherwise the API server's default. */
function timeoutMsOf(url: string): number {
  const text = new URL(url, "http://localhost").searchParams.get("timeout") ?? "";
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h)/g)];
  const ms = parts.reduce((sum, [, amount, unit = "s"]) => sum + Number(amount) * (UNITS_MS[unit] ?? 0), 0);
  return ms > 0 ? Math.min(DEED_MS_MAX, ms) : DEED_MS_MAX;
}
