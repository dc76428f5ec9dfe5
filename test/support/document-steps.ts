/** The code blocks of a document whose label says where they run: ` ```sh cluster `, ` ```sh machine `, ` ```yaml /etc/file `. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { ROOT } from "./e2e.ts";
import type { Cluster } from "./e2e.ts";

const run = promisify(execFile);
/** The node name that the documents use. */
const DOCUMENTS_NAME = "node-1";

export type DocumentStep =
  | { readonly kind: "cluster" | "machine"; readonly section: string; readonly script: string }
  | { readonly kind: "file"; readonly section: string; readonly path: string; readonly content: string };

/**
 * Returns the code blocks in document order.
 * @throws {Error} for a block with an unknown label
 */
export function stepsOf(document: string): readonly DocumentStep[] {
  const text = readFileSync(join(ROOT, document), "utf8");
  const steps: DocumentStep[] = [];
  let section = "";
  for (const [, heading, info = "", content = ""] of text.matchAll(/^## (.*)$|^```(\w.*)\n([\s\S]*?)^```$/gmu)) {
    if (heading !== undefined) {
      section = heading;
      continue;
    }
    const [, place = ""] = info.split(" ");
    if (place === "cluster" || place === "machine") steps.push({ kind: place, section, script: content });
    else if (place.startsWith("/")) steps.push({ kind: "file", section, path: place, content });
    else throw new Error(`${document}: a block of ${section} has no label for its place: ${info}`);
  }
  return steps;
}

/** Commands of a script, each on one line. */
export function commandsOf(script: string): readonly string[] {
  return script
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
}

/**
 * Runs a document's scripts against the cluster as an administrator, with this release's kubectl. They run in `folder`, which is created,
 * and their `node-1` is replaced by `name`.
 */
export async function administratorOf(cluster: Cluster, folder: string, name: string): Promise<(script: string) => Promise<void>> {
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) throw new Error(binaries.missing);
  const programs = join(folder, ".bin");
  await mkdir(programs, { recursive: true });
  await symlink(binaries.kubectl, join(programs, "kubectl"));
  const env = { ...process.env, KUBECONFIG: cluster.plane.adminKubeconfig, PATH: `${programs}:${process.env["PATH"]}` };
  return async (script) => {
    await run("bash", ["-c", `set -euo pipefail\n${script.replaceAll(DOCUMENTS_NAME, name)}`], { cwd: folder, env });
  };
}
