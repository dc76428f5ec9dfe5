/**
 * Every `Source:` of a comment, looked up in the sources of the Kubernetes release that test/envtest builds; after a build they are in Go's
 * module cache. Catches: a file that upstream moved or never had, and a name that the file no longer contains.
 *
 *     Source: pkg/kubelet/status/status_manager.go updateStatusInternal, normalizeStatus.
 *             ^ file, with enough of its path to be unique   ^ names that the file must contain
 *
 * A folder (`deployment/util`, `client-go`) stands for its Go files. A name without file or folder must be in a file that another comment
 * of the same source cites. Sources of other projects (`containerd …`, `AWS …`) are not looked up.
 */
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

import { expect, it } from "vitest";

import { sourceFiles } from "../../infra/build/cruise.ts";

const MODULES = join(import.meta.dirname, "..", "envtest", "control-plane");
/** Start of a source outside Kubernetes; everything up to the next semicolon is skipped. */
const OTHERS =
  /^(?:Go(?:'s)?|PKWARE|containerd|grpc|google\/|SQS|AWS|OCI|github\.com|reference\/|etcd|KEP|strconv|kubernetes\.io|authentication\.k8s\.io|shared\/|informer|deployment §|hack\/|reproducible-builds|POSIX|handlers' permissions|moby|docker|dockershim|pkg\/kubelet\/dockershim|libdocker|CNI|libcni|cri ExecSync|cri-streaming|request_cache|remotecommand|SPDY)/;
const NAME = /^[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*$/;

interface Claim {
  readonly at: string;
  readonly text: string;
}

interface Tree {
  /** The folder of each module, by module path. */
  readonly folders: ReadonlyMap<string, string>;
  /** Paths of modules that no build here uses, so that their content is not available. */
  readonly absent: readonly string[];
}

function upstream(): Tree | { readonly missing: string } {
  // Options with which Go downloads and writes nothing: a module that is not in the cache has no folder.
  const env = { ...process.env, GOFLAGS: "-mod=readonly", GOPROXY: "off", GOTOOLCHAIN: "local", GOWORK: "off" };
  // Lists modules by path: with "all", Go would also need modules that no build uses, and a machine that only ran builds lacks them.
  const parameters = ["list", "-m", "-f", "{{.Path}} {{.Dir}}", ...required(MODULES)];
  const { status, stdout } = spawnSync("go", parameters, { cwd: MODULES, env, encoding: "utf8" });
  if (status !== 0) return { missing: "there is no `go` on the PATH that lists the modules of test/envtest/control-plane" };
  const folders = new Map(
    stdout.split("\n").flatMap((line) => (/^k8s\.io\/\S+ ./.test(line) ? [line.split(" ") as [string, string]] : [])),
  );
  const kubernetes = folders.get("k8s.io/kubernetes");
  if (kubernetes === undefined) return { missing: "Kubernetes is not in Go's module cache; npm run test:e2e brings it" };
  const absent = required(kubernetes).filter((path) => !folders.has(path));
  return { folders, absent: absent.map((path) => path.slice("k8s.io/".length)) };
}

/** Returns the Kubernetes modules that a go.mod requires. */
function required(folder: string): readonly string[] {
  const text = readFileSync(join(folder, "go.mod"), "utf8");
  return [...new Set([...text.matchAll(/^\s*(?:require )?(k8s\.io\/\S+) v/gm)].map(([, path = ""]) => path))];
}

const tree = upstream();
if ("missing" in tree) it.skip(`sources of comments are not looked up: ${tree.missing}`);
else
  it("every Source: of a comment is in upstream's tree, with the names it gives", async () => {
    const paths = await filesOf(tree.folders);
    const claims = await claimsOf(process.cwd());
    expect(claims.length).toBeGreaterThan(300);
    const wrong = new Lookup(tree, paths).wrongIn(claims);
    expect(wrong).toEqual([]);
  });

async function filesOf(folders: ReadonlyMap<string, string>): Promise<readonly string[]> {
  const lists = [...folders].map(async ([path, folder]) => {
    const entries = await readdir(folder, { recursive: true });
    return entries.filter((entry) => /\.(?:go|proto|json)$/.test(entry) && !entry.endsWith("_test.go")).map((entry) => `${path}/${entry}`);
  });
  return (await Promise.all(lists)).flat();
}

async function claimsOf(root: string): Promise<readonly Claim[]> {
  const files = (await sourceFiles(root)).filter((file) => !file.includes("test/tooling/"));
  const claims = files.map(async (file) => {
    const text = await readFile(join(root, file), "utf8");
    const comments = text.match(/\/\*\*[^]*?\*\/|\/\/[^\n]*(?:\n\s*\/\/[^\n]*)*/g) ?? [];
    return comments.flatMap((comment) => {
      const [, ...sources] = comment
        .replace(/\s*\*\/$/, "")
        .replace(/\n\s*(?:\*|\/\/) ?/g, " ")
        .split("Source: ");
      return sources.map((source) => ({ at: file, text: source.replace(/ (?:Differs from upstream|@).*$/, "").trim() }));
    });
  });
  return (await Promise.all(claims)).flat();
}

/** Reads citations from left to right: a file or folder determines where to look for the names that follow it. */
class Lookup {
  readonly #tree: Tree;
  readonly #paths: readonly string[];
  readonly #texts = new Map<string, string>();
  readonly #found = new Map<string, readonly string[]>();

  constructor(tree: Tree, paths: readonly string[]) {
    this.#tree = tree;
    this.#paths = paths;
  }

  wrongIn(claims: readonly Claim[]): readonly string[] {
    return [...Map.groupBy(claims, ({ at }) => at)].flatMap(([at, ofFile]) => {
      const all = new Set<string>();
      return ofFile.flatMap(({ text }) => this.#wrong(text, all).map((what) => `${at}: no ${what} (${text})`));
    });
  }

  /** @param all the files that the comments of the same source have cited so far */
  #wrong(text: string, all: Set<string>): readonly string[] {
    const wrong: string[] = [];
    for (const part of text.split(/; ?/)) {
      if (OTHERS.test(part) || this.#tree.absent.some((name) => part.startsWith(`${name} `))) continue;
      let here: readonly string[] = [];
      for (const clause of part.replace(/\. [A-Z].*$/, "").split(/, /)) {
        const words = clause.split(/[\s()`]+/).map((word) => word.replace(/[.:,]+$/, ""));
        for (const path of words.filter((word) => /\/|\.go$/.test(word) || this.#isModule(word))) {
          const places = spread(path).map((each) => ({ each, files: this.#filesAt(each, here) }));
          wrong.push(...places.flatMap(({ each, files }) => (files.length === 0 ? [each] : [])));
          here = places.flatMap(({ files }) => files);
          for (const file of here) all.add(file);
        }
        const names = words.filter((word) => NAME.test(word) && !word.endsWith(".go") && !this.#isModule(word));
        // In a sentence, only words that cannot be English count as names.
        const sure = names.length === 1 && words.length <= 2 ? names : names.filter((word) => /[a-z][A-Z]|\w\.\w/.test(word));
        wrong.push(...sure.filter((name) => !this.#holds(here.length > 0 ? here : [...all], name)));
      }
    }
    return wrong;
  }

  /**
   * Returns the files whose path ends in `path`; for a folder, the files directly in it; for a module, all its files. If several match,
   * returns those in the module or folder that was cited just before.
   */
  #filesAt(path: string, before: readonly string[]): readonly string[] {
    let found = this.#found.get(path);
    if (found === undefined) {
      const rest = /\.(?:go|proto|json)$/.test(path) ? "$" : this.#isModule(path) ? "/" : "/[^/]+$";
      const pattern = path.replace("staging/src/", "").replaceAll(".", "\\.").replaceAll("*", "[^/]*");
      const end = new RegExp(`(?:^|/)${pattern}${rest}`);
      found = this.#paths.filter((each) => end.test(each));
      this.#found.set(path, found);
    }
    const folders = new Set(before.map(folderOf));
    const near = found.filter((each) => folders.has(folderOf(each)));
    return near.length > 0 ? near : found;
  }

  #isModule(word: string): boolean {
    return this.#tree.folders.has(`k8s.io/${word}`);
  }

  #holds(files: readonly string[], name: string): boolean {
    return name.split(".").every((part) => files.some((file) => new RegExp(`\\b${part}\\b`).test(this.#text(file))));
  }

  #text(file: string): string {
    const known = this.#texts.get(file);
    if (known !== undefined) return known;
    const [module = "", folder = ""] = [...this.#tree.folders].find(([path]) => file.startsWith(`${path}/`)) ?? [];
    const text = readFileSync(join(folder, file.slice(module.length + 1)), "utf8");
    this.#texts.set(file, text);
    return text;
  }
}

function folderOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}

/** Expands `{a,b}/c` to `a/c` and `b/c`. */
function spread(path: string): readonly string[] {
  const [all, options] = /\{([^}]*)\}/.exec(path) ?? [];
  return all === undefined || options === undefined ? [path] : options.split(",").map((option) => path.replace(all, option));
}
