/** Decoding of doorbell messages. */
import fc from "fast-check";
import { expect, it } from "vitest";

import { decodeDoorbell } from "../../../shared/controllers/lambda/doorbell-message.ts";

const GOOD = { v: 1, c: "5d3f00aa11bb", ctl: "replicaset", e: "e1", k: "shop/web", u: "u1", o: "o1" };

it("reads messages of createSqsDoorbells, with and without uids", () => {
  expect(decodeDoorbell(JSON.stringify(GOOD))).toEqual({ kind: "bell", message: GOOD });
  const { u: _u, o: _o, ...bare } = GOOD;
  expect(decodeDoorbell(JSON.stringify(bare))).toEqual({ kind: "bell", message: bare });
});

const BAD = [
  { name: "a body that is not JSON", body: "{", why: /not JSON/ },
  { name: "an unsupported version", body: JSON.stringify({ ...GOOD, v: 2 }), why: /^v: / },
  { name: "an unknown controller", body: JSON.stringify({ ...GOOD, ctl: "daemonset" }), why: /^ctl: / },
  { name: "a key without namespace", body: JSON.stringify({ ...GOOD, k: "web" }), why: /^k: / },
  { name: "a missing epoch", body: JSON.stringify({ ...GOOD, e: undefined }), why: /^e: |"e"/ },
  { name: "a JSON list", body: "[]", why: /./ },
] as const;

it.each(BAD)("rejects a message and states the reason: $name", ({ body, why }) => {
  expect(decodeDoorbell(body)).toEqual({ kind: "undecodable", why: expect.stringMatching(why) });
});

it("[informer T120] reads the longest key that an API server allows", () => {
  const message = { ...GOOD, k: `${"n".repeat(63)}/${"w".repeat(253)}` };
  expect(decodeDoorbell(JSON.stringify(message))).toEqual({ kind: "bell", message });
});

it.each(["v", "c", "ctl", "e", "k"])("[informer T120] logs an invalid body of a megabyte in %s as one short line", (field) => {
  const text = "x".repeat(1_000_000);
  const decoded = decodeDoorbell(JSON.stringify({ ...GOOD, [field]: field === "k" ? `shop/${text}` : field === "e" ? [text] : text }));
  expect(decoded).toEqual({ kind: "undecodable", why: expect.stringMatching(new RegExp(`^${field}: .{1,200}$`)) });
});

it("never throws, for any body", () => {
  fc.assert(fc.property(fc.oneof(fc.string(), fc.json()), (body) => ["bell", "undecodable"].includes(decodeDoorbell(body).kind)));
});
