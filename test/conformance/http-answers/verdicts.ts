/** The recorded verdicts of upstream's clients, one line each. */
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { ANSWERS, PATHS } from "./answers.ts";

export const VERDICTS = join(import.meta.dirname, "verdicts.jsonl");

/** `output` is empty for a failure without a status code. */
export type Verdict = readonly [
  probe: "success" | "warning" | "failure" | "broken body" | "invalid",
  output: string,
  hook: boolean,
  manifest: boolean,
];

export interface Verdicts {
  readonly answers: readonly Verdict[];
  readonly paths: readonly Verdict[];
  readonly tls: readonly Verdict[];
}

/** Digest of the recorded inputs; it reveals outdated verdicts. */
const digest = createHash("sha256")
  .update(JSON.stringify([ANSWERS, PATHS]))
  .digest("hex");

export function writtenVerdicts({ answers, paths, tls }: Verdicts): string {
  const lines = [...answers, ...paths, ...tls].map(([probe, output, hook, manifest]) => [probe, output, Number(hook), Number(manifest)]);
  return [digest, ...lines].map((line) => `${JSON.stringify(line)}\n`).join("");
}

/** @throws {Error} when the inputs have changed since the recording */
export function recordedVerdicts(): Verdicts {
  const [of, ...lines] = readFileSync(VERDICTS, "utf8")
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as unknown);
  if (of !== digest) throw new Error("the responses have changed: record the verdicts again with record.ts");
  const verdicts = (lines as [Verdict[0], string, number, number][]).map(([probe, output, hook, manifest]): Verdict => [
    probe,
    output,
    hook === 1,
    manifest === 1,
  ]); // the format that `record.ts` writes
  const [a, p] = [ANSWERS.length, ANSWERS.length + PATHS.length];
  return { answers: verdicts.slice(0, a), paths: verdicts.slice(a, p), tls: verdicts.slice(p) };
}
