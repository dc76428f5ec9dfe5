/**
 * The findings of `deltaloop shadow`'s comparison on test/captures: one for each upstream write that no state explains, and one for each
 * write that ours would send while upstream is at rest.
 */
import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";

import { CONTROLLER_INFO, CONTROLLERS, RESOURCES } from "../../shared/kube/objects/resources.ts";
import type { Controller } from "../../shared/kube/objects/resources.ts";
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import type { Finding } from "../../shared/replay/shadow/recorded.ts";

/** The findings of the comparison for one key. */
export interface Difference {
  readonly atMs: number;
  readonly controller: Controller;
  readonly key: string;
}

const ENDING = ".watch.jsonl.gz";

/** The names of the recordings, smallest first. */
export function recordingNames(): readonly string[] {
  const folder = join(import.meta.dirname, "../captures");
  const files = readdirSync(folder).filter((file) => file.endsWith(ENDING));
  const sized = files.map((file) => ({ name: file.replace(ENDING, ""), size: statSync(join(folder, file)).size }));
  return sized.toSorted((a, b) => a.size - b.size).map(({ name }) => name);
}

export function differencesIn(finding: Finding): readonly Difference[] {
  if (finding.kind === "rest")
    return finding.ours.map((text) => {
      const [, controller = "", key = ""] = /^(\S+) (\S+): /.exec(text) ?? [];
      return { atMs: finding.atMs, controller: controllerNamed(controller), key };
    });
  const { write, verdict, atMs } = finding;
  if (["exact", "older", "tie"].includes(verdict.kind)) return [];
  const { controller, resource, namespace, name, object } = write;
  const isOwn = CONTROLLER_INFO[controller].primary === resource;
  return [{ atMs, controller, key: `${namespace}/${isOwn ? name : (controllerRef(object.metadata)?.name ?? name)}` }];
}

function controllerNamed(name: string): Controller {
  const found = CONTROLLERS.find((each) => each === name);
  if (found === undefined) throw new Error(`no controller ${name}; there are those of ${Object.keys(RESOURCES).join(", ")}`);
  return found;
}
