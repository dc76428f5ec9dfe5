/** Sets the go.mod files of this folder to a release of Kubernetes, and reports pins that differ from it. */

import { join } from "node:path";

/** The file that defines `KUBERNETES_VERSION`. */
export const NAMED_IN = join(import.meta.dirname, "../../shared/kube/objects/release.ts");
/** The folders of the modules. */
export const MODULES = ["control-plane", "upstream-tests"] as const;

const KUBERNETES = "k8s.io/kubernetes";
/** etcdutl is not in upstream's go.mod; it is released with the etcd server under the same version. */
const ETCDUTL = "go.etcd.io/etcd/etcdutl/v3";
const ETCD_SERVER = "go.etcd.io/etcd/server/v3";

/** Versions of staging modules that module proxies lack, each with the previous patch release. No comparison uses endpoint slices. */
const MISSING: ReadonlyMap<string, string> = new Map([["k8s.io/endpointslice v0.32.13", "v0.32.12"]]);

/** Returns the version of a release's staging modules: `v0.9.1` for `v1.9.1`. */
export function stagingVersion(release: string): string {
  return release.replace(/^v1\./, "v0.");
}

/** The modules that a go.mod requires, with their versions. */
export function requiredIn(goMod: string): ReadonlyMap<string, string> {
  return new Map(
    [...goMod.matchAll(/^(?:require )?\s*(\S+\.\S+\/\S+) (v\S+)(?: \/\/ indirect)?$/gm)].map(([, path = "", version = ""]) => [
      path,
      version,
    ]),
  );
}

/** The modules in our `replace` directives, with their replacements. */
export function replacedIn(goMod: string): ReadonlyMap<string, string> {
  return new Map([...goMod.matchAll(/^\s*(k8s\.io\/\S+) => (\S+ v\S+)$/gm)].map(([, path = "", by = ""]) => [path, by]));
}

/**
 * Returns our go.mod with the pins of a release; `go mod tidy` then sets the indirect ones.
 *
 * @param upstream the release's own go.mod
 */
export function repinned(goMod: string, release: string, upstream: string): string {
  const staging = stagingModules(upstream);
  const version = stagingVersion(release);
  const lines = [...staging].map((path) => `\t${path} => ${path} ${MISSING.get(`${path} ${version}`) ?? version}\n`).join("");
  return goMod
    .replace(/^replace \([^)]*\)/m, `replace (\n${lines})`)
    .replaceAll(/^(\s*)(\S+\.\S+\/\S+) v[^\s]+((?: \/\/ indirect)?)$/gm, (line, space: string, path: string, note: string) => {
      const pin = wanted(path, release, upstream);
      // `go mod tidy` writes v0.0.0 for modules that only upstream requires; their version is in the `replace` directive.
      return pin === undefined || line.includes(" v0.0.0") ? line : `${space}${path} ${pin}${note}`;
    })
    .replace(/v0\.\S+ is v1\.\S+'s staging/, `${version} is ${release}'s staging`);
}

/** Returns one line for each pin in our go.mod that differs from the release's. */
export function wrongPins(goMod: string, release: string, upstream: string): readonly string[] {
  const required = [...requiredIn(goMod)].flatMap(([path, version]) => {
    const want = wanted(path, release, upstream);
    return want === undefined || want === version || version === "v0.0.0" ? [] : [`${path} ${version}, not ${want}`];
  });
  const replaced = replacedIn(goMod);
  const lines = [...new Set([...stagingModules(upstream), ...replaced.keys()])].flatMap((path) => {
    const want = stagingModules(upstream).has(path) ? `${path} ${stagingVersion(release)}` : undefined;
    return replaced.get(path) === want ? [] : [`replace ${path} => ${replaced.get(path) ?? "nothing"}, not ${want ?? "there"}`];
  });
  return [...required, ...lines];
}

/** The modules in upstream's own repository (staging). */
function stagingModules(upstream: string): ReadonlySet<string> {
  return new Set([...upstream.matchAll(/^\s*(k8s\.io\/\S+) => \.\/staging\//gm)].map(([, path = ""]) => path));
}

/** Returns undefined for modules that are not in upstream's go.mod. */
function wanted(path: string, release: string, upstream: string): string | undefined {
  if (path === KUBERNETES) return release;
  if (stagingModules(upstream).has(path)) return stagingVersion(release);
  return requiredIn(upstream).get(path === ETCDUTL ? ETCD_SERVER : path);
}
