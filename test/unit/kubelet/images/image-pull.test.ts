// Would catch: a pull that the policy forbids, pulls without back-off, a pull that is never retried, and a misread image name.
import { describe, expect, it } from "vitest";
import {
  afterFailedPull,
  defaultPullPolicy,
  imageDecision,
  imageNameMistake,
  imageRef,
  pullBackOffKey,
} from "../../../../shared/node-agent/kubelet/images/image-pull.ts";
import type { BackOffEntry } from "../../../../shared/node-agent/ports/node-store.ts";
import { NOW_MS } from "../fixtures.ts";

const DIGEST = `sha256:${"0a".repeat(32)}`;

describe("imageDecision", () => {
  const failed: BackOffEntry = { delayMs: 20_000, lastUpdateMs: NOW_MS - 5000 };
  const backOff = { kind: "backOff", untilMs: NOW_MS + 15_000 };
  const table = [
    { policy: "Always", present: true, want: { kind: "pull" } },
    { policy: "Always", present: false, want: { kind: "pull" } },
    { policy: "IfNotPresent", present: true, want: { kind: "present" } },
    { policy: "IfNotPresent", present: false, want: { kind: "pull" } },
    { policy: "Never", present: true, want: { kind: "present" } },
    { policy: "Never", present: false, want: { kind: "never" } },
    { policy: "Always", present: true, entry: failed, want: backOff },
    { policy: "Always", present: false, entry: failed, want: backOff },
    { policy: "IfNotPresent", present: true, entry: failed, want: { kind: "present" } },
    { policy: "IfNotPresent", present: false, entry: failed, want: backOff },
    { policy: "Never", present: false, entry: failed, want: { kind: "never" } },
  ];
  it.each(table)(
    "decides $want.kind for imagePullPolicy $policy, image present: $present, back-off: $entry",
    ({ policy, present, entry, want }) => {
      expect(imageDecision({ policy, present, entry, nowMs: NOW_MS })).toEqual(want);
    },
  );

  it("pulls again exactly when the back-off ends", () => {
    const at = (nowMs: number) => imageDecision({ policy: "Always", present: false, entry: failed, nowMs }).kind;
    expect([at(NOW_MS + 14_999), at(NOW_MS + 15_000)]).toEqual(["backOff", "pull"]);
  });
});

describe("afterFailedPull", () => {
  const NONE = { reason: "ErrImagePull", message: "none" } as const;
  it("waits 10, 20, 40, 80, 160, 300, 300 s, and 10 s again when no pull failed for more than 10 min", () => {
    const seconds: number[] = [];
    let entry: BackOffEntry | undefined;
    let nowMs = NOW_MS;
    for (let failures = 0; failures < 7; failures++) {
      entry = afterFailedPull(entry, nowMs, NONE);
      seconds.push(entry.delayMs / 1000);
      nowMs += entry.delayMs;
    }
    expect(seconds).toEqual([10, 20, 40, 80, 160, 300, 300]);
    expect(afterFailedPull({ delayMs: 300_000, lastUpdateMs: NOW_MS }, NOW_MS + 600_000, NONE).delayMs).toBe(300_000);
    expect(afterFailedPull({ delayMs: 300_000, lastUpdateMs: NOW_MS }, NOW_MS + 600_001, NONE)).toEqual({
      delayMs: 10_000,
      lastUpdateMs: NOW_MS + 600_001,
      cause: "ErrImagePull: none",
    });
  });

  it("the back-off is counted per image and pod", () => {
    expect(pullBackOffKey("12345678", "foo:v1")).toBe("12345678_foo:v1");
  });
});

describe("image names", () => {
  const table = [
    { image: "foo", ref: "foo:latest", policy: "Always" },
    { image: "foo:latest", ref: "foo:latest", policy: "Always" },
    { image: "foo:v1", ref: "foo:v1", policy: "IfNotPresent" },
    { image: "library/foo", ref: "library/foo:latest", policy: "Always" },
    { image: "localhost/foo", ref: "localhost/foo:latest", policy: "Always" },
    { image: "localhost:5000/foo", ref: "localhost:5000/foo:latest", policy: "Always" },
    { image: "localhost:5000/foo:v1", ref: "localhost:5000/foo:v1", policy: "IfNotPresent" },
    { image: "[::1]:5000/foo", ref: "[::1]:5000/foo:latest", policy: "Always" },
    { image: "registry.k8s.io/e2e-test-images/agnhost:2.53", ref: "registry.k8s.io/e2e-test-images/agnhost:2.53", policy: "IfNotPresent" },
    { image: "Upper.test/a__b/c.d--e_f:V1.0-x_y", ref: "Upper.test/a__b/c.d--e_f:V1.0-x_y", policy: "IfNotPresent" },
    { image: "a_b.test/foo", ref: "a_b.test/foo:latest", policy: "Always" },
    { image: "Upper/foo", ref: "Upper/foo:latest", policy: "Always" },
    { image: `foo@${DIGEST}`, ref: `foo@${DIGEST}`, policy: "IfNotPresent" },
    { image: `foo:latest@${DIGEST}`, ref: `foo:latest@${DIGEST}`, policy: "Always" },
    { image: DIGEST, ref: DIGEST, policy: "IfNotPresent" },
  ];
  it.each(table)("$image is looked up as $ref, by default $policy", ({ image, ref, policy }) => {
    expect([imageNameMistake(image), imageRef(image), defaultPullPolicy(image)]).toEqual([undefined, ref, policy]);
  });

  const [format, lowercase] = ["invalid reference format", "must be lowercase"];
  const upper = (repository: string): string => `${format}: repository name (${repository}) ${lowercase}`;
  const invalid = [
    ["", format],
    ["Foo", upper("library/Foo")],
    ["Foo:v1", upper("library/Foo")],
    ["foo/Bar", upper("foo/Bar")],
    ["registry.test/Bar:V1", upper("Bar")],
    ["foo:", format],
    ["foo bar", format],
    [" foo", format],
    ["foo\n", format],
    ["foo//bar", format],
    ["/foo", format],
    ["foo/", format],
    ["-foo", format],
    ["foo___bar", format],
    ["foo:-v1", format],
    [`foo:${"a".repeat(129)}`, format],
    ["foo@sha256:abc", format],
    [`foo@md5:${"0a".repeat(16)}`, "unsupported digest algorithm"],
    [`foo@sha256:${"0A".repeat(32)}`, "invalid checksum digest format"],
    [`foo@sha256:${"0a".repeat(33)}`, "invalid checksum digest length"],
    ["0a".repeat(32), `invalid repository name (${"0a".repeat(32)}), cannot specify 64-byte hexadecimal strings`],
    ["https://registry.test/foo", format],
    [`registry.test/${"a".repeat(256)}`, "repository name must not be more than 255 characters"],
  ] as const;
  it.each(invalid)("[node-agent 233] %j is not a valid image name", (image, mistake) => {
    expect([imageNameMistake(image), imageRef(image), defaultPullPolicy(image)]).toEqual([mistake, image, "IfNotPresent"]);
  });
});
