/** An object at one moment, for people. */
import { stringify } from "yaml";
import { RESOURCES } from "@deltaloop/kube/objects";
import type { Subject, Moment, Version } from "@deltaloop/replay/explain";
import { since } from "../command/moment.ts";
import { printable } from "@deltaloop/base/output";

/** What it was, as YAML, behind comments that say when it became so, what was before and what came next. */
export function versionText(
  { resource, namespace, name }: Subject,
  { before, now, next }: Moment,
  { atMs, startMs }: { readonly atMs: number; readonly startMs: number },
): string {
  const when = (ms: number): string => `${new Date(ms).toISOString()} (${since(ms, startMs)})`;
  const line = (what: string, version: Version | undefined): readonly string[] =>
    version === undefined ? [] : [`${what} ${version.gone ? "gone" : `version ${version.version}`} at ${when(version.atMs)}`];
  const state =
    now === undefined ? "not there yet" : now.gone ? `gone since ${when(now.atMs)}` : `version ${now.version}, since ${when(now.atMs)}`;
  const head = [
    `${RESOURCES[resource].kind} ${namespace}/${name} at ${when(atMs)}: ${state}`,
    ...line("before:", before),
    ...line("next:", next),
  ];
  const comments = head.map((text) => `# ${printable(text)}\n`).join("");
  if (now === undefined || now.gone) return comments;
  // Strings of strangers: quoted and escaped by the writer, line by line made safe for a terminal.
  const body = stringify(now.object, { lineWidth: 0 }).trimEnd().split("\n");
  return `${comments}${body.map((text) => `${printable(text)}\n`).join("")}`;
}
