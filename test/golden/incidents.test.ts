// Incidents recorded on real nodes (test/captures/incidents). Would catch a cause that is not the first finding, and secrets in a capture.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { expect, it } from "vitest";

import { verdictText } from "../../cli/explain/verdict-text.ts";
import { INCIDENTS } from "../captures/incidents/incidents.ts";
import { FIRST_FINDINGS, firstFindings, pathOf, recordedVerdict } from "../captures/incidents/verdicts.ts";

/** Limits of a verdict. */
const [HEAD_LINES, LINES_MAX, COLUMNS] = [5, 25, 80];

it.each(Object.entries(INCIDENTS))(
  "%s: the verdict begins with the expected finding, and fits on a screen",
  async (name, { finding, wait }) => {
    expect(gunzipSync(readFileSync(pathOf(name))).toString()).not.toContain("SECRET");
    const verdict = await recordedVerdict(name);
    const [first] = verdict.findings;
    expect({ finding: first?.kind, wait: wait && verdict.waits[0]?.kind }).toEqual({ finding, wait });
    const lines = verdictText(verdict).trimEnd().split("\n");
    expect(lines.length).toBeLessThanOrEqual(LINES_MAX);
    expect(lines.filter(({ length }) => length > COLUMNS)).toEqual([]);
    if (first?.level !== "cause") return;
    const head = lines.slice(0, HEAD_LINES).join(" ").replaceAll(/\s+/g, " ");
    expect(head).toContain(first.words.cause);
  },
);

it("first-findings.txt contains the first findings and their evidence", async () => {
  expect(readFileSync(FIRST_FINDINGS, "utf8")).toBe(await firstFindings());
});

it("all fields of one request get the same writer, even if a capture has the writer for some fields only", async () => {
  const { changes } = await recordedVerdict("out-of-memory");
  expect(new Set(changes.map(({ manager }) => manager))).toEqual(new Set(["kubectl-client-side-apply"]));
  expect(changes.length).toBeGreaterThan(4);
});
