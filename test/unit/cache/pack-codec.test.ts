// The pack codec: SQS's character set, round trips, and decompression limits.
import { deflateRawSync } from "node:zlib";
import { expect, test } from "vitest";
import { encodePackText, packText } from "../../../shared/controllers/cache/messages/pack-codec.ts";

const ODD = 'emoji 😀, non-characters \ufffe\uffff, a lone half \ud800, quotes " and \\ and é';

test("sends a small body as plain JSON that SQS and its emulators accept, and reads it back unchanged", () => {
  const body = encodePackText(JSON.stringify({ note: ODD }));
  expect(body).not.toMatch(/[\ud800-\udfff\ufffe\uffff]/);
  expect(JSON.parse(packText(body))).toEqual({ note: ODD });
});

test("deflates a large body and reads it back unchanged", () => {
  const text = JSON.stringify({ note: ODD.repeat(2000) });
  const body = encodePackText(text);
  expect(body.length).toBeLessThan(text.length / 10);
  expect(body).toMatch(/^[\x20-\x7e]*$/);
  expect(JSON.parse(packText(body))).toEqual(JSON.parse(text));
});

test("rejects a payload that would inflate beyond a watcher's limit before inflating it", () => {
  const body = `deflate:${deflateRawSync(Buffer.alloc(100 * 1024 * 1024)).toString("base64")}`;
  const before = process.memoryUsage().rss;
  expect(() => packText(body)).toThrow(/larger than/);
  expect(process.memoryUsage().rss - before).toBeLessThan(32 * 1024 * 1024);
});

test("accepts the largest payloads of a watcher: 900 Ki characters of three bytes, 6,000 rows with the longest names", () => {
  const name = "n".repeat(253);
  const row = { key: `${"s".repeat(63)}/${name}`, uid: "u".repeat(36), rv: "9".repeat(20) };
  for (const content of [{ note: "\u6f22".repeat(900 * 1024) }, { rows: Array.from({ length: 6_000 }, () => row) }]) {
    const text = JSON.stringify(content);
    expect(packText(encodePackText(text))).toBe(text);
  }
});
