/**
 * The caller's CPU time per call and per watch event: createExchanges and node:https in alternation, over TLS to a server in a separate
 * process. A call sends a Pod and receives one on a kept-alive connection. "Young" are the first hundred calls of a process, as in a cold
 * function; "warm" are later ones. A watch receives one event per chunk, as an API server writes them.
 */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { Agent, request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { createExchanges } from "../../shared/base/http/http-exchanges.ts";
import { benchResult } from "./result.ts";
import type { BenchResult } from "./result.ts";

const HOST = "127.0.0.1";
const YOUNG = 100;
const WARM_UP = 3_000;
const ROUNDS = 9;
const CALLS = 500;
const EVENTS = 5_000;
const BODY = JSON.stringify({
  ...{ apiVersion: "v1", kind: "Pod", metadata: { name: "web-1", labels: { app: "web" } } },
  spec: { containers: [{ name: "main", image: "registry.example/web:1", env: [{ name: "A", value: "b".repeat(400) }] }] },
});
const HEADERS = {
  accept: "application/json",
  "user-agent": "bench",
  authorization: `Bearer ${"t".repeat(900)}`,
  "content-type": "application/json",
};
const SERVER = `
const [key, cert, body] = process.argv.slice(1);
const { readFileSync } = require("node:fs");
const server = require("node:https").createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (request, response) => {
  request.resume();
  if (request.method === "GET") {
    const line = JSON.stringify({ type: "MODIFIED", object: JSON.parse(body) }) + "\\n";
    let left = Number(request.url.slice(1));
    const some = () => {
      for (let i = 0; i < 5 && left > 0; i++, left--) response.write(line);
      return left > 0 ? void setImmediate(some) : void response.end();
    };
    return some();
  }
  request.on("end", () => response.setHeader("content-type", "application/json").end(body));
});
server.listen(0, "${HOST}", () => console.log(server.address().port));
`;

type Call = () => Promise<unknown>;

export async function bench(): Promise<readonly BenchResult[]> {
  const folder = mkdtempSync(join(tmpdir(), "bench-http-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const subject = ["-subj", "/CN=bench", "-addext", `subjectAltName=IP:${HOST}`];
  execFileSync("openssl", ["req", "-x509", ...kind, "-keyout", key, "-out", cert, ...subject], { stdio: "ignore" });
  const server = spawn(process.execPath, ["-e", SERVER, key, cert, BODY], { stdio: ["ignore", "pipe", "inherit"] });
  try {
    const [first] = (await once(server.stdout, "data")) as [Buffer];
    const port = Number(first);
    const ca = readFileSync(cert);
    const sides: readonly (readonly [name: string, call: Call])[] = [
      ["own", own(port, ca)],
      ["node:https", nodes(port, ca)],
    ];
    const young: number[] = [];
    for (const [, call] of sides) {
      await call();
      young.push(await cpuOf(YOUNG, call));
    }
    for (const [, call] of sides) await cpuOf(WARM_UP, call);
    const warm: readonly number[][] = [[], []];
    for (let round = 0; round < ROUNDS; round++) for (const [i, [, call]] of sides.entries()) warm[i]?.push(await cpuOf(CALLS, call));
    const [ownYoung = Number.NaN, nodeYoung = Number.NaN] = young;
    const [ownWarm = [], nodeWarm = []] = warm;
    const watches = [ownWatch(port, ca), nodesWatch(port, ca)];
    for (const watch of watches) await watch();
    const watched: readonly number[][] = [[], []];
    for (let round = 0; round < ROUNDS; round++)
      for (const [i, watch] of watches.entries()) watched[i]?.push((await cpuOf(1, watch)) / EVENTS);
    const [ownWatched = [], nodeWatched = []] = watched;
    const watchReference = benchResult("watch event over TLS by node:https: CPU", "µs", nodeWatched);
    const reference = benchResult("HTTP call over TLS by node:https, warm: CPU", "µs", nodeWarm);
    return [
      benchResult("HTTP call over TLS, young: CPU", "µs", [ownYoung], { name: "node:https", value: nodeYoung }),
      benchResult("HTTP call over TLS by node:https, young: CPU", "µs", [nodeYoung]),
      benchResult("HTTP call over TLS, warm: CPU", "µs", ownWarm, { name: "node:https", value: reference.value }),
      reference,
      benchResult("watch event over TLS: CPU", "µs", ownWatched, { name: "node:https", value: watchReference.value }),
      watchReference,
    ];
  } finally {
    server.kill();
    rmSync(folder, { recursive: true });
  }
}

/** Returns the CPU time of this process per call, in µs. */
async function cpuOf(calls: number, call: Call): Promise<number> {
  const before = process.cpuUsage();
  for (let i = 0; i < calls; i++) await call();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / calls;
}

function own(port: number, ca: Buffer): Call {
  const exchanges = createExchanges({ host: HOST, port, tls: { ca } }, { idleMsMax: 50_000 });
  const bounds = { timeoutMs: 10_000, late: () => new Error("too late"), bytesMax: 1_000_000 };
  return async () => (await exchanges.ask({ method: "POST", target: "/", headers: HEADERS, body: BODY }, bounds)).body;
}

function nodes(port: number, ca: Buffer): Call {
  const agent = new Agent({ keepAlive: true, ca });
  const options = { host: HOST, port, method: "POST", path: "/", agent, headers: { ...HEADERS, "content-length": BODY.length } };
  return () =>
    new Promise((resolve, reject) => {
      const request = httpsRequest(options, (response) => {
        const chunks: Buffer[] = [];
        response.on("data", (chunk: Buffer) => chunks.push(chunk));
        response.on("end", () => resolve(Buffer.concat(chunks).toString()));
      });
      request.on("error", reject);
      request.end(BODY);
    });
}

function ownWatch(port: number, ca: Buffer): Call {
  const exchanges = createExchanges({ host: HOST, port, tls: { ca } }, { idleMsMax: 50_000 });
  const bounds = { timeoutMs: 10_000, late: () => new Error("too late") };
  return async () => {
    const answer = await exchanges.stream({ method: "GET", target: `/${EVENTS}`, headers: HEADERS }, bounds);
    await new Promise<void>((resolve, reject) => {
      answer.read({ onBytes: () => undefined, onEnd: ({ error }) => (error === undefined ? resolve() : reject(error as Error)) });
    });
  };
}

function nodesWatch(port: number, ca: Buffer): Call {
  const agent = new Agent({ ca });
  return () =>
    new Promise((resolve, reject) => {
      const request = httpsRequest({ host: HOST, port, path: `/${EVENTS}`, agent, headers: HEADERS }, (response) => {
        response.on("data", () => undefined);
        response.on("end", resolve);
      });
      request.on("error", reject);
      request.end();
    });
}
