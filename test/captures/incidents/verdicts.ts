/** The first finding of `explain` for each recorded incident, and their list in first-findings.txt. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { openCapture } from "../../../shared/replay/capture-format/capture-stream.ts";
import { StateCensus } from "../../../shared/replay/incident/cluster-state.ts";
import type { ClusterState } from "../../../shared/replay/incident/cluster-state.ts";
import { verdictOf } from "../../../shared/replay/verdict/verdict.ts";
import type { Verdict } from "../../../shared/replay/verdict/verdict.ts";
import { INCIDENTS } from "./incidents.ts";
import { POST_MORTEMS } from "./post-mortems.ts";
import type { PostMortem } from "./post-mortems.ts";
import type { Scene } from "./stage.ts";

export const FIRST_FINDINGS = join(import.meta.dirname, "first-findings.txt");
const digester = createDigester("a key of these captures");
const SCENES: Readonly<Record<string, Scene & Partial<Pick<PostMortem, "source">>>> = {
  ...INCIDENTS,
  ...Object.fromEntries(Object.entries(POST_MORTEMS).map(([name, scene]) => [`post-mortems/${name}`, scene])),
};

export function pathOf(name: string): string {
  return join(import.meta.dirname, `${name}.jsonl.gz`);
}

/** The state at the end of the recorded file. */
export async function recordedState(name: string): Promise<ClusterState> {
  const census = new StateCensus(digester);
  const capture = await openCapture(pathOf(name), { census });
  capture.close();
  return census.state();
}

/** The verdict at the end of the recorded file. */
export async function recordedVerdict(name: string): Promise<Verdict> {
  const [namespace = ""] = name.split("/").slice(-1);
  const [resource = "", object = ""] = (SCENES[name]?.subject ?? "deployments/web").split("/");
  const subject = { resource: resource as "deployments" | "replicasets", namespace, name: object }; // from the scene
  const verdict = verdictOf(await recordedState(name), subject);
  if (verdict === undefined) throw new Error(`${name} has no ${resource}/${object}`);
  return verdict;
}

/** Each incident with its first finding, the evidence, and its public report, one paragraph per incident. */
export async function firstFindings(): Promise<string> {
  const paragraphs = Object.entries(SCENES).map(async ([name, { source }]) => {
    const { findings, waits } = await recordedVerdict(name);
    const [first] = findings;
    const found = first?.words.cause ?? `none; it waits for ${waits[0]?.words ?? "nothing"}`;
    const report = source === undefined ? "" : `  report: ${source.join(", ")}\n`;
    return `${name}\n  ${found}\n${first === undefined ? "" : `  evidence: ${first.evidence.join("; ")}\n`}${report}`;
  });
  return (await Promise.all(paragraphs)).join("\n");
}

export async function writeFirstFindings(): Promise<void> {
  await writeFile(FIRST_FINDINGS, await firstFindings());
}
