/** strip: the kept and the removed fields, idempotence, and MalformedObjectError as the only exception. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { CachedPod } from "../../../shared/kube/objects/cached.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { MalformedObjectError } from "../../../shared/kube/objects/errors.ts";
import { deepFreeze } from "../../../shared/base/freeze.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { strip } from "../../../shared/kube/strip/strip.ts";
import { template } from "./templates.ts";

const digester = createDigester("a key of the tests");
const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

const metadata = (change: object = {}): object => ({
  name: "web",
  namespace: "shop",
  uid: "u1",
  resourceVersion: "812",
  creationTimestamp: "2026-03-01T10:00:00Z",
  managedFields: [{ manager: "kubectl", fieldsV1: { "f:spec": {} } }],
  ...change,
});

const IDENTITY = { namespace: "shop", name: "web", uid: "u1", resourceVersion: "812" };

const pod = (change: { metadata?: object; spec?: object; status?: object } = {}): object => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: metadata({ labels: { app: "web" }, ...change.metadata }),
  spec: { containers: [{ name: "c", image: "web:1", env: [{ name: "TOKEN", value: "s3cret" }] }], nodeName: "n1", ...change.spec },
  status: { phase: "Running", ...change.status },
});

const BASE: CachedPod = {
  ...IDENTITY,
  labels: { app: "web" },
  creationTimestamp: "2026-03-01T10:00:00Z",
  nodeName: "n1",
  phase: "Running",
};

describe("strip of a pod", () => {
  const reference = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "rs", uid: "u9", controller: true, blockOwnerDeletion: true };
  const owner = { kind: "ReplicaSet", name: "rs", uid: "u9" };
  const counts = (...restartCounts: number[]): object[] =>
    restartCounts.map((restartCount, index) => ({ name: `c${index}`, restartCount }));
  const sidecars = [{ name: "c0", restartPolicy: "Always" }, { name: "c1" }, { name: "c2", restartPolicy: "Always" }];

  it.each<{ name: string; pod: object; want: CachedPod }>([
    { name: "keeps the fields of replicaset §2", pod: pod(), want: BASE },
    {
      name: "keeps the deletion cost as written",
      pod: pod({ metadata: { annotations: { "controller.kubernetes.io/pod-deletion-cost": "-x", other: "s3cret" } } }),
      want: { ...BASE, deletionCost: "-x" },
    },
    {
      name: "keeps the controller reference, without its flags",
      pod: pod({ metadata: { ownerReferences: [{ ...reference, uid: "u8", controller: false }, reference] } }),
      want: { ...BASE, owner },
    },
    {
      name: "keeps the first of two controllers",
      pod: pod({ metadata: { ownerReferences: [reference, { ...reference, uid: "u8" }] } }),
      want: { ...BASE, owner },
    },
    {
      name: "ignores owners that are not controllers",
      pod: pod({ metadata: { ownerReferences: [{ ...reference, controller: false }] } }),
      want: BASE,
    },
    {
      name: "keeps the deletionTimestamp",
      pod: pod({ metadata: { deletionTimestamp: "2026-03-01T10:05:00Z" } }),
      want: { ...BASE, deletionTimestamp: "2026-03-01T10:05:00Z" },
    },
    {
      name: "keeps the Ready condition's status and time",
      pod: pod({
        status: {
          conditions: [
            { type: "Initialized", status: "True" },
            { type: "Ready", status: "False", reason: "x", lastTransitionTime: "2026-03-01T10:00:02Z" },
          ],
        },
      }),
      want: { ...BASE, ready: { status: "False", since: "2026-03-01T10:00:02Z" } },
    },
    {
      name: "keeps a Ready condition without a time",
      pod: pod({ status: { conditions: [{ type: "Ready", status: "True", lastTransitionTime: null }] } }),
      want: { ...BASE, ready: { status: "True" } },
    },
    {
      name: "keeps the highest restart count",
      pod: pod({ status: { containerStatuses: counts(1, 4, 2) } }),
      want: { ...BASE, restarts: 4 },
    },
    { name: "leaves out restarts of 0", pod: pod({ status: { containerStatuses: counts(0, 0) } }), want: BASE },
    {
      name: "counts the restarts of sidecar containers separately",
      pod: pod({ spec: { initContainers: sidecars }, status: { containerStatuses: counts(1), initContainerStatuses: counts(2, 9, 3) } }),
      want: { ...BASE, restarts: 1, sidecarRestarts: 3 },
    },
    {
      name: "ignores the restarts of plain init containers",
      pod: pod({ spec: { initContainers: [{ name: "c0" }] }, status: { initContainerStatuses: counts(2) } }),
      want: BASE,
    },
    {
      name: "omits empty values",
      pod: { metadata: metadata({ labels: {}, annotations: {}, creationTimestamp: null }), spec: { nodeName: "" }, status: {} },
      want: IDENTITY,
    },
    { name: "accepts absent spec and status", pod: { metadata: metadata({ creationTimestamp: undefined }) }, want: IDENTITY },
  ])("strip of a pod $name", ({ pod, want }) => {
    const stripped = strip("pods", deepFreeze(pod), digester);
    expect(stripped).toStrictEqual(want);
    expect(strip("pods", deepFreeze(stripped), digester)).toStrictEqual(want);
  });

  it("drops unknown fields of a flat pod", () => {
    const flat = {
      ...BASE,
      spec: { containers: [{ env: "s3cret" }] },
      owner: { ...owner, env: "s3cret" },
      ready: { status: "True", message: "s3cret" },
    };
    expect(strip("pods", flat, digester)).toStrictEqual({ ...BASE, owner, ready: { status: "True" } });
  });
});

describe("strip of a workload", () => {
  const spec = { replicas: 3, minReadySeconds: 5, selector: { matchLabels: { app: "nginx" } }, aFieldOfTheFuture: { a: [1] } };
  const status = { replicas: 3, observedGeneration: 2, conditions: [{ type: "Foreign", status: "True" }] };
  const workload = (change: { metadata?: object; spec?: object } = {}): object => ({
    apiVersion: "apps/v1",
    kind: "X",
    metadata: metadata({
      labels: { app: "web" },
      annotations: { a: "1", [LAST_APPLIED]: '{"env":"s3cret"}' },
      generation: 2,
      finalizers: ["f"],
      ...change.metadata,
    }),
    spec: { ...spec, template: template({ container: { env: [{ name: "TOKEN", value: "s3cret" }] } }), ...change.spec },
    status,
  });
  const { managedFields: _managedFields, ...meta } = metadata({
    labels: { app: "web" },
    annotationDigests: { a: digester.annotation("a", "1") },
    generation: 2,
    finalizers: ["f"],
  }) as { managedFields: unknown };
  const labels = { app: "nginx" };
  const digest = digester.digest(template({ container: { env: [{ name: "TOKEN", value: "s3cret" }] } }));
  const { hashStates } = digester.template(template({ container: { env: [{ name: "TOKEN", value: "s3cret" }] } }), true);

  it.each([
    { resource: "replicasets", cached: { labels, digest } },
    { resource: "replicationcontrollers", cached: { labels, digest } },
    { resource: "deployments", cached: { labels, digest, hashStates } },
  ] as const)(
    "$resource: keeps all metadata except two fields, all of spec with the template replaced, and all of status",
    ({ resource, cached }) => {
      const want = { metadata: meta, spec: { ...spec, template: cached }, status };
      const stripped = strip(resource, deepFreeze(workload()), digester);
      expect(stripped).toStrictEqual(want);
      expect(strip(resource, deepFreeze(stripped), digester)).toStrictEqual(want);
    },
  );

  it("treats the single hash state in an older capture as release 1.36's", () => {
    const older = { metadata: meta, spec: { ...spec, template: { digest, hashState: 7 } }, status };
    expect(strip("deployments", older, digester).spec.template).toStrictEqual({ digest, hashStates: { "1.36": 7 } });
    const odd = { ...older, spec: { ...spec, template: { digest, hashStates: { "1.36": "7" } } } };
    expect(strip("deployments", odd, digester).spec.template).toStrictEqual({ digest });
  });

  it("drops annotations completely when last-applied was the only one", () => {
    const stripped = strip("replicasets", workload({ metadata: { annotations: { [LAST_APPLIED]: "{}" } } }), digester);
    expect(stripped.metadata).not.toHaveProperty("annotations");
  });

  const annotated = (metadata: object) =>
    strip("replicasets", deepFreeze(workload({ metadata: { annotations: {}, ...metadata } })), digester).metadata;
  const own = digester.annotation("kubernetes.io/change-cause", "s3cret");

  it.each([
    { name: "is read by a decision is kept in plain text", annotations: { "deployment.kubernetes.io/revision": "3" }, clear: true },
    { name: "requests a rollback is kept in plain text", annotations: { "deprecated.deployment.rollback.to": "0" }, clear: true },
    { name: "belongs to a controller is kept in plain text", annotations: { "controller.kubernetes.io/x": "1" }, clear: true },
    { name: "only resembles a plain-text annotation is digested", annotations: { "deployment.kubernetes.io": "s3cret" } },
    {
      name: "only ends in the key of a plain-text annotation is digested",
      annotations: { "x.deployment.kubernetes.io/revision": "s3cret" },
    },
    { name: "contains the change cause is digested", annotations: { "kubernetes.io/change-cause": "s3cret" } },
    {
      name: "holds a manifest is digested",
      annotations: { "kapp.k14s.io/original": '{"env":"s3cret"}', "banzaicloud.com/last-applied": "s3cret" },
    },
    { name: "looks like a digest is digested", annotations: { "kubernetes.io/change-cause": own } },
    { name: "is empty is digested", annotations: { empty: "" } },
  ])("an annotation that $name", ({ annotations, clear }) => {
    const stripped = annotated({ annotations });
    const digests = Object.fromEntries(Object.entries(annotations).map(([key, value]) => [key, digester.annotation(key, value)]));
    expect(stripped).toMatchObject(clear ? { annotations } : { annotationDigests: digests });
    expect(stripped).not.toHaveProperty(clear ? "annotationDigests" : "annotations");
    expect(JSON.stringify(stripped)).not.toContain("s3cret");
    if (annotations["kubernetes.io/change-cause"] === own) expect(JSON.stringify(stripped)).not.toContain(own);
  });

  it.each([
    { name: "a value among the digests", metadata: { annotationDigests: { a: "s3cret" } }, want: undefined },
    { name: "a value that starts like a digest", metadata: { annotationDigests: { a: `${own}s3cret` } }, want: undefined },
    { name: "a list of digests", metadata: { annotationDigests: [own] }, want: undefined },
    {
      name: "a digest of a plain-text annotation",
      metadata: { annotationDigests: { "deployment.kubernetes.io/revision": own } },
      want: undefined,
    },
    {
      name: "a digest of an annotation that is never sent",
      metadata: { annotationDigests: { [LAST_APPLIED]: own } },
      want: undefined,
    },
    {
      name: "a digest beside a value, from which a new digest is computed",
      metadata: { annotations: { a: "s3cret" }, annotationDigests: { a: own } },
      want: { a: digester.annotation("a", "s3cret") },
    },
    {
      name: "a value that is not text",
      metadata: { annotations: { a: { env: "s3cret" }, b: 1, "deployment.kubernetes.io/revision": ["s3cret"] } },
      want: undefined,
    },
  ])("drops invalid digests and plain values of annotations: $name", ({ metadata, want }) => {
    const stripped = annotated(metadata);
    expect(stripped.annotationDigests).toEqual(want);
    expect(stripped).not.toHaveProperty("annotations");
  });

  it("keeps the digest of an annotation that was made with another key", () => {
    const foreign = createDigester("another key").annotation("a", "1");
    expect(annotated({ annotationDigests: { a: foreign } }).annotationDigests).toEqual({ a: foreign });
  });

  it("keeps the hash label among the template's labels, without effect on the digest", () => {
    const hashed = { ...labels, "pod-template-hash": "7f8fbb96d" };
    const changed = template({ metadata: { labels: hashed }, container: { env: [{ name: "TOKEN", value: "s3cret" }] } });
    expect(strip("replicasets", workload({ spec: { template: changed } }), digester).spec.template).toStrictEqual({
      labels: hashed,
      digest,
    });
  });

  it("keeps the digest of a template that was made with another key", () => {
    const other = strip("deployments", workload(), createDigester("another key"));
    expect(strip("deployments", other, digester)).toStrictEqual(other);
  });

  it.each([
    { name: "metadata and spec", disguised: { ...template(), digest: "00000000.2-1_36.00" } },
    { name: "a spec", disguised: { spec: template().spec, digest: "00000000.2-1_36.00" } },
    { name: "metadata", disguised: { metadata: template().metadata, digest: "00000000.2-1_36.00" } },
  ])("computes the digest of a template that has $name, whatever digest it contains", ({ disguised }) => {
    const stripped = strip("replicasets", workload({ spec: { template: disguised } }), digester);
    expect(stripped.spec.template?.digest).toMatch(new RegExp(`^${digester.prefix}`));
  });

  it("drops unknown fields of a stripped template", () => {
    const stripped = strip("replicasets", workload({ spec: { template: { digest: "d", labels, env: "s3cret" } } }), digester);
    expect(stripped.spec.template).toStrictEqual({ labels, digest: "d" });
  });

  it.each([null, undefined, "s3cret", ["s3cret"]])("a ReplicationController has no template if its template is %j", (absent) => {
    expect(strip("replicationcontrollers", workload({ spec: { template: absent } }), digester).spec).toStrictEqual(spec);
  });

  it("a workload has an empty status if none was sent", () => {
    expect(strip("replicasets", { metadata: metadata(), spec: {} }, digester).status).toStrictEqual({});
  });
});

describe("strip of a malformed object", () => {
  it.each([
    { name: "null instead of fields", object: null, problem: "not an object" },
    { name: "list elements instead of fields", object: [], problem: "not an object" },
    { name: "no metadata", object: {}, problem: "no metadata" },
    { name: "metadata of another type", object: { metadata: "x" }, problem: "no metadata" },
    { name: "no name", object: { metadata: metadata({ name: undefined }) }, problem: "no name" },
    { name: "no namespace", object: { metadata: metadata({ namespace: "" }) }, problem: "no namespace", key: "web" },
    { name: "no uid", object: { metadata: metadata({ uid: undefined }) }, problem: "no uid", key: "shop/web" },
    {
      name: "no resourceVersion",
      object: { metadata: metadata({ resourceVersion: 812 }) },
      problem: "no resourceVersion",
      key: "shop/web",
    },
    {
      name: "a resourceVersion that is not an integer",
      object: { metadata: metadata({ resourceVersion: "abc" }) },
      problem: "resourceVersion is not a decimal integer",
      key: "shop/web",
    },
  ])("rejects an object with $name as malformed", ({ object, problem, key }) => {
    for (const resource of CACHED_RESOURCES) {
      const error = thrownBy(() => strip(resource, object, digester));
      expect(error).toBeInstanceOf(MalformedObjectError);
      expect(error).toMatchObject({
        resource,
        problem,
        message: `malformed object of ${resource}${key === undefined ? "" : ` ${key}`}: ${problem}`,
      });
    }
  });

  it("rejects a Deployment without a template as malformed", () => {
    expect(thrownBy(() => strip("deployments", { metadata: metadata(), spec: { replicas: 1 } }, digester))).toMatchObject({
      problem: "no spec.template",
      key: "shop/web",
    });
  });

  it("rejects a flat pod without a uid as malformed", () => {
    expect(thrownBy(() => strip("pods", { ...BASE, uid: undefined }, digester))).toMatchObject({ problem: "no uid", key: "shop/web" });
  });
});

describe("strip of arbitrary objects", () => {
  const word = fc.constantFrom(digester.annotation("a", "1"), "web", "shop", "1", "812", "Always", "Ready", "True", "s3cret", "");
  const key = fc.constantFrom(
    "annotationDigests",
    "kubernetes.io/change-cause",
    "deployment.kubernetes.io/revision",
    ..."metadata name namespace uid resourceVersion labels annotations ownerReferences controller kind managedFields".split(" "),
    ..."spec template digest hashState hashStates containers initContainers restartPolicy env status conditions type".split(" "),
    ..."containerStatuses restartCount ready owner since phase pod-template-hash".split(" "),
    LAST_APPLIED,
  );
  const leaf = fc.oneof(word, fc.boolean(), fc.integer(), fc.constant(null));
  const { json } = fc.letrec<{ json: unknown }>((tie) => ({
    json: fc.oneof(
      { maxDepth: 5, depthSize: "medium" },
      leaf,
      fc.dictionary(key, tie("json"), { maxKeys: 6 }),
      fc.array(tie("json"), { maxLength: 3 }),
    ),
  }));
  const identified = fc
    .tuple(fc.dictionary(key, json, { maxKeys: 6 }), fc.dictionary(key, json, { maxKeys: 4 }), fc.dictionary(key, json))
    .map(([object, meta, spec]) => ({
      ...object,
      metadata: { ...meta, ...IDENTITY },
      spec: { template: {}, ...spec },
    }));
  const anyObject = fc.oneof(
    json,
    identified,
    identified.map((object) => ({ ...object, metadata: undefined, ...IDENTITY })),
  );

  it.each(CACHED_RESOURCES)("%s: throws MalformedObjectError, or returns an object that a second strip does not change", (resource) => {
    let passed = 0;
    fc.assert(
      fc.property(anyObject, (object) => {
        const once = settled(() => strip(resource, deepFreeze(object), digester));
        if (once instanceof MalformedObjectError) return;
        passed++;
        expect(strip(resource, JSON.parse(JSON.stringify(once)), digester)).toStrictEqual(JSON.parse(JSON.stringify(once)));
      }),
      { numRuns: 500 },
    );
    expect(passed).toBeGreaterThan(20);
  });

  it("pods: keeps only the projection's own fields", () => {
    const shape: { readonly [K in keyof Required<CachedPod>]: true } = {
      namespace: true,
      name: true,
      uid: true,
      resourceVersion: true,
      labels: true,
      deletionCost: true,
      owner: true,
      creationTimestamp: true,
      deletionTimestamp: true,
      nodeName: true,
      phase: true,
      ready: true,
      restarts: true,
      sidecarRestarts: true,
    };
    fc.assert(
      fc.property(identified, (object) => {
        const stripped = strip("pods", object, digester);
        expect(Object.keys(stripped).filter((field) => !(field in shape))).toEqual([]);
        expect(Object.keys(stripped.owner ?? {})).toEqual(stripped.owner === undefined ? [] : ["kind", "name", "uid"]);
      }),
    );
  });
});

function thrownBy(call: () => unknown): unknown {
  const outcome = settled(call);
  if (!(outcome instanceof Error)) throw new Error("no error was thrown");
  return outcome;
}

/** Returns the result of `call`, or the MalformedObjectError it throws; rethrows any other exception. */
function settled(call: () => unknown): unknown {
  try {
    return call();
  } catch (error) {
    if (error instanceof MalformedObjectError) return error;
    throw error;
  }
}
