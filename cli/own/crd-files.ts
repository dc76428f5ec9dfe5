/** CustomResourceDefinitions that deltaloop does not generate, for the in-memory API server of `dev FILE… --crds PATH`. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { isObject, UsageError } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";
import { parseYamlOrJson } from "@deltaloop/kube/yaml";
import type { Manifest } from "@deltaloop/sdk/definitions";

const BYTES_MAX = 64 * 2 ** 20;
const IS_MANIFEST = /\.(?:ya?ml|json)$/;
const DOCUMENT_END = /^---(?:[ \t].*)?$/m;

export interface CrdInFile {
  readonly file: string;
  /** `PLURAL.GROUP` */
  readonly name: string;
  readonly crd: Manifest;
}

/**
 * The CRDs in YAML or JSON files, of which one may have several documents and `List` objects. Other kinds are left out, since the files of a
 * product also contain its Deployments. Of a folder: its manifests, in order of their names; subfolders are not read.
 *
 * @throws {UsageError} for a path that cannot be read, a document that cannot be parsed, or a path without a CRD; one line that names it
 */
export function readCrds(paths: readonly string[]): readonly CrdInFile[] {
  return paths.flatMap((path) => {
    const found = filesOf(path).flatMap(crdsIn);
    if (found.length === 0)
      throw new UsageError(`--crds ${path} contains no CustomResourceDefinition: name the file that defines the kinds`);
    return found;
  });
}

function filesOf(path: string): readonly string[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (stat === undefined) throw new UsageError(`--crds ${path}: no such file or folder`);
  if (!stat.isDirectory()) return [path];
  return readdirSync(path)
    .filter((name) => IS_MANIFEST.test(name))
    .toSorted()
    .map((name) => join(path, name));
}

function crdsIn(file: string): readonly CrdInFile[] {
  const { size } = statSync(file);
  if (size > BYTES_MAX) throw new UsageError(`--crds ${file} has ${size} bytes; at most ${BYTES_MAX} are read`);
  return readFileSync(file, "utf8")
    .split(DOCUMENT_END)
    .flatMap((text, i) => {
      const value = parsed(file, i + 1, text);
      const objects =
        isObject(value) && value["kind"] === "List" && Array.isArray(value["items"]) ? (value["items"] as unknown[]) : [value];
      return objects.filter(isCrd).map((crd) => ({ file, name: crd.metadata.name, crd }));
    });
}

function parsed(file: string, number: number, text: string): unknown {
  try {
    return parseYamlOrJson(text);
  } catch (error) {
    throw new UsageError(`--crds ${file}, document ${number}: ${messageOf(error)}`);
  }
}

function isCrd(value: unknown): value is Manifest & { readonly metadata: { readonly name: string } } {
  if (!isObject(value) || value["kind"] !== "CustomResourceDefinition") return false;
  return isObject(value["metadata"]) && typeof value["metadata"]["name"] === "string";
}
