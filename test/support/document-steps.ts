/** The code blocks of a document that say where they belong: ` ```sh cluster `, ` ```sh machine `, ` ```yaml /etc/file `. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { ROOT } from "./e2e.ts";

export type DocumentStep =
  | { readonly kind: "cluster" | "machine"; readonly section: string; readonly script: string }
  | { readonly kind: "file"; readonly section: string; readonly path: string; readonly content: string };

/** In their order. @throws when a block says nothing that is known */
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
    else throw new Error(`${document}: a block of ${section} does not say where it belongs: ${info}`);
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
