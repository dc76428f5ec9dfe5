/** The conformance suite of Secrets (shared/store/ports/secrets.ts), for every kind of storage. */
import { describe, expect, it } from "vitest";

import { SecretError, type Secrets } from "../../shared/store/ports/secrets.ts";

/** `reference` refers to the secret of that name, whose value `make` has set. */
export function secretsConformance(
  name: string,
  make: (values: Readonly<Record<string, string>>) => Promise<{ readonly secrets: Secrets; readonly reference: (name: string) => string }>,
): void {
  describe(`secrets: ${name}`, () => {
    it("SR1 returns the value of each reference in any order, and of a repeated one once", async () => {
      const values = Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`many-${index}`, `value ${index} "grüße" \n{}`]));
      const { secrets, reference } = await make(values);
      const names = Object.keys(values);
      const got = await secrets.read([...names, ...names].map(reference));
      expect(Object.fromEntries(got)).toEqual(Object.fromEntries(names.map((each) => [reference(each), values[each]])));
    });

    it("SR1 SR2 a read of several secrets fails as a whole, and reports missing secrets without values", async () => {
      const { secrets, reference } = await make({ good: "CANARY-good-s3cret" });
      const error: unknown = await secrets.read(["good", "gone", "away"].map(reference)).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(SecretError);
      expect((error as SecretError).problems.map((line) => /^(\S+): /.exec(line)?.[1]).toSorted()).toEqual(["away", "gone"].map(reference));
      expect(String(error)).not.toContain("CANARY");
    });

    it("SR2 an error does not quote an invalid reference, because that may be a secret in the wrong place", async () => {
      const { secrets } = await make({});
      const error: unknown = await secrets.read(["rediss://user:CANARY-url@host"]).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(SecretError);
      expect(String(error)).not.toContain("CANARY");
    });

    it("SR3 returns the last written value", async () => {
      const { secrets, reference } = await make({ key: "one" });
      for (const value of ["two", "three, with more text"]) {
        await secrets.write(reference("key"), value);
        expect((await secrets.read([reference("key")])).get(reference("key"))).toBe(value);
      }
    });
  });
}
