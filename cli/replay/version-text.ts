/** An object at one time, as text. */
import { stringify } from "yaml";
import { objectName } from "../explain/subject.ts";
import type { Subject, Moment, Version } from "@deltaloop/replay/explain";
import { since } from "../command/moment.ts";
import { printable } from "@deltaloop/base/output";

/** Returns the object as YAML, after comments with the times of this version, the previous version and the next version. */
export function versionText(
  { resource, namespace, name }: Subject,
  { before, now, next }: Moment,
  { atMs, startMs }: { readonly atMs: number; readonly startMs: number },
): string {
  const when = (ms: number): string => `${new Date(ms).toISOString()} (${since(ms, startMs)})`;
  const line = (what: string, version: Version | undefined): readonly string[] =>
    version === undefined ? [] : [`${what} ${version.gone ? "deleted" : `version ${version.version}`} at ${when(version.atMs)}`];
  const state =
    now === undefined ? "not created yet" : now.gone ? `deleted at ${when(now.atMs)}` : `version ${now.version}, since ${when(now.atMs)}`;
  const head = [
    `${objectName(resource, name)} -n ${namespace} at ${when(atMs)}: ${state}`,
    ...line("before:", before),
    ...line("next:", next),
  ];
  const comments = head.map((text) => `# ${printable(text)}\n`).join("");
  if (now === undefined || now.gone) return comments;
  // The YAML writer quotes and escapes values; each line is then made safe for a terminal.
  const body = stringify(now.object, { lineWidth: 0 }).trimEnd().split("\n");
  return `${comments}${body.map((text) => `${printable(text)}\n`).join("")}`;
}
