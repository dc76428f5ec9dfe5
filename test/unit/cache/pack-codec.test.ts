// Would catch: a body that SQS refuses for one character, or that comes back as another text.
import { expect, test } from "vitest";
import { encodePackText, packText } from "../../../shared/cache/pack-codec.ts";

const ODD = 'emoji 😀, non-characters \ufffe\uffff, a lone half \ud800, quotes " and \\ and é';

test("a small body is plain ASCII-safe JSON where SQS and its emulators are picky, and reads back the same", () => {
  const body = encodePackText(JSON.stringify({ note: ODD }));
  expect(body).not.toMatch(/[\ud800-\udfff\ufffe\uffff]/);
  expect(JSON.parse(packText(body))).toEqual({ note: ODD });
});

test("a large body is deflated and reads back the same", () => {
  const text = JSON.stringify({ note: ODD.repeat(2000) });
  const body = encodePackText(text);
  expect(body.length).toBeLessThan(text.length / 10);
  expect(body).toMatch(/^[\x20-\x7e]*$/);
  expect(JSON.parse(packText(body))).toEqual(JSON.parse(text));
});
