/** Reads a manifest directory, or a single manifest (node-agent §2.2). */
import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Log } from "@deltaloop/base";
import { logPriorities, manifestPod, readManifest } from "./manifest.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Caches parsed manifests. Logs an error of a path once, until the error changes. */
export class ManifestReader {
  readonly #path: string;
  readonly #nodeName: string;
  readonly #log: Log;
  readonly #loggedErrors = new Map<string, string>();
  /** Parsed manifests by path. An unchanged manifest is not parsed again. */
  readonly #parsed = new Map<string, Parsed>();
  #pods: ReadonlyMap<string, NodePod> = new Map();

  constructor(path: string, { nodeName, log }: { readonly nodeName: string; readonly log: Log }) {
    this.#path = path;
    this.#nodeName = nodeName;
    this.#log = log;
  }

  /**
   * @returns undefined if the path cannot be read, so that the earlier pods are kept. Only a complete read removes the pod of an invalid
   * file.
   */
  async read(isWhole: boolean): Promise<readonly NodePod[] | undefined> {
    try {
      const found = await stat(this.#path);
      if (found.isDirectory()) return await this.#readDirectory(isWhole);
      if (!found.isFile()) throw new Error("neither a directory nor a file");
      const pod = await this.#podAt(this.#path);
      this.#loggedErrors.clear();
      return [pod];
    } catch (error) {
      this.#logOnce(this.#path, error);
      return isMissing(error) ? [] : undefined;
    }
  }

  async #readDirectory(isWhole: boolean): Promise<readonly NodePod[]> {
    const names = (await readdir(this.#path)).filter((name) => !name.startsWith(".")).toSorted();
    const pods = new Map<string, NodePod>();
    for (const path of names.map((name) => join(this.#path, name))) {
      try {
        const found = await stat(path);
        if (!found.isFile()) throw new Error(found.isDirectory() ? "subdirectories are ignored" : "not a file");
        pods.set(path, await this.#podAt(path));
        this.#loggedErrors.delete(path);
      } catch (error) {
        const known = this.#pods.get(path);
        if (known !== undefined && !isWhole && !isMissing(error)) pods.set(path, known);
        this.#logOnce(path, error);
      }
    }
    this.#loggedErrors.delete(this.#path);
    const paths = new Set(names.map((name) => join(this.#path, name)));
    for (const known of [this.#loggedErrors, this.#parsed]) for (const path of known.keys()) if (!paths.has(path)) known.delete(path);
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
      if ("pod" in parsed.outcome) logPriorities(this.#log, [parsed.outcome.pod]);
    }
    if ("error" in parsed.outcome) throw parsed.outcome.error;
    return parsed.outcome.pod;
  }

  #logOnce(path: string, error: unknown): void {
    const problem = messageOf(error);
    if (this.#loggedErrors.get(path) === problem) return;
    this.#loggedErrors.set(path, problem);
    this.#log.warn("failed to read manifest; manifest skipped", { path, error: problem });
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
