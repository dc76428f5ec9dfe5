/** KubeletConfigurations, compared with the kubelet's decoder on the same texts (kubelet-config-vectors/main.go). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

import { decodeKubeletConfig } from "../../cli/node/decode-kubelet-config.ts";

type Verdict = "taken" | "warned" | "refused";
type Vector = readonly [text: string, verdict: Verdict, message: string];
const VECTORS = readFileSync(join(import.meta.dirname, "kubelet-config-vectors/vectors.jsonl"), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => JSON.parse(line) as Vector);

/** Texts that the two decoders read differently. */
const KNOWN: ReadonlyMap<string, string> = new Map([
  ['{"apiVersion":"kubelet.config.k8s.io/v1beta1","kind":"KubeletConfiguration","maxPods":30.0}', "30.0 is 30 to JavaScript"],
  [
    "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nsystemReserved: &a {cpu: 1m}\nkubeReserved: {<<: *a, cpu: 2m}\n",
    "a merged key that is set again: the kubelet warns, and reads the same",
  ],
]);

describe("decodes a KubeletConfiguration like the kubelet", () => {
  it("has vectors of every kind", () => {
    for (const verdict of ["taken", "warned", "refused"]) expect(VECTORS.filter(([, one]) => one === verdict).length).toBeGreaterThan(15);
  });

  it("returns the kubelet's result for every text, except the known differences", () => {
    const differing = VECTORS.filter(([text, verdict]) => verdictOn(text).verdict !== verdict).map(([text]) => text);
    expect(differing.toSorted()).toEqual([...KNOWN.keys()].toSorted());
  });

  it("reports the unknown fields that the kubelet reports", () => {
    const wanted = VECTORS.filter(([, verdict, message]) => verdict === "warned" && message.includes("unknown field"));
    expect(wanted.length).toBeGreaterThan(10);
    for (const [text, , message] of wanted) {
      const fields = [...message.matchAll(/unknown field "([^"]*)"/gu)].map(([, field]) => field);
      expect({ text, unknown: verdictOn(text).unknown.toSorted() }).toEqual({ text, unknown: fields.toSorted() });
    }
  });
});

function verdictOn(text: string): { readonly verdict: Verdict; readonly unknown: readonly string[] } {
  try {
    const { mistakes, ignored, unknown } = decodeKubeletConfig(text);
    return { verdict: mistakes.length > 0 ? "refused" : ignored.length > 0 ? "warned" : "taken", unknown };
  } catch {
    return { verdict: "refused", unknown: [] };
  }
}
