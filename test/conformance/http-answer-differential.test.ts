/** Compares our response parser with Node's own on generated and mutated responses. */
import { createServer, connect } from "node:net";
import { request } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { expect, it } from "vitest";

import { AnswerReader } from "../../shared/base/http/http-answer.ts";
import { shareOf } from "../support/share.ts";

/** The numbers of all cases; `check` runs an evenly spread share. */
const CASES = shareOf([...Array(10_000).keys()], 2_000);
const AT_ONCE = 50;
const BODY_MAX = 1_000_000;

/** A small seeded generator (mulberry32), one per case. */
function randomOf(seed: number): (below: number) => number {
  let state = seed * 0x9e3779b1;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const LINES = [
  "X-A: b",
  "Content-Type: application/json",
  "Keep-Alive: timeout=5",
  "Connection: close",
  "Retry-After: 1",
  "X-Empty:",
  'ETag:\t"x" ',
];
const PIECES = [
  "\r",
  "\n",
  "\r\n",
  "\0",
  " ",
  "\t",
  ":",
  ";",
  "0",
  "1",
  "f",
  "-",
  "+",
  ",",
  "Content-Length: 3\r\n",
  "Transfer-Encoding: chunked\r\n",
  "\xa0",
];

function responseOf(n: number): string {
  const random = randomOf(n);
  const body = "abcdefghij".repeat(random(4)).slice(random(5));
  const head = [`HTTP/1.1 ${[200, 201, 204, 404, 429, 503][random(6)]} OK`, ...LINES.filter(() => random(4) === 0)];
  let text = "";
  if (random(5) === 0) text += "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
  const isBare = head[0]?.includes("204") === true;
  const framing = isBare ? 3 : random(3);
  if (framing === 0) text += `${[...head, `Content-Length: ${body.length}`].join("\r\n")}\r\n\r\n${body}`;
  else if (framing === 1) {
    const chunks = [body.slice(0, 3), body.slice(3)].filter((chunk) => chunk !== "");
    const written = chunks.map((chunk) => `${chunk.length.toString(16)}${random(4) === 0 ? ";a=b" : ""}\r\n${chunk}\r\n`).join("");
    text += `${[...head, "Transfer-Encoding: chunked"].join("\r\n")}\r\n\r\n${written}0\r\n${random(4) === 0 ? "X-Sum: 1\r\n" : ""}\r\n`;
  } else text += `${head.join("\r\n")}\r\n\r\n${framing === 2 ? body : ""}`;
  for (let mutations = random(2) * (1 + random(2)); mutations > 0; mutations--) {
    const at = random(text.length + 1);
    text = text.slice(0, at) + (random(3) === 0 ? "" : (PIECES[random(PIECES.length)] ?? "")) + text.slice(at + random(3));
  }
  return text;
}

type Result = { readonly code: number; readonly body: string } | "refused";

function ours(pieces: readonly Buffer[]): Result {
  const reader = new AnswerReader(BODY_MAX, () => undefined);
  try {
    for (const piece of pieces) reader.push(piece);
  } catch {
    return "refused";
  }
  return reader.end() && reader.head !== undefined ? { code: reader.head.code, body: reader.bytes().toString() } : "refused";
}

/** Returns the response as node:http reads it from a socket on loopback. */
async function nodes(text: string): Promise<Result> {
  const server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end(Buffer.from(text, "latin1")));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const answered = new Promise<Result>((resolve) => {
    const refuse = (): void => resolve("refused");
    const asked = request({ createConnection: () => connect(port, "127.0.0.1") }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", refuse);
      response.on("end", () => resolve({ code: response.statusCode ?? 0, body: Buffer.concat(chunks).toString("utf8") }));
    });
    asked.on("error", refuse).on("upgrade", refuse).end();
  });
  return await answered.finally(() => server.close());
}

it(`accepts none of ${CASES.length} responses that Node's parser rejects or parses differently`, { timeout: 300_000 }, async () => {
  const differing: unknown[] = [];
  let [accepted, stricter] = [0, 0];
  for (let at = 0; at < CASES.length; at += AT_ONCE) {
    await Promise.all(
      CASES.slice(at, at + AT_ONCE).map(async (n) => {
        const text = responseOf(n);
        const [own, node] = [ours([Buffer.from(text, "latin1")]), await nodes(text)];
        if (own !== "refused") accepted++;
        if (own === "refused" && node !== "refused") stricter++;
        else if (JSON.stringify(own) !== JSON.stringify(node)) differing.push({ case: n, text, own, node });
      }),
    );
  }
  expect(differing.slice(0, 5)).toEqual([]);
  expect(accepted).toBeGreaterThan(CASES.length / 2);
  expect(stricter, "responses that only ours refuses, such as bytes behind the response").toBeLessThan(CASES.length / 50);
});

it("parses a response identically however its bytes are split", () => {
  for (const n of CASES) {
    const bytes = Buffer.from(responseOf(n), "latin1");
    const whole = ours([bytes]);
    const random = randomOf(n + CASES.length);
    const pieces: Buffer[] = [];
    for (let at = 0; at < bytes.length;) {
      const to = Math.min(bytes.length, at + 1 + random(9));
      pieces.push(bytes.subarray(at, to));
      at = to;
    }
    expect(ours(pieces), `case ${n}`).toEqual(whole);
  }
});
