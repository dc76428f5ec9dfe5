// Ten incidents from public reports, recorded on real nodes. Would catch a cause that is not within the first five lines.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

import { expect, it } from "vitest";

import { verdictText, worstText } from "../../cli/explain/verdict-text.ts";
import { worstFirst } from "../../shared/replay/verdict/verdict.ts";
import { POST_MORTEMS } from "../captures/incidents/post-mortems.ts";
import { pathOf, recordedState, recordedVerdict } from "../captures/incidents/verdicts.ts";

const HEAD_LINES = 5;

function headOf(text: string): string {
  return text.split("\n").slice(0, HEAD_LINES).join(" ").replaceAll(/\s+/g, " ");
}

it.each(Object.entries(POST_MORTEMS))("%s", async (scene, { subject, says }) => {
  const name = `post-mortems/${scene}`;
  expect(gunzipSync(readFileSync(pathOf(name))).toString()).not.toContain("SECRET-value");
  const verdict = await recordedVerdict(name);
  const worst = headOf(worstText(worstFirst(await recordedState(name)), false));
  for (const head of [headOf(verdictText(verdict)), worst]) {
    expect(head).toContain(subject.slice("deployments/".length));
    for (const words of says) expect(head).toMatch(words);
  }
  const without = headOf(verdictText({ ...verdict, findings: verdict.findings.filter(({ kind }) => kind !== verdict.findings[0]?.kind) }));
  expect(says.every((words) => words.test(without))).toBe(false);
});

it("ten reports, each with its own cause", () => {
  const all = Object.values(POST_MORTEMS);
  expect(all).toHaveLength(10);
  expect(new Set(all.map(({ source: [, url] }) => url)).size).toBe(10);
  expect(new Set(all.map(({ cause }) => cause)).size).toBe(10);
});
