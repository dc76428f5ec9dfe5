/** Digests of pod templates: equal for every spelling of a template, different for different templates. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createDigester, isAnnotationDigest, normalTemplate, templatesEqual } from "../../../shared/kube/pod-template/digest.ts";
import { parseExact } from "../../../shared/base/exact-json.ts";
import { RELEASED } from "../../../shared/kube/releases.ts";
import { podTemplateHashState } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import type { PodTemplateSpec } from "../../../shared/kube/objects/wire.ts";
import { arbitraryTemplate, neighbours, respelled } from "./arbitrary-template.ts";
import { template } from "./templates.ts";

const labelled = (labels: Record<string, string>, change: Parameters<typeof template>[0] = {}): PodTemplateSpec =>
  template({ ...change, metadata: { ...change.metadata, labels } });

describe("templatesEqual", () => {
  const app = { app: "web" };
  it.each<{ name: string; a: PodTemplateSpec; b: PodTemplateSpec; equal: boolean }>([
    { name: "same spec and labels", a: labelled(app), b: labelled(app), equal: true },
    {
      name: "hash label values differ",
      a: labelled({ ...app, "pod-template-hash": "1" }),
      b: labelled({ ...app, "pod-template-hash": "2" }),
      equal: true,
    },
    { name: "hash label on one side only", a: labelled({ ...app, "pod-template-hash": "1" }), b: labelled(app), equal: true },
    { name: "hash label alone against no labels", a: labelled({ "pod-template-hash": "1" }), b: labelled({}), equal: true },
    { name: "another label missing", a: labelled({ ...app, tier: "x" }), b: labelled(app), equal: false },
    { name: "another label different", a: labelled({ ...app, tier: "x" }), b: labelled({ ...app, tier: "y" }), equal: false },
    {
      name: "hash value equal, an extra label",
      a: labelled({ ...app, "pod-template-hash": "1" }),
      b: labelled({ ...app, "pod-template-hash": "1", tier: "x" }),
      equal: false,
    },
    {
      name: "annotations differ",
      a: labelled(app, { metadata: { annotations: { a: "1" } } }),
      b: labelled(app, { metadata: { annotations: { a: "2" } } }),
      equal: false,
    },
    {
      name: "name differs, same hash",
      a: labelled(app, { metadata: { name: "x" } }),
      b: labelled(app, { metadata: { name: "y" } }),
      equal: false,
    },
    {
      name: "name differs, different hash",
      a: labelled({ ...app, "pod-template-hash": "1" }, { metadata: { name: "x" } }),
      b: labelled({ ...app, "pod-template-hash": "2" }, { metadata: { name: "y" } }),
      equal: false,
    },
    {
      name: "nodeName differs",
      a: labelled(app, { spec: { nodeName: "x" } }),
      b: labelled(app, { spec: { nodeName: "y" } }),
      equal: false,
    },
  ])("[deployment T87] templatesEqual is $equal: $name", ({ a, b, equal }) => {
    expect(templatesEqual(a, b)).toBe(equal);
    expect(templatesEqual(b, a)).toBe(equal);
  });

  const container = (json: string): PodTemplateSpec => template({ container: JSON.parse(json) as object });
  const spec = (json: string): PodTemplateSpec => template({ spec: JSON.parse(json) as object });
  it.each<{ name: string; a: PodTemplateSpec; b: PodTemplateSpec; equal: boolean }>([
    { name: "an absent list and an empty one", a: template(), b: container('{"args":[],"env":null}'), equal: true },
    { name: "an absent and an empty map", a: template(), b: spec('{"nodeSelector":{}}'), equal: true },
    { name: "an absent and a false hostNetwork", a: template(), b: spec('{"hostNetwork":false}'), equal: true },
    { name: "absent and empty resources of a container", a: template(), b: container('{"resources":{"limits":{}}}'), equal: true },
    { name: "an absent and an empty securityContext", a: template(), b: container('{"securityContext":{}}'), equal: false },
    { name: "absent and empty resources of the pod", a: template(), b: spec('{"resources":{}}'), equal: false },
    {
      name: "an absent and a false automountServiceAccountToken",
      a: template(),
      b: spec('{"automountServiceAccountToken":false}'),
      equal: false,
    },
    {
      name: "an absent and a zero terminationGracePeriodSeconds",
      a: spec('{"terminationGracePeriodSeconds":null}'),
      b: spec('{"terminationGracePeriodSeconds":0}'),
      equal: false,
    },
    {
      name: "two notations of a quantity",
      a: container('{"resources":{"limits":{"cpu":"500m"}}}'),
      b: container('{"resources":{"limits":{"cpu":"0.5"}}}'),
      equal: true,
    },
    { name: "an absent and a zero initialDelaySeconds", a: delayed("null"), b: delayed("0"), equal: true },
    { name: "an absent limit and one of 0", a: container('{"resources":{"limits":{"cpu":"0"}}}'), b: template(), equal: false },
    { name: "an absent divisor and one of 0", a: divided('"0"'), b: divided("null"), equal: true },
    {
      name: "an absent sizeLimit and one of 0",
      a: spec('{"volumes":[{"name":"v","emptyDir":{}}]}'),
      b: spec('{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"0"}}]}'),
      equal: false,
    },
    { name: 'port 8080 and port "8080"', a: probed("8080"), b: probed('"8080"'), equal: false },
    { name: "the order of a list", a: container('{"args":["a","b"]}'), b: container('{"args":["b","a"]}'), equal: false },
    { name: "an empty argument", a: container('{"args":["a"]}'), b: container('{"args":["a",""]}'), equal: false },
    {
      name: "an empty env value and an absent one",
      a: container('{"env":[{"name":"A","value":""}]}'),
      b: container('{"env":[{"name":"A"}]}'),
      equal: true,
    },
    {
      name: "a text that looks like a quantity, in another field",
      a: container('{"args":["1000m"]}'),
      b: container('{"args":["1"]}'),
      equal: false,
    },
    {
      name: "one instant written in two time zones",
      a: created("2026-03-01T10:00:00Z"),
      b: created("2026-03-01T11:00:00+01:00"),
      equal: true,
    },
    { name: "two instants", a: created("2026-03-01T10:00:00Z"), b: created("2026-03-01T10:00:01Z"), equal: false },
    { name: "an unknown field on one side only", a: spec('{"evictionResponders":{}}'), b: template(), equal: false },
    { name: "an unknown field that is null or an empty list", a: spec('{"x":null,"y":[]}'), b: template(), equal: true },
    { name: "the keys' order in an unknown field", a: spec('{"x":{"a":1,"b":2}}'), b: spec('{"x":{"b":2,"a":1}}'), equal: true },
  ])("deployment §6.1: templatesEqual is $equal: $name", ({ a, b, equal }) => {
    expect(templatesEqual(a, b)).toBe(equal);
    expect(templatesEqual(b, a)).toBe(equal);
  });

  function divided(divisor: string): PodTemplateSpec {
    return container(`{"env":[{"name":"A","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":${divisor}}}}]}`);
  }
  function delayed(initialDelaySeconds: string): PodTemplateSpec {
    return container(`{"livenessProbe":{"initialDelaySeconds":${initialDelaySeconds}}}`);
  }
  function probed(port: string): PodTemplateSpec {
    return container(`{"livenessProbe":{"tcpSocket":{"port":${port}}}}`);
  }
  function created(creationTimestamp: string): PodTemplateSpec {
    return template({ metadata: { labels: app, creationTimestamp } });
  }
});

describe("normalTemplate", () => {
  it("the normal form is JSON with sorted keys, without the hash label, nulls, empty values and zeros", () => {
    const whole = JSON.parse(
      '{"metadata":{"labels":{"pod-template-hash":"x","b":"2","a":"1"},"creationTimestamp":null},"spec":{"hostNetwork":false,"securityContext":{},"containers":[{"resources":{"requests":{"cpu":"10m"}},"name":"c","args":[]}]}}',
    ) as PodTemplateSpec;
    expect(normalTemplate(whole)).toBe(
      '{"metadata":{"labels":{"a":"1","b":"2"}},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"10000000"}}}],"securityContext":{}}}',
    );
  });

  it("does not modify its input", () => {
    const whole = labelled({ app: "web", "pod-template-hash": "1" });
    const before = structuredClone(whole);
    normalTemplate(whole);
    expect(whole).toEqual(before);
  });

  it("the normal form is equal for every notation of a template", () => {
    fc.assert(
      fc.property(arbitraryTemplate, fc.infiniteStream(fc.nat()), (whole, numbers) => {
        const other = respelled(whole, (n) => (numbers.next().value as number) % n);
        expect(normalTemplate(other)).toBe(normalTemplate(whole));
      }),
      { numRuns: 300 },
    );
  });

  it("differs after any single change", () => {
    fc.assert(
      fc.property(arbitraryTemplate, (whole) => {
        const normal = normalTemplate(whole);
        const missed = neighbours(whole).filter((neighbour) => normalTemplate(neighbour.template) === normal);
        expect(missed.map(({ change }) => change)).toEqual([]);
      }),
      { numRuns: 100 },
    );
  });
});

describe("createDigester", () => {
  const digester = createDigester("a key of the tests");

  it("returns <keyId>.<form>.<HMAC-SHA-256>, without any part of the key", () => {
    expect(digester.prefix).toMatch(/^[0-9a-f]{8}\.2-1_37$/);
    expect(digester.digest(template())).toMatch(/^[0-9a-f]{8}\.2-1_37\.[0-9a-f]{64}$/);
    expect(digester.digest(template()).startsWith(`${digester.prefix}.`)).toBe(true);
  });

  it("the digester uses the start of the key's SHA-256 as the key's id", () => {
    // printf 'a key of the tests' | sha256sum
    expect(digester.prefix.slice(0, 8)).toBe("773a4fa2");
  });

  it("the digest of a fixed template is pinned, so that a change of the normal form requires a new form number", () => {
    expect(digester.digest(template()).slice(-64)).toBe("282dabd4eb723301b78696942f46f61cc581c23e0b0c69642a88022ee0f9592a");
  });

  it("accepts a key as text or bytes", () => {
    expect(createDigester(Buffer.from("a key of the tests")).digest(template())).toBe(digester.digest(template()));
  });

  it("yields another prefix and another digest under another key", () => {
    const other = createDigester("another key");
    expect(other.prefix).not.toBe(digester.prefix);
    expect(other.digest(template()).slice(-64)).not.toBe(digester.digest(template()).slice(-64));
  });

  it("the digest is unaffected by later changes of the key's bytes", () => {
    const key = Buffer.from("a key of the tests");
    const made = createDigester(key);
    key.fill(0);
    expect(made.digest(template())).toBe(digester.digest(template()));
  });

  it("[deployment T87] ignores pod-template-hash in the digest, but no other label", () => {
    expect(digester.digest(labelled({ app: "web", "pod-template-hash": "1" }))).toBe(digester.digest(labelled({ app: "web" })));
    expect(digester.digest(labelled({ app: "web" }))).not.toBe(digester.digest(labelled({ app: "api" })));
  });

  it("[deployment T130] distinguishes integers that are the same JavaScript number", () => {
    const seconds = (digits: string): PodTemplateSpec => {
      const text = JSON.stringify({ spec: { template: template() } }).replace('PeriodSeconds":30', `PeriodSeconds":${digits}`);
      return (parseExact(text) as { readonly spec: { readonly template: PodTemplateSpec } }).spec.template;
    };
    const templates = ["9007199254740992", "9007199254740993", "9223372036854775806", "9223372036854775807"].map(seconds);
    expect(new Set(templates.map((each) => digester.template(each, true).digest)).size).toBe(4);
    expect(new Set(templates.map((each) => digester.template(each, true).hashStates?.["1.36"])).size).toBe(4);
    expect(normalTemplate(seconds("9223372036854775807"))).toContain('"terminationGracePeriodSeconds":9223372036854775807');
  });

  it("rejects an empty key", () => {
    expect(() => createDigester("")).toThrow(RangeError);
  });

  it("digests an annotation by key and value in a separate form", () => {
    const digest = digester.annotation("kubernetes.io/change-cause", "image");
    expect(digest).toMatch(/^773a4fa2\.a1\.[0-9a-f]{32}$/);
    expect(isAnnotationDigest(digest)).toBe(true);
    expect(isAnnotationDigest(digester.digest(template()))).toBe(false);
    expect(digester.annotation("kubernetes.io/change-cause", "image")).toBe(digest);
    for (const [key, value] of [
      ["kubernetes.io/change-cause", "image2"],
      ["kubernetes.io/change-caus", "eimage"],
      ["other", "image"],
    ] as const)
      expect(digester.annotation(key, value)).not.toBe(digest);
    expect(createDigester("another key").annotation("kubernetes.io/change-cause", "image").slice(-32)).not.toBe(digest.slice(-32));
  });

  it("caches the results for a template", () => {
    const asked = createDigester("key");
    fc.assert(
      fc.property(arbitraryTemplate, fc.array(fc.boolean(), { minLength: 1, maxLength: 4 }), (one, ways) => {
        for (const withHashStates of ways)
          expect(asked.template(one, withHashStates)).toEqual({
            digest: asked.digest(one),
            ...(withHashStates && {
              hashStates: Object.fromEntries(RELEASED.map((release) => [release.name, podTemplateHashState(one, release)])),
            }),
          });
      }),
    );
    const many = Array.from({ length: 600 }, (_, index) => labelled({ app: `web-${index}` }));
    const digests = many.map((one) => asked.template(one, true));
    expect(new Set(digests.map(({ digest }) => digest)).size).toBe(600);
    expect(many.toReversed().map((one) => asked.template(one, true))).toEqual(digests.toReversed());
  });
});
