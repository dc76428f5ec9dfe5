/** HTTP/1.1 responses: whole, in chunks and malformed. */
import { describe, expect, it } from "vitest";

import { AnswerReader, MalformedAnswerError, type Head } from "../../../shared/base/http/http-answer.ts";

const BYTES_MAX = 1_000;

interface Read {
  readonly code: number | undefined;
  readonly body: string;
  readonly keeps: boolean;
}

/** The parsed `pieces`; undefined while the response is incomplete. */
function read(pieces: readonly string[], bytesMax = BYTES_MAX): Read | undefined {
  const reader = new AnswerReader(bytesMax, () => undefined);
  let isWhole = false;
  for (const piece of pieces) isWhole = reader.push(Buffer.from(piece, "latin1"));
  return isWhole ? { code: reader.head?.code, body: reader.bytes().toString(), keeps: reader.keepsConnection } : undefined;
}

function split(text: string, length: number): readonly string[] {
  return Array.from({ length: Math.ceil(text.length / length) }, (_, i) => text.slice(i * length, (i + 1) * length));
}

const WHOLE: Readonly<Record<string, readonly [text: string, expected: Read]>> = {
  "HA1 a body with a Content-Length": [
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello",
    { code: 200, body: "hello", keeps: true },
  ],
  "HA1 an empty body": ["HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", { code: 201, body: "", keeps: true }],
  "HA1 a 204, which has no body, whatever its Content-Length": [
    "HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n",
    { code: 204, body: "", keeps: true },
  ],
  "HA1 chunks, with extensions and a trailer": [
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\n00006 \r\n world\r\n0\r\nX-Sum: 1\r\n\r\n",
    { code: 200, body: "hello world", keeps: true },
  ],
  "a status line without a reason phrase": ["HTTP/1.1 404\r\nContent-Length: 2\r\n\r\nno", { code: 404, body: "no", keeps: true }],
  "a response with Connection: close": [
    "HTTP/1.1 200 OK\r\nConnection: Keep-Alive, Close\r\nContent-Length: 1\r\n\r\nx",
    { code: 200, body: "x", keeps: false },
  ],
  "an HTTP/1.0 response, which closes the connection": [
    "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
    { code: 200, body: "x", keeps: false },
  ],
  "HA1 chunk sizes with leading zeros": [
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000000000000000003\r\nabc\r\n0000\r\n\r\n",
    { code: 200, body: "abc", keeps: true },
  ],
  "HA2 a response after interim responses": [
    `${"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n".repeat(5)}HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx`,
    { code: 200, body: "x", keeps: true },
  ],
  "multi-byte UTF-8 characters": [
    `HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n${Buffer.from("é✓x").toString("latin1")}`,
    { code: 200, body: "é✓x", keeps: true },
  ],
};

const LENGTHS = [1, 2, 3, 5, 7, 1_000];
/** Splitting byte by byte would take seconds for a text longer than this. */
const LONG = 10_000;

describe("an HTTP/1.1 response", () => {
  it.each(Object.entries(WHOLE))("parses %s, for any chunking", (_name, [text, expected]) => {
    for (const length of LENGTHS) expect(read(split(text, length)), `pieces of ${length}`).toEqual(expected);
    for (let at = 1; at < text.length; at++) expect(read([text.slice(0, at), text.slice(at)]), `cut at ${at}`).toEqual(expected);
    for (let at = 1; at < text.length; at++) expect(read([text.slice(0, at)]), `only ${at} bytes`).toBeUndefined();
  });

  const HEAD = "HTTP/1.1 200 OK\r\n";
  const MALFORMED: Readonly<Record<string, string>> = {
    "another protocol": "SSH-2.0-x\r\n\r\n",
    "HTTP/2": "HTTP/2 200\r\n\r\n",
    "HA1 two Content-Length headers": `${HEAD}Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello`,
    "HA1 a Content-Length with a sign": `${HEAD}Content-Length: +5\r\n\r\nhello`,
    "HA1 a hexadecimal Content-Length": `${HEAD}Content-Length: 0x5\r\n\r\nhello`,
    "HA1 an empty Content-Length": `${HEAD}Content-Length:\r\n\r\n`,
    "HA1 both Content-Length and chunks": `${HEAD}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    "HA1 another transfer coding": `${HEAD}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    "HA1 chunks in HTTP/1.0": "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "HA1 a chunk longer than its size": `${HEAD}Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n`,
    "HA1 a chunk without a size": `${HEAD}Transfer-Encoding: chunked\r\n\r\n\r\n`,
    "HA1 a chunk size that is not a number": `${HEAD}Transfer-Encoding: chunked\r\n\r\n-1\r\n`,
    "HA2 six interim responses": "HTTP/1.1 100 Continue\r\n\r\n".repeat(6),
    "HA2 101 Switching Protocols": "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "HA3 a head that never ends": `${HEAD}${"X: y\r\n".repeat(12_000)}`,
    "HA3 a chunk header that never ends": `${HEAD}Transfer-Encoding: chunked\r\n\r\n1;${"a".repeat(5_000)}`,
    "HA3 a trailer that never ends": `${HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n${"X: y\r\n".repeat(20_000)}`,
    "HA4 a second response": `${HEAD}Content-Length: 1\r\n\r\nx${HEAD}Content-Length: 1\r\n\r\ny`,
    "HA4 a body longer than its Content-Length": `${HEAD}Content-Length: 1\r\n\r\nxy`,
    "HA1 a no-break space before a Content-Length": `${HEAD}Content-Length: \xa01\r\n\r\nx`,
    "HA1 a vertical tab before a transfer coding": `${HEAD}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n`,
    "HA3 a bare line feed in a trailer": `${HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n\n\r\n\r\n`,
    "a line that is not HTTP": "-ERR unknown command\r\n",
    "a head whose lines end with a bare line feed": "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    "a folded header": `${HEAD}X: a\r\n b\r\nContent-Length: 0\r\n\r\n`,
    "a header without a colon": `${HEAD}Content-Length\r\n\r\n`,
    "a blank before the colon": `${HEAD}Content-Length : 1\r\n\r\nx`,
    "a bare line feed within a header": `${HEAD}X: a\nContent-Length: 9\r\nContent-Length: 1\r\n\r\nx`,
    "a NUL byte within a header": `${HEAD}X: a\0b\r\nContent-Length: 0\r\n\r\n`,
  };

  it.each(Object.entries(MALFORMED))("rejects a response: %s, for any chunking", (_name, text) => {
    const lengths = text.length > LONG ? LENGTHS.slice(-2) : LENGTHS;
    for (const length of lengths) expect(() => read(split(text, length)), `pieces of ${length}`).toThrow(MalformedAnswerError);
  });

  it("HA1 a response without a length ends with its connection", () => {
    const reader = new AnswerReader(BYTES_MAX, () => undefined);
    expect(reader.push(Buffer.from("HTTP/1.1 200 OK\r\n\r\nhel"))).toBe(false);
    expect(reader.push(Buffer.from("lo"))).toBe(false);
    expect([reader.end(), reader.bytes().toString(), reader.keepsConnection]).toEqual([true, "hello", false]);
  });

  it.each(["", "HTTP/1.1 200 OK\r\nContent-Le", `${HEAD}Content-Length: 5\r\n\r\nhell`, `${HEAD}Transfer-Encoding: chunked\r\n\r\n0\r\n`])(
    "HA1 reports an early end as an error: %j",
    (text) => {
      const reader = new AnswerReader(BYTES_MAX, () => undefined);
      reader.push(Buffer.from(text));
      expect(reader.end()).toBe(false);
    },
  );

  it("HA3 a reader keeps a body up to the limit, and then does not reuse the connection", () => {
    for (const head of [`${HEAD}Content-Length: 9\r\n\r\n`, `${HEAD}\r\n`]) {
      for (const length of LENGTHS)
        expect(read(split(`${head}123456789`, length), 4), head).toEqual({ code: 200, body: "1234", keeps: false });
    }
    expect(read([`${HEAD}Content-Length: 4\r\n\r\n1234`], 4)).toEqual({ code: 200, body: "1234", keeps: true });
  });

  it("reports its head once, before the body, with the first value of a repeated header", () => {
    const heads: Head[] = [];
    const reader = new AnswerReader(BYTES_MAX, (head) => heads.push(head));
    reader.push(
      Buffer.from(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429 Too Many\r\nRetry-After: 3 \r\nRetry-After: 4\r\nX: 1\r\nx: 2\r\n__proto__: z\r\n",
      ),
    );
    expect(heads).toEqual([]);
    reader.push(Buffer.from("Content-Length: 2\r\n\r\n"));
    expect(heads.map(({ code, headers }) => [code, { ...headers }])).toEqual([
      [429, { "retry-after": "3", x: "1", ["__proto__"]: "z", "content-length": "2" }],
    ]);
  });

  it("HA3 a response in many small chunks uses no more memory than its content", () => {
    const reader = new AnswerReader(10_000_000, () => undefined);
    reader.push(Buffer.from(`${HEAD}Transfer-Encoding: chunked\r\n\r\n`));
    const many = Buffer.from("1\r\nx\r\n".repeat(10_000));
    const before = process.memoryUsage().arrayBuffers;
    for (let i = 0; i < 20; i++) reader.push(many);
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(4_000_000);
    expect(reader.push(Buffer.from("0\r\n\r\n"))).toBe(true);
    expect(reader.bytes().toString()).toHaveLength(200_000);
  });
});
