// Decoding of envelopes: signatures, versions, and validation of every field.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { decodeEnvelope } from "../../../shared/controllers/cache/messages/decode.ts";
import { encodePackText } from "../../../shared/controllers/cache/messages/pack-codec.ts";
import { signBody } from "../../../shared/controllers/cache/messages/signed-body.ts";
import { signedBody, testSigner } from "../../support/signer.ts";
import { anyText } from "../../support/any-text.ts";

const head = { v: 2, c: "c1", r: "pods", e: "e1", f: "7", g: 1, ln: 3, sq: 42, ts: 0 };
const body = (fields: object): string => JSON.stringify({ ...head, ...fields });
/** Reads `text` as if signed with the key of c1. */
const decode = (text: string) => decodeEnvelope(signedBody("c1", text), testSigner);
const row = { key: "shop/a", uid: "u", rv: "1" };

describe("decodeEnvelope", () => {
  it.each([
    { name: "deltas", fields: { k: "D", items: [] } },
    { name: "listed objects", fields: { k: "L", L: "9", items: [{}] } },
    { name: "a watermark", fields: { k: "W", rv: "9" } },
    { name: "a manifest", fields: { k: "M", L: "9", part: 1, parts: 1, rows: [row] } },
    { name: "versions beyond 2^64", fields: { k: "W", rv: "18446744073709551617", f: "18446744073709551616" } },
    { name: "unknown fields", fields: { k: "W", rv: "9", later: true } },
  ])("reads $name", ({ fields }) => {
    expect(decode(body(fields))).toEqual({ kind: "envelope", envelope: { ...head, ...fields } });
  });

  it.each([
    { name: "a body that is not JSON", text: "{", why: "not JSON" },
    { name: "a broken deflate", text: "deflate:AAAA", why: "not JSON" },
    { name: "a JSON list", text: "[]", why: "not a JSON object" },
    { name: "null", text: "null", why: "not a JSON object" },
    { name: "a body larger than a pack may be", text: JSON.stringify("x".repeat(5 * 1024 * 1024)), why: "larger than" },
    { name: "a missing version", text: '{"c":"c1"}', why: "v is undefined" },
    { name: "version 0", text: body({ v: 0 }), why: "v is 0" },
    { name: "version 1, unsigned", text: body({ v: 1 }), why: "v is 1" },
    { name: "a version as text", text: body({ v: "2" }), why: 'v is "2"' },
    { name: "a cluster other than the signer's", text: body({ c: "c2" }), why: "field c names a different cluster" },
    { name: "a numeric epoch", text: body({ e: 5 }), why: "e is not a string" },
    { name: "a fence that is not a version", text: body({ f: "abc", k: "W", rv: "1" }), why: "f is not a resourceVersion" },
    { name: "a negative sequence", text: body({ sq: -1 }), why: "sq is not a whole number" },
    { name: "a fractional lane", text: body({ ln: 0.5 }), why: "ln is not a whole number" },
    { name: "a resource that is not watched", text: body({ r: "secrets" }), why: 'r is "secrets"' },
    { name: "an unknown kind", text: body({ k: "X" }), why: 'k is "X"' },
    { name: "items that are not a list", text: body({ k: "D", items: {} }), why: "items is not a list" },
    { name: "listed objects without list version", text: body({ k: "L", items: [] }), why: "L is not a resourceVersion" },
    { name: "a watermark as text", text: body({ k: "W", rv: "soon" }), why: "rv is not a resourceVersion" },
    { name: "a manifest without list version", text: body({ k: "M", part: 1, parts: 1, rows: [] }), why: "L is not a resourceVersion" },
    { name: "a manifest without parts", text: body({ k: "M", L: "1", rows: [] }), why: "part or parts" },
    {
      name: "a manifest row without uid",
      text: body({ k: "M", L: "1", part: 1, parts: 1, rows: [{ key: "a/b", rv: "1" }] }),
      why: "a row is not",
    },
    { name: "an empty manifest row", text: body({ k: "M", L: "1", part: 1, parts: 1, rows: [null] }), why: "a row is not" },
  ])("rejects $name with a reason", ({ text, why }) => {
    expect(decode(text)).toMatchObject({ kind: "undecodable", why: expect.stringContaining(why) });
  });

  it("reports a newer envelope version as newer, not as invalid, whatever the rest of the message contains", () => {
    expect(decode('{"v":3,"what":"ever"}')).toEqual({ kind: "newer", why: "envelope version 3, this build reads up to 2", cluster: "c1" });
  });

  it("distinguishes an unknown view from an unknown resource", () => {
    const view = "websites.demo.example.com~team-guard~k3x9";
    const why = `view ${view} is unknown to this build`;
    expect(decode(body({ r: view, k: "W", rv: "1" }))).toEqual({ kind: "newer", why, cluster: "c1", view });
    expect(decode(body({ r: view, k: "X" }))).toMatchObject({ kind: "undecodable", view });
    for (const r of ["configmaps~a", "configmaps~a~", "~a~k3", "configmaps~a~k3~4", "configmaps~a b~k3"])
      expect(decode(body({ r, k: "W", rv: "1" }))).toMatchObject({ kind: "undecodable", why: expect.stringContaining("not a watched") });
  });

  it("reports the signing cluster of an unreadable envelope, and the resource if that can be read", () => {
    expect(decode(body({ k: "X" }))).toMatchObject({ cluster: "c1", resource: "pods" });
    expect(decode(body({ v: 3 }))).toMatchObject({ kind: "newer", cluster: "c1", resource: "pods" });
    expect(decode('{"v":2,"c":7}')).toMatchObject({ cluster: "c1" });
    expect(decode(body({ r: "secrets" }))).not.toHaveProperty("resource");
  });

  it("reads deflated envelopes, and the sender deflates large ones", () => {
    const text = body({ k: "D", items: Array.from({ length: 2_000 }, (_, i) => ({ ...row, key: `shop/${i}`, note: 'ü"\n' })) });
    const sent = encodePackText(text);
    expect(sent.length).toBeLessThan(text.length / 4);
    expect(sent).toMatch(/^deflate:[A-Za-z0-9+/=]+$/);
    expect(decodeEnvelope(signBody(testSigner("c1"), "c1", sent), testSigner)).toEqual({ kind: "envelope", envelope: JSON.parse(text) });
    expect(encodePackText(body({ k: "W", rv: "1" }))).toBe(body({ k: "W", rv: "1" }));
  });

  it("never throws, for any input", () => {
    const near = fc.record(
      {
        v: fc.constantFrom(1, 2, 3, "2", null),
        c: fc.anything(),
        r: fc.anything(),
        k: fc.constantFrom("D", "W", "M", "L", 5),
        items: fc.anything(),
        rows: fc.anything(),
        f: fc.anything(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          near.map((value) => JSON.stringify(value) ?? ""),
          fc.string().map((text) => `deflate:${text}`),
          anyText(10).map((text) => `c1.${text}`),
        ),
        (text) => {
          expect(["envelope", "undecodable", "newer"]).toContain(decode(text).kind);
          expect(decodeEnvelope(text, testSigner).kind).toBe("forged");
        },
      ),
    );
  });
});
