/** The captured streams of a real control plane: upstream's hashes, and `strip`. */
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { createDigester, templatesEqual } from "../../../shared/kube/pod-template/digest.ts";
import { controllerRef } from "../../../shared/kube/objects/owner-references.ts";
import { isActive, isReady } from "../../../shared/kube/objects/pod.ts";
import { podTemplateHash, podTemplateHashState } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import { compareResourceVersions } from "../../../shared/kube/objects/resource-version.ts";
import { CACHED_RESOURCES, type CachedResource } from "../../../shared/kube/objects/resources.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import { releaseOfCapture } from "../../captures/releases.ts";
import type { Deployment, KubeObject, PodTemplateSpec, ReplicaSet } from "../../../shared/kube/objects/wire.ts";

interface Line {
  readonly r: CachedResource;
  readonly type: string;
  readonly object: KubeObject;
}

const NAMES = ["adopt-release", "pause-resume", "rc-quota", "recreate", "rolling-update", "rollover", "scale-up-down", "undo"];
const captures = NAMES.map((name) => ({ name, lines: readCapture(new URL(`../../captures/${name}.watch.jsonl.gz`, import.meta.url)) }));

/** The events of the cached resources, without bookmarks and stream ends. */
function readCapture(file: URL): readonly Line[] {
  const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split("\n");
  return lines
    .map((line) => JSON.parse(line) as Line)
    .filter(({ r, type }) => CACHED_RESOURCES.includes(r) && ["ADDED", "MODIFIED", "DELETED"].includes(type));
}

/** Each ReplicaSet that a Deployment has created, with the Deployment's last earlier state. */
const made = captures.flatMap(({ name, lines }) => {
  const deployments = lines.filter(({ r }) => r === "deployments").map(({ object }) => object as unknown as Deployment);
  const added = lines.filter(({ r, type }) => r === "replicasets" && type === "ADDED").map(({ object }) => object);
  return added.flatMap((rs) => {
    const owner = controllerRef(rs.metadata);
    const states = deployments.filter(
      (d) => d.metadata?.uid === owner?.uid && isOlder(d.metadata?.resourceVersion, rs.metadata.resourceVersion),
    );
    const deployment = states.reduce<Deployment | undefined>(
      (newest, d) => (isOlder(d.metadata?.resourceVersion, newest?.metadata?.resourceVersion) ? newest : d),
      undefined,
    );
    return deployment === undefined ? [] : [{ capture: name, rs: rs as unknown as ReplicaSet, rsName: rs.metadata.name, deployment }];
  });
});

function isOlder(a: string | undefined, b: string | undefined): boolean {
  return a !== undefined && b !== undefined && compareResourceVersions(a, b) < 0;
}

describe("pod-template-hash of captured ReplicaSets", () => {
  it("the captures contain ReplicaSets whose Deployment has the same template", () => {
    const counts = Object.entries(Object.groupBy(made, ({ capture }) => capture)).map(([capture, rss]) => [capture, rss?.length]);
    expect(Object.fromEntries(counts)).toEqual({
      "pause-resume": 2,
      recreate: 2,
      "rolling-update": 2,
      rollover: 4,
      "scale-up-down": 1,
      undo: 3,
    });
  });

  it.each(made)(
    "$capture: the name of $rsName has the hash computed from its Deployment's template",
    ({ capture, rs, rsName, deployment }) => {
      const hash = podTemplateHash(
        podTemplateHashState(templateOf(deployment), releaseOfCapture(capture)),
        deployment.status?.collisionCount,
      );
      expect(rsName).toBe(`${deployment.metadata?.name}-${hash}`);
      expect(rs.metadata?.labels?.["pod-template-hash"]).toBe(hash);
      expect(templatesEqual(templateOf(rs), templateOf(deployment))).toBe(true);
    },
  );

  function templateOf(object: Deployment | ReplicaSet): PodTemplateSpec {
    return object.spec?.template ?? {};
  }
});

describe("strip of captured objects", () => {
  const digester = createDigester("a key of the tests");

  it.each(captures)("$name: strips every object of template and env values, and changes nothing the second time", ({ lines }) => {
    for (const { r, object } of lines) {
      const stripped = strip(r, object, digester);
      const text = JSON.stringify(stripped);
      expect(strip(r, JSON.parse(text), digester)).toStrictEqual(JSON.parse(text));
      for (const value of ["containers", "env", "COLOR", '"blue"', "image", "managedFields", "last-applied"])
        expect(text).not.toContain(value);
    }
    expect(lines.length).toBeGreaterThan(5);
  });

  it("the projection of a live, ready pod takes at most 450 bytes", () => {
    const pods = captures.flatMap(({ lines }) =>
      lines.filter(({ r }) => r === "pods").map(({ object }) => strip("pods", object, digester)),
    );
    const sizes = pods.filter((pod) => isActive(pod) && isReady(pod)).map((pod) => JSON.stringify(pod).length);
    expect(sizes.length).toBeGreaterThan(50);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(450);
  });

  it("digests distinguish the templates of a Deployment's ReplicaSets, and identify the current one", () => {
    for (const { rs, deployment } of made) {
      const own = strip("deployments", deployment, digester).spec.template;
      const theirs = made
        .filter((other) => other.deployment.metadata?.uid === deployment.metadata?.uid)
        .map((other) => strip("replicasets", other.rs, digester));
      expect(theirs.filter((other) => other.spec.template?.digest === own.digest).map((other) => other.metadata.name)).toEqual([
        rs.metadata?.name,
      ]);
    }
  });
});
