/** Splitting a byte stream into lines. [informer T23] */
import fc from "fast-check";
import { expect, it } from "vitest";

import { createLineSplitter } from "../../../../shared/kube/http/line-splitter.ts";
import { anyText } from "../../../support/any-text.ts";

it("yields the same lines wherever the stream is cut [informer T23]", () => {
  const line = anyText(20).map((text) => JSON.stringify(text));
  fc.assert(
    fc.property(fc.array(line, { maxLength: 20 }), fc.array(fc.nat(60), { maxLength: 40 }), (lines, sizes) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(""));
      const splitter = createLineSplitter();
      const seen: string[] = [];
      let start = 0;
      for (const size of [...sizes, bytes.length]) {
        seen.push(...splitter.push(bytes.subarray(start, start + size)));
        start += size;
      }
      expect(seen).toEqual(lines);
      expect(splitter.pendingBytes()).toBe(0);
    }),
  );
});

it("parses a line of 3 MiB that came in chunks of 64 KiB [informer T23]", () => {
  const line = JSON.stringify({ text: "ü".repeat((3 * 1024 * 1024) / 2) });
  const bytes = Buffer.from(`${line}\n`);
  const splitter = createLineSplitter();
  const seen: string[] = [];
  for (let start = 0; start < bytes.length; start += 65_535) seen.push(...splitter.push(bytes.subarray(start, start + 65_535)));
  expect(seen).toEqual([line]);
});

it("rejects a line over the limit, even before its newline arrives", () => {
  expect(() => createLineSplitter(10).push(Buffer.from("x".repeat(11)))).toThrow(RangeError);
  const splitter = createLineSplitter(10);
  splitter.push(Buffer.from("x".repeat(8)));
  expect(() => splitter.push(Buffer.from("yyy\nz\n"))).toThrow(RangeError);
  expect(createLineSplitter(10).push(Buffer.from("123456789\n\n1234567890\n"))).toEqual(["123456789", "1234567890"]);
});

it("does not yield a last line without a newline", () => {
  const splitter = createLineSplitter();
  expect(splitter.push(Buffer.from("a\nb"))).toEqual(["a"]);
  expect(splitter.pendingBytes()).toBe(1);
});
