/** The first finding of `explain` for each recorded incident, and their list in first-findings.txt. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { openCapture } from "../../../shared/replay/capture-format/capture-stream.ts";
import { StateCensus } from "../../../shared/replay/incident/cluster-state.ts";
import { verdictOf } from "../../../shared/replay/verdict/verdict.ts";
import type { Verdict } from "../../../shared/replay/verdict/verdict.ts";
import { INCIDENTS } from "./incidents.ts";

export const FIRST_FINDINGS = join(import.meta.dirname, "first-findings.txt");
const digester = createDigester("a key of these captures");

export function pathOf(name: string): string {
  return join(import.meta.dirname, `${name}.jsonl.gz`);
}

/** The verdict at the end of the recorded file. */
export async function recordedVerdict(name: string): Promise<Verdict> {
  const census = new StateCensus(digester);
  const capture = await openCapture(pathOf(name), { census });
  capture.close();
  const [resource = "", object = ""] = (INCIDENTS[name]?.subject ?? "deployments/web").split("/");
  // a resource of the scene
  const verdict = verdictOf(census.state(), { resource: resource as "deployments" | "replicasets", namespace: name, name: object });
  if (verdict === undefined) throw new Error(`${name} has no ${resource}/${object}`);
  return verdict;
}

/** Each incident with its first finding and the evidence, one paragraph per incident. */
export async function firstFindings(): Promise<string> {
  const paragraphs = Object.keys(INCIDENTS).map(async (name) => {
    const { findings, waits } = await recordedVerdict(name);
    const [first] = findings;
    const found = first?.words.cause ?? `none; it waits for ${waits[0]?.words ?? "nothing"}`;
    return `${name}\n  ${found}\n${first === undefined ? "" : `  evidence: ${first.evidence.join("; ")}\n`}`;
  });
  return (await Promise.all(paragraphs)).join("\n");
}

export async function writeFirstFindings(): Promise<void> {
  await writeFile(FIRST_FINDINGS, await firstFindings());
}
