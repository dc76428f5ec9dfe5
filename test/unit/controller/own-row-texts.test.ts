/** The short text form of user controllers' rows. Catches: a row that is read as a different object than the stored one. */
import { assert, constantFrom, date, dictionary, jsonValue, oneof, property, string, uuid } from "fast-check";
import { expect, it } from "vitest";
import { SIGNATURE_CHARACTERS } from "../../../shared/store/signer.ts";
import { ROW_TEXTS } from "../../../shared/controllers/own/row-texts.ts";

const word = constantFrom("metadata", "~own", "content", "status", "conditions", "type", "isOut", "\u0001", "\u001c", "\u001f", "\u007f");
const time = date({ noInvalidDate: true }).map((at) => at.toISOString().replace(/\.\d{3}/, ""));
const leaf = oneof(
  string({ unit: "binary" }),
  word,
  time,
  uuid(),
  constantFrom("2026-02-30T00:00:00Z", "2026-13-01T00:00:00Z", "1969-12-31T23:59:59Z"),
);

it("a shortened row is restored to the same JSON, and never contains the Store's separator", () => {
  const value = oneof(jsonValue(), leaf, dictionary(oneof(word, leaf), oneof(leaf, dictionary(word, leaf))));
  assert(
    property(value, (any) => {
      const json = JSON.stringify(any);
      const short = ROW_TEXTS.shorten(json);
      expect(short).not.toContain("\u001f");
      expect(ROW_TEXTS.restore(short)).toBe(json);
    }),
    { numRuns: 2_000 },
  );
});

const reference =
  `{"apiVersion":"demo.example.com/v1","kind":"Website","name":"many-95","uid":"1ca7e6c0-498e-4700-b1f0-ac0d434d1ff8",` +
  `"controller":true,"blockOwnerDeletion":true}`;
it.each([
  {
    what: "an owned object",
    json:
      `{"status":{},"metadata":{"generation":1,"ownerReferences":[${reference}],"creationTimestamp":"2026-11-30T01:11:10Z"},` +
      `"~own":{"content":"kBiH9jKJbGwuXaiM","status":"HKz2iWm7fjoJsbPS","isManaged":true,"isCreated":true}}`,
    most: 110,
  },
  { what: "a primary outside `where`", json: `{"metadata":{},"~own":{"isOut":true}}`, most: 1 },
])("shortens $what to at most $most bytes", ({ json, most }) => {
  expect(Buffer.byteLength(ROW_TEXTS.shorten(json))).toBeLessThanOrEqual(most);
});

it("shortens the last-write record of an object without reverts to at most 64 bytes with its signature, and restores every record unchanged", () => {
  const settled = { uid: "1ca7e6c0", sent: "kBiH9jKJbGwuXaiM", content: "HKz2iWm7fjoJsbPS", revertsMs: [] };
  expect(SIGNATURE_CHARACTERS + ROW_TEXTS.shorten(JSON.stringify(settled)).length).toBeLessThanOrEqual(64);
  const others = [
    { ...settled, content: "1234567" }, // a kind of which only metadata is watched
    { ...settled, content: "" },
    { ...settled, uid: "u" },
    { ...settled, sent: "NameTaken" },
    { ...settled, revertsMs: [1] },
    { ...settled, replaced: { sent: "HKz2iWm7fjoJsbPS", atMs: 1, generation: 2 } },
  ];
  for (const record of [settled, ...others])
    expect(JSON.parse(ROW_TEXTS.restore(ROW_TEXTS.shorten(JSON.stringify(record))))).toEqual(record);
});

it.each(["\u001c~", "\u001b", "\u001dzzzzzzz", "\u001e!", "\u001a\u0019"])("restores any text without failing, such as %j", (text) => {
  expect(() => ROW_TEXTS.restore(text)).not.toThrow();
});
