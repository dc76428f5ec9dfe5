/** What stands in a directory of manifests, or in one manifest, at this moment (node-agent §2.2). */
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { NodePod } from "../kubelet/types/pod.ts";
import type { Log } from "@deltaloop/base";
import { readManifest } from "./manifest.ts";
import { messageOf } from "@deltaloop/kube/objects";

/** Remembers what it read and what it complained of: each trouble is logged once, until it is another one. */
export class ManifestReader {
  readonly #path: string;
  readonly #nodeName: string;
  readonly #log: Log;
  readonly #complaints = new Map<string, string>();
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
      const pod = await readManifest(this.#path, this.#nodeName);
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
        pods.set(path, await readManifest(path, this.#nodeName));
        this.#complaints.delete(path);
      } catch (error) {
        const known = this.#pods.get(path);
        if (known !== undefined && !isWhole && !isMissing(error)) pods.set(path, known);
        this.#complain(path, error);
      }
    }
    this.#complaints.delete(this.#path);
    for (const path of this.#complaints.keys()) if (!names.some((name) => join(this.#path, name) === path)) this.#complaints.delete(path);
    this.#pods = pods;
    return [...pods.values()];
  }

  #complain(path: string, error: unknown): void {
    const problem = messageOf(error);
    if (this.#complaints.get(path) === problem) return;
    this.#complaints.set(path, problem);
    this.#log.warn("a manifest is left out", { path, error: problem });
  }
}

export function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
