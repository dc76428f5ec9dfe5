// Signatures: keys, clusters, domains and rotation.
import { assert, array, constantFrom, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { createSigner, SIGNATURE_CHARACTERS } from "../../../shared/store/signer.ts";

const OLD = "an old key of the tests";
const NEW = "a new key of the tests";
const signer = createSigner([OLD], "0123456789ab");
const parts = ["e1", "pods", "shop/web-1", "uid", "812"];

describe("createSigner", () => {
  it("accepts its own signatures, which have the documented length", () => {
    const signature = signer.sign("v", parts);
    expect(signature).toHaveLength(SIGNATURE_CHARACTERS);
    expect(signer.verify("v", parts, signature)).toBe("current");
    expect(createSigner([OLD], "0123456789ab").sign("v", parts)).toBe(signature);
  });

  it.each([
    { name: "a changed part", verify: () => signer.verify("v", [...parts.slice(0, 4), "813"], signer.sign("v", parts)) },
    { name: "an additional part", verify: () => signer.verify("v", [...parts, ""], signer.sign("v", parts)) },
    { name: "another domain", verify: () => signer.verify("s", parts, signer.sign("v", parts)) },
    { name: "another cluster", verify: () => createSigner([OLD], "ffffffffffff").verify("v", parts, signer.sign("v", parts)) },
    { name: "a missing signature", verify: () => signer.verify("v", parts, "") },
    { name: "a shorter signature", verify: () => signer.verify("v", parts, signer.sign("v", parts).slice(0, -1)) },
    { name: "a longer signature", verify: () => signer.verify("v", parts, `${signer.sign("v", parts)}A`) },
    { name: "another key", verify: () => createSigner([NEW], "0123456789ab").verify("v", parts, signer.sign("v", parts)) },
  ])("verification fails with $name", ({ verify }) => {
    expect(["forged", "unknown"]).toContain(verify());
  });

  it("accepts two keys while one is replaced, and signs with one", () => {
    const before = createSigner([OLD, NEW], "c");
    const after = createSigner([NEW, OLD], "c");
    expect(after.verify("v", parts, before.sign("v", parts))).toBe("former");
    expect(before.verify("v", parts, after.sign("v", parts))).toBe("former");
    expect(after.verify("v", parts, after.sign("v", parts))).toBe("current");
    expect(createSigner([NEW], "c").verify("v", parts, before.sign("v", parts))).toBe("unknown");
    expect(after.keyId).not.toBe(before.keyId);
  });

  it("rejects a text with the signature of another text", () => {
    const text = string({ maxLength: 6, unit: constantFrom("a", "b", "/", "1") });
    assert(
      property(array(text), array(text), (a, b) => {
        const same = JSON.stringify(a) === JSON.stringify(b) || (a.length + b.length === 1 && a.join("") + b.join("") === "");
        expect(signer.verify("v", b, signer.sign("v", a)) === "current").toBe(same);
      }),
    );
  });

  it("requires a key, and distinct keys", () => {
    expect(() => createSigner([], "c")).toThrow("no MAC key");
    expect(() => createSigner([OLD, OLD], "c")).toThrow("same id");
  });
});
