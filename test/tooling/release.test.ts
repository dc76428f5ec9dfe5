/** The release of Kubernetes (shared/kube/objects/release.ts), compared with all files that state a release. */
import { spawnSync } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";

import { ACTING_RELEASES } from "../../shared/kube/releases.ts";
import { KUBERNETES_MAJOR, KUBERNETES_MINOR, KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { MODULES, NAMED_IN, replacedIn, repinned, requiredIn, stagingVersion, wrongPins } from "../envtest/pins.ts";

const goMod = (module: string): string => readFileSync(join("test/envtest", module, "go.mod"), "utf8");

/** A patch release of Kubernetes or of its staging modules; does not match other versions, such as `busybox:1.37.0-1`. */
const PATCH = /(?<![\w./:-])(?:(?:kubernetes|kubectl) |v|Kubernetes@v)[01]\.3\d\.\d+(?![\w.]|-\d)/g;
/** Files that state other releases, with the reason. */
const OTHERS: Readonly<Record<string, string>> = {
  "test/unit/cli/cluster/kubernetes-versions.test.ts": "which versions are supported",
  "docs/internals/spec/deployment.md": "compares releases",
  "docs/internals/spec/node-agent.md": "compares releases",
  "test/nodeconf/README.md": "names the release of its last whole run",
  "docs/reference/releases.md": "lists releases",
  "test/differential/releases.ts": "its usage names one",
  "test/envtest/release-module.ts": "lists the versions that can be built",
  "test/envtest/pins.ts": "names a version that module proxies lack",
  "test/tooling/release.test.ts": "this file",
  "test/bench/clusters/api-servers.ts": "upgrades of a cluster",
  "test/unit/cache/cluster-release.test.ts": "upgrades of the cluster",
  "test/unit/cache/watcher.test.ts": "upgrades of the cluster",
  "test/unit/api/releases.test.ts": "hashes of each release",
  "test/unit/cli/capture/recorded-upgrades.test.ts": "upgrades of the cluster",
  "test/unit/replay/capture.test.ts": "upgrades of the cluster",
  "test/unit/cli/doctor/judge.test.ts": "servers older and newer than ours",
};

describe("the release", () => {
  it.each(MODULES)("%s requires the pinned Kubernetes release, with all staging modules of one version", (module) => {
    const required = requiredIn(goMod(module));
    expect(required.get("k8s.io/kubernetes")).toBe(KUBERNETES_VERSION);
    const staging = stagingVersion(KUBERNETES_VERSION);
    const replaced = replacedIn(goMod(module));
    expect(replaced.size).toBeGreaterThan(30);
    expect([...replaced].filter(([path, by]) => by !== `${path} ${staging}`)).toEqual([]);
    const stray = [...replaced.keys()].filter((path) => ![staging, "v0.0.0", undefined].includes(required.get(path)));
    expect(stray).toEqual([]);
  });

  it("requires one version of each module that two modules require", () => {
    const [one = new Map<string, string>(), two = new Map<string, string>()] = MODULES.map((module) => requiredIn(goMod(module)));
    expect([...one].filter(([path, version]) => !["v0.0.0", version, undefined].includes(two.get(path)) && version !== "v0.0.0")).toEqual(
      [],
    );
    expect(one.get("go.etcd.io/etcd/etcdutl/v3")).toBe(one.get("go.etcd.io/etcd/server/v3"));
    expect(one.get("go.etcd.io/etcd/client/v3")).toBe(one.get("go.etcd.io/etcd/server/v3"));
  });

  it("the Kubernetes release is stated where set-release.ts replaces it", () => {
    expect(readFileSync(NAMED_IN, "utf8")).toContain(`"${KUBERNETES_VERSION}"`);
  });

  it("the Kubernetes release is supported", () => {
    expect(ACTING_RELEASES.map(({ name }) => name)).toContain(`${KUBERNETES_MAJOR}.${KUBERNETES_MINOR}`);
  });

  it("the Kubernetes release is the one in the documentation", () => {
    const files = globSync("**/*.{ts,md,yml,go}", { exclude: ["**/node_modules/**", "**/dist/**", "test/captures/**"] });
    expect(files.length).toBeGreaterThan(500);
    const ours = [KUBERNETES_VERSION, stagingVersion(KUBERNETES_VERSION)];
    const others = files
      .filter((file) => !(file in OTHERS))
      .flatMap((file) =>
        readFileSync(file, "utf8")
          .split("\n")
          .flatMap((line, i) =>
            (line.match(PATCH) ?? [])
              .filter((name) => !ours.some((own) => name.endsWith(own.slice(1))))
              .map((name) => `${file}:${i + 1} ${name}`),
          ),
      );
    expect(others).toEqual([]);
  });
});

const upstream = upstreamGoMod();
describe.skipIf(upstream === undefined)("the pins, by upstream's go.mod (skipped where Go's module cache has none)", () => {
  it.each(MODULES)("%s has upstream's versions", (module) => {
    expect(wrongPins(goMod(module), KUBERNETES_VERSION, upstream ?? "")).toEqual([]);
  });

  it.each(MODULES)("%s is unchanged by pinning it to its current release", (module) => {
    expect(
      repinned(goMod(module), KUBERNETES_VERSION, upstream ?? "").replaceAll(/(k8s\.io\/\S+) v\S+ \/\/ indirect/g, "$1 // indirect"),
    ).toBe(goMod(module).replaceAll(/(k8s\.io\/\S+) v\S+ \/\/ indirect/g, "$1 // indirect"));
  });
});

describe("an upgrade", () => {
  const next =
    "require (\n\tgo.etcd.io/etcd/server/v3 v3.7.0\n)\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/brand-new => ./staging/src/k8s.io/brand-new\n)\n";

  it("moves Kubernetes, its staging modules, etcd and its tool, and the replaced modules", () => {
    const moved = repinned(goMod("control-plane"), "v1.99.2", next);
    expect(requiredIn(moved).get("k8s.io/kubernetes")).toBe("v1.99.2");
    expect(requiredIn(moved).get("k8s.io/api")).toBe("v0.99.2");
    expect(requiredIn(moved).get("go.etcd.io/etcd/etcdutl/v3")).toBe("v3.7.0");
    expect([...replacedIn(moved)]).toEqual([
      ["k8s.io/api", "k8s.io/api v0.99.2"],
      ["k8s.io/brand-new", "k8s.io/brand-new v0.99.2"],
    ]);
    expect(wrongPins(moved, "v1.99.2", next)).toEqual([]);
    expect(wrongPins(goMod("control-plane"), "v1.99.2", next)).toEqual(
      expect.arrayContaining([
        `k8s.io/kubernetes ${KUBERNETES_VERSION}, not v1.99.2`,
        "replace k8s.io/brand-new => nothing, not k8s.io/brand-new v0.99.2",
      ]),
    );
  });
});

function upstreamGoMod(): string | undefined {
  const { stdout } = spawnSync("go", ["env", "GOMODCACHE"], { encoding: "utf8" });
  const file = join((stdout ?? "").trim(), "cache/download/k8s.io/kubernetes/@v", `${KUBERNETES_VERSION}.mod`);
  return existsSync(file) ? readFileSync(file, "utf8") : undefined;
}
