/**
 * Responses of HTTP servers: hand-written ones, mutations of them, and paths. All are byte strings; `<port>` is replaced by the server's
 * port.
 */
import { createServer } from "node:net";
import type { AddressInfo, Server, Socket } from "node:net";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";

const OK = "HTTP/1.1 200 OK";
const TAIL = "\r\nContent-Length: 2\r\n\r\nok";
const CHUNKED = `${OK}\r\nTransfer-Encoding: chunked\r\n\r\n`;
const found = (location: string): string => `HTTP/1.1 302 Found\r\nLocation: ${location}\r\nContent-Length: 4\r\n\r\nbody`;

const PLAIN: readonly string[] = [
  `${OK}${TAIL}`,
  // Line endings and status lines.
  `${OK}\nContent-Length: 2\n\nok`,
  `${OK}\n\nok`,
  `${OK}\r\nContent-Length: 2\n\r\nok`,
  `HTTP/1.1 200${TAIL}`,
  `HTTP/1.1 200 ${TAIL}`,
  `HTTP/1.1  200 OK${TAIL}`,
  `HTTP/1.1 2000 OK${TAIL}`,
  `HTTP/1.1 20 OK${TAIL}`,
  `HTTP/1.1 +20 OK${TAIL}`,
  `HTTP/1.1 -00 OK${TAIL}`,
  `HTTP/1.1\t200 OK${TAIL}`,
  `HTTP/1.0 200 OK\r\n\r\nok`,
  `HTTP/1.0 200 OK${TAIL}`,
  `HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nok`,
  `HTTP/0.9 200 OK${TAIL}`,
  `HTTP/2.0 200 OK${TAIL}`,
  `HTTP/2 200 OK${TAIL}`,
  `http/1.1 200 OK${TAIL}`,
  `ICY 200 OK${TAIL}`,
  "ok",
  "",
  OK,
  `${OK}\r\nContent-Length: 2\r\n`,
  // Headers.
  `${OK}\r\nX:a\r\nX: b\r\nx:  c ${TAIL}`,
  `${OK}\r\nX : a${TAIL}`,
  `${OK}\r\nX y: a${TAIL}`,
  `${OK}\r\nX a${TAIL}`,
  `${OK}\r\n: a${TAIL}`,
  `${OK}\r\n X: a${TAIL}`,
  `${OK}\r\nX: a\r\n b\r\n\tc${TAIL}`,
  `${OK}\r\nX: a\0b${TAIL}`,
  `${OK}\r\nX: \xe9\xff${TAIL}`,
  `${OK}\r\n\xe9: a${TAIL}`,
  `${OK}\r\nX: a\rb${TAIL}`,
  // Lengths.
  `${OK}\r\n\r\nuntil it closes`,
  `${OK}\r\nContent-Length: 2${TAIL}`,
  `${OK}\r\nContent-Length: 3${TAIL}`,
  `${OK}\r\nContent-Length: 1, 1\r\n\r\nok`,
  `${OK}\r\nContent-Length: +2\r\n\r\nok`,
  `${OK}\r\nContent-Length:\r\n\r\nok`,
  `${OK}\r\nContent-Length : 1\r\n\r\nok`,
  `${OK}\r\nContent-Length: 002\r\n\r\nok`,
  `${OK}\r\nContent-Length: 9\r\n\r\nok`,
  `${OK}\r\nContent-Length: 9223372036854775808\r\n\r\nok`,
  "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok",
  "HTTP/1.1 204 No Content\r\nContent-Length: x\r\n\r\n",
  `${OK}${TAIL} and more`,
  // Chunks.
  `${CHUNKED}2\r\nok\r\n0\r\n\r\n`,
  `${CHUNKED}2 ;a=b\r\nok\r\n0\r\n\r\n`,
  `${CHUNKED}02;a="b"\r\nok\r\n0;x\r\nX-Sum: 1\r\n\r\n`,
  `${CHUNKED}2\nok\n0\n\n`,
  `${CHUNKED}2\r\nokay\r\n0\r\n\r\n`,
  `${CHUNKED}2\r\nok\r\n`,
  `${CHUNKED}2\r\nok\r\n0\r\n`,
  `${CHUNKED}2\r\nok\r\n0\r\nX-Sum\r\n\r\n`,
  `${OK}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
  `${OK}\r\nTransfer-Encoding: Chunked${TAIL.replace("ok", "2\r\nok\r\n0\r\n\r\n")}`,
  `${OK}\r\nTrailer: content-length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  // Statuses.
  `HTTP/1.1 100 Continue\r\n\r\n${OK}${TAIL}`,
  `HTTP/1.1 100 Continue\r\nContent-Length: x\r\n\r\n${OK}${TAIL}`,
  "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
  `HTTP/1.1 099 Low${TAIL}`,
  `HTTP/1.1 304 Not Modified${TAIL}`,
  `HTTP/1.1 404 Not Found${TAIL}`,
  `HTTP/1.1 999 High${TAIL}`,
  `HTTP/1.1 302 Found${TAIL}`,
];

const REDIRECTS: readonly string[] = [
  found("/next"),
  found("next?x=1"),
  found("a/../b/./c/."),
  found("//127.0.0.1:<port>/next"),
  found("http://127.0.0.1:<port>/%6eext?a b#c"),
  found("HTTP://127.0.0.1:<port>/\\next"),
  found("http://127.1:<port>/next"),
  found("http://u:p@127.0.0.1:<port>/next"),
  found("http://localhost:<port>/next"),
  found("http://[::1/next"),
  found("/%zz"),
  found("http:/next"),
  found("http:next"),
  found("ftp://127.0.0.1:<port>/next"),
  found("ftp://other/next"),
  found("mailto:a@b"),
  found("/n\xe9xt"),
  found("?x"),
  found("#x"),
  found("/next\r\nLocation: /second"),
  found(""),
  found("/"),
  found("  /next  ").replace("302", "308"),
  found("/next").replace("302", "305"),
];

/** Paths for probes. */
export const PATHS: readonly string[] = [
  ..."healthz|/h?x=1&y=a%2Fb|//healthz|//healthz/live|http://other/x|/a%2Fb|?q=1||/x#f|/%zz|/é|/x?|/x??|/x?a b|/a b|/x?%zz|/x#%zz".split(
    "|",
  ),
  ..."///x|http:x|http:/x|http:///x|mailto:a|a:|1:b|:x|*|/*|/a/../b|/[x]|/'(x)'!|/~a_b-c.d|/%41|/%2e%2E|/a;b,c=d&e+f$g@h:i|//[x|//[::1]:1/y".split(
    "|",
  ),
  ...'//a:b/c|//a:1:2/c|http://a:1:2/c|//a%41/c|//a%c3/c|//a%25/c|https://u:p@other/x|//u@/x|//u:p%zz@a/x|//u{@a/x|//a b/c|/"<>\\^`{|}'.split(
    "|",
  ),
  "/x\ny",
  "/x?\ty",
  "/x#\n",
];

const PIECES = ["\r", "\n", "\r\n", "\0", " ", "\t", ":", ";", "0", "1", "f", "-", "+", ",", "X: y\r\n", "Content-Length: 2\r\n", "\xa0"];
const MUTATIONS = 2_000;

function mutated(seed: number): string {
  const random = createSeededRandom(seed);
  const below = (limit: number): number => Math.floor(random.next() * limit);
  let text = PLAIN[below(PLAIN.length)] ?? "";
  for (let left = 1 + below(3); left > 0; left--) {
    const at = below(text.length + 1);
    text = text.slice(0, at) + (below(3) === 0 ? "" : (PIECES[below(PIECES.length)] ?? "")) + text.slice(at + below(3));
  }
  return text;
}

export const ANSWERS: readonly string[] = [...PLAIN, ...REDIRECTS, ...Array.from({ length: MUTATIONS }, (_, n) => mutated(n))];

export interface Answering {
  readonly port: number;
  /** The response to `/`. While it is undefined, and for other paths, the server responds with the target of the request line. */
  answer: string | undefined;
  close(): void;
}

export async function startAnswering(): Promise<Answering> {
  const server: Server = createServer((socket: Socket) => {
    socket.on("error", () => undefined);
    socket.once("data", (request) => {
      const [, target = ""] = /^GET (.*) HTTP\/1\.1\r\n/.exec(request.toString("latin1")) ?? [];
      const { answer } = answering;
      const text = answer === undefined || target !== "/" ? `${OK}\r\nContent-Length: ${target.length}\r\n\r\n${target}` : answer;
      socket.end(Buffer.from(text.replaceAll("<port>", String(answering.port)), "latin1"));
    });
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const answering: Answering = { port, answer: undefined, close: () => server.close() };
  return answering;
}
