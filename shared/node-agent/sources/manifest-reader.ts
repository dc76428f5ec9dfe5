/** What stands in a directory of manifests, or in one manifest, at this moment (node-agent §2.2). */
import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Log } from "@deltaloop/base";
import { manifestPod, readManifest } from "./manifest.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Remembers what it read and what it complained of: each trouble is logged once, until it is another one. */
export class ManifestReader {
  readonly #path: string;
  readonly #nodeName: string;
  readonly #log: Log;
  readonly #complaints = new Map<string, string>();
  /** By path, so that a text that has not changed is parsed once. */
  readonly #parsed = new Map<string, Parsed>();
  #pods: ReadonlyMap<string, NodePod> = new Map();

  constructor(path: string, { nodeName, log }: { readonly nodeName: string; readonly log: Log }) {
    this.#path = path;
    this.#nodeName = nodeName;
    this.#log = log;
  }

  /** Undefined: nothing can be said; what was read before still counts. Only a whole reading gives up the pod of a bad file. */
  async read(isWhole: boolean): Promise<readonly NodePod[] | undefined> {
    try {
      const found = await stat(this.#path);
      if (found.isDirectory()) return await this.#readDirectory(isWhole);
      if (!found.isFile()) throw new Error("neither a directory nor a file");
      const pod = await this.#podAt(this.#path);
      this.#complaints.clear();
      return [pod];
    } catch (error) {
      this.#complain(this.#path, error);
      return isMissing(error) ? [] : undefined;
    }
  }

  async #readDirectory(isWhole: boolean): Promise<readonly NodePod[]> {
    const names = (await readdir(this.#path)).filter((name) => !name.startsWith(".")).toSorted();
    const pods = new Map<string, NodePod>();
    for (const path of names.map((name) => join(this.#path, name))) {
      try {
        const found = await stat(path);
        if (!found.isFile()) throw new Error(found.isDirectory() ? "directories of the directory are not entered" : "not a file");
        pods.set(path, await this.#podAt(path));
        this.#complaints.delete(path);
      } catch (error) {
        const known = this.#pods.get(path);
        if (known !== undefined && !isWhole && !isMissing(error)) pods.set(path, known);
        this.#complain(path, error);
      }
    }
    this.#complaints.delete(this.#path);
    const paths = new Set(names.map((name) => join(this.#path, name)));
    for (const known of [this.#complaints, this.#parsed]) for (const path of known.keys()) if (!paths.has(path)) known.delete(path);
    this.#pods = pods;
    return [...pods.values()];
  }

  async #podAt(path: string): Promise<NodePod> {
    const text = await readManifest(path);
    const digest = createHash("sha256").update(text).digest("base64");
    let parsed = this.#parsed.get(path);
    if (parsed?.digest !== digest) {
      parsed = { digest, outcome: outcomeOf(() => manifestPod(text, path, this.#nodeName)) };
      this.#parsed.set(path, parsed);
    }
    if ("error" in parsed.outcome) throw parsed.outcome.error;
    return parsed.outcome.pod;
  }

  #complain(path: string, error: unknown): void {
    const problem = messageOf(error);
    if (this.#complaints.get(path) === problem) return;
    this.#complaints.set(path, problem);
    this.#log.warn("a manifest is left out", { path, error: problem });
  }
}

interface Parsed {
  readonly digest: string;
  readonly outcome: { readonly pod: NodePod } | { readonly error: unknown };
}

function outcomeOf(parse: () => NodePod): Parsed["outcome"] {
  try {
    return { pod: parse() };
  } catch (error) {
    return { error };
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
