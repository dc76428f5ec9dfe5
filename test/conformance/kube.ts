/** The conformance suite of API servers behind KubeReader, KubeWriter and KubeWatch (shared/kube/client/kube.ts). */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { exactText, parseExact } from "../../shared/base/exact-json.ts";
import type { ReplicaSet } from "../../shared/kube/objects/wire.ts";
import { isAlreadyExists, isConflict, isInvalid, isTooLargeResourceVersion, KubeApiError } from "../../shared/kube/client/errors.ts";
import { lineOf } from "../../shared/kube/client/kube.ts";
import type { KubeReader, KubeWatch, KubeWriter } from "../../shared/kube/client/kube.ts";
import { parseWatchLine } from "../../shared/kube/list-watch/watch-line.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { POD_FIELDS } from "../../shared/kube/strip/pod-fields.ts";
import { strip } from "../../shared/kube/strip/strip.ts";

export interface KubeUnderTest {
  readonly kube: KubeReader & KubeWriter & KubeWatch;
  /** A namespace without objects; no other client writes ReplicaSets or Leases there, and no controller acts on them. */
  readonly namespace: string;
  /** Whether the server sends protobuf. */
  readonly protobuf?: true;
  close(): Promise<void>;
}

export function kubeConformance(name: string, open: () => Promise<KubeUnderTest>): void {
  describe(`kube port on ${name}`, () => {
    let subject: KubeUnderTest;
    beforeAll(async () => {
      subject = await open();
    });
    afterAll(async () => {
      await subject.close();
    });

    const create = (rs: object) => subject.kube.create({ resource: "replicasets", namespace: subject.namespace, body: rs });
    const target = (rsName: string) => ({ resource: "replicasets", namespace: subject.namespace, name: rsName }) as const;

    it("KC1 returns undefined for a missing object", async () => {
      expect(await subject.kube.get("replicasets", subject.namespace, "nobody")).toBeUndefined();
    });

    it("KC2 reads its own writes", async () => {
      const created = await create(replicaSet("k2"));
      expect(created.metadata).toMatchObject({ name: "k2", namespace: subject.namespace, uid: expect.any(String), generation: 1 });
      expect(await subject.kube.get("replicasets", subject.namespace, "k2")).toEqual(created);
      const list = await subject.kube.list("replicasets", subject.namespace, { labelSelector: "name=k2" });
      expect(list.items.map((item) => item.metadata.uid)).toEqual([created.metadata.uid]);
    });

    it("KC2 filters a list by its label selector", async () => {
      await create(replicaSet("k2-labels"));
      const names = async (labelSelector: string) =>
        (await subject.kube.list("replicasets", subject.namespace, { labelSelector })).items.map((item) => item.metadata.name);
      expect(await names("name in (k2-labels, other)")).toEqual(["k2-labels"]);
      expect(await names("name=nobody")).toEqual([]);
    });

    it("KC2 filters a list by its field selector", async () => {
      await Promise.all([create(replicaSet("k2-fields")), create(replicaSet("k2-other"))]);
      const { items } = await subject.kube.list("replicasets", subject.namespace, { fieldSelector: "metadata.name=k2-fields" });
      expect(items.map((item) => item.metadata.name)).toEqual(["k2-fields"]);
    });

    it("[replicaset 39] KC7 preserves a template's integers on every read and write", async () => {
      const long = replicaSet("k6", {
        terminationGracePeriodSeconds: 9223372036854775807n,
        tolerations: [{ key: "k", operator: "Exists", effect: "NoExecute", tolerationSeconds: 9007199254740993n }],
      });
      const digits = (answer: unknown): unknown => exactText(answer).match(/Seconds":\d{16,}/g);
      const want = ['Seconds":9223372036854775807', 'Seconds":9007199254740993'];
      const { resourceVersion } = await subject.kube.listPage("replicasets", { limit: 1 }, AbortSignal.timeout(10_000));
      const events = collect(subject.kube, { resourceVersion, allowWatchBookmarks: false, timeoutSeconds: 20 }, 1);
      expect(digits(await create(long))).toEqual(want);
      const { items } = await subject.kube.list("replicasets", subject.namespace, { labelSelector: "name=k6" });
      const live = await subject.kube.get("replicasets", subject.namespace, "k6");
      expect([...items, live].map(digits)).toEqual([want, want]);
      expect((await events).map(digits)).toEqual([want]);

      const { template } = (live as ReplicaSet & { readonly spec: { readonly template: { readonly spec: object } } }).spec;
      const { spec, metadata } = replicaSet("k6-on");
      const onward = { apiVersion: "apps/v1", kind: "ReplicaSet", metadata, spec: { ...spec, selector: long.spec.selector, template } };
      expect(digits(await create(onward))).toEqual(want);
      await create(replicaSet("k6-patch"));
      const patch = { spec: { template: { spec: template.spec } } };
      expect(digits(await subject.kube.patch({ ...target("k6-patch"), type: "application/merge-patch+json", body: patch }))).toEqual(want);
    });

    it("KW1 keeps the reason when a create fails because the name exists", async () => {
      await create(replicaSet("w1"));
      const error = await failure(create(replicaSet("w1")));
      expect(isAlreadyExists(error)).toBe(true);
      expect(isConflict(error)).toBe(false);
    });

    it("KW1 keeps code, reason and causes of an invalid object", async () => {
      const error = await failure(create({ ...replicaSet("w1-invalid"), spec: { ...replicaSet("w1-invalid").spec, replicas: -1 } }));
      expect(error).toBeInstanceOf(KubeApiError);
      expect(error).toMatchObject({ code: 422, reason: "Invalid" });
      expect((error as KubeApiError).causes.some((cause) => cause.field === "spec.replicas")).toBe(true);
    });

    it("KW1 rejects a PATCH with another uid as 422, and with an older resourceVersion as a conflict", async () => {
      const created = await create(replicaSet("w1-patch"));
      const patch = (metadata: object) =>
        subject.kube.patch({ ...target("w1-patch"), type: "application/merge-patch+json", body: { metadata, spec: { replicas: 3 } } });
      expect(isInvalid(await failure(patch({ uid: "11111111-1111-1111-1111-111111111111" })))).toBe(true);
      const patched = await patch({ uid: created.metadata.uid, resourceVersion: created.metadata.resourceVersion });
      expect((patched as ReplicaSet & typeof patched).spec?.replicas).toBe(3);
      const stale = { uid: created.metadata.uid, resourceVersion: created.metadata.resourceVersion };
      expect(isConflict(await failure(patch({ ...stale, labels: { more: "yes" } })))).toBe(true);
    });

    it("writes a status through its subresource, and changes nothing else", async () => {
      await create(replicaSet("status"));
      const answer = (await subject.kube.patch({
        ...target("status"),
        subresource: "status",
        type: "application/merge-patch+json",
        body: { spec: { replicas: 9 }, status: { replicas: 4, observedGeneration: 1 } },
      })) as ReplicaSet;
      expect(answer.status).toMatchObject({ replicas: 4, observedGeneration: 1 });
      expect(answer.spec?.replicas).toBe(1);
    });

    it("adds and removes one owner reference by strategic merge patch", async () => {
      // Creates the owner, because a garbage collector would otherwise delete the dependent.
      const { uid: ownerUid } = (await create(replicaSet("owner"))).metadata;
      const { uid } = (await create(replicaSet("owned"))).metadata;
      const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "owner", uid: ownerUid, controller: true };
      const patch = (reference: object) =>
        subject.kube.patch({
          ...target("owned"),
          type: "application/strategic-merge-patch+json",
          body: { metadata: { uid, ownerReferences: [reference] } },
        });
      expect((await patch(owner)).metadata.ownerReferences).toEqual([owner]);
      expect((await patch({ $patch: "delete", uid: owner.uid })).metadata.ownerReferences ?? []).toEqual([]);
    });

    it("KW1 reports a failed DELETE precondition as a conflict, and deletes nothing", async () => {
      const { uid } = (await create(replicaSet("gone"))).metadata;
      const remove = (preconditions: { uid: string; resourceVersion?: string }) =>
        subject.kube.delete({ ...target("gone"), preconditions });
      expect(isConflict(await failure(remove({ uid: "33333333-3333-3333-3333-333333333333" })))).toBe(true);
      expect(isConflict(await failure(remove({ uid, resourceVersion: "1" })))).toBe(true);
      expect(await subject.kube.get("replicasets", subject.namespace, "gone")).toBeDefined();
      const answer = await remove({ uid });
      expect(answer === undefined || answer.metadata.uid === uid).toBe(true);
      await expect.poll(() => subject.kube.get("replicasets", subject.namespace, "gone")).toBeUndefined();
      expect(await failure(remove({ uid }))).toMatchObject({ code: 404, reason: "NotFound" });
    });

    it("KW1 reports a PUT of an older resourceVersion as a conflict", async () => {
      const lease = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata: { name: "l" }, spec: { holderIdentity: "a" } };
      const created = await subject.kube.create({ resource: "leases", namespace: subject.namespace, body: lease });
      const put = () =>
        subject.kube.replace({
          resource: "leases",
          namespace: subject.namespace,
          name: "l",
          // A Lease has more fields than a KubeObject; the port passes them through.
          body: { ...created, spec: { holderIdentity: "b" } } as typeof created,
        });
      expect((await put()).metadata.resourceVersion).not.toBe(created.metadata.resourceVersion);
      expect(isConflict(await failure(put()))).toBe(true);
    });

    it("KL1 lists in pages of one snapshot", async () => {
      for (const index of [0, 1, 2, 3, 4]) await create(replicaSet(`page-${index}`));
      const signal = AbortSignal.timeout(10_000);
      const first = await subject.kube.listPage("replicasets", { limit: 2 }, signal);
      expect(first.items).toHaveLength(2);
      expect(first.continue).toBeDefined();
      await create(replicaSet("page-late"));
      const names = first.items.map(nameOf);
      for (let token = first.continue; token !== undefined;) {
        const page = await subject.kube.listPage("replicasets", { limit: 2, continue: token }, signal);
        expect(page.resourceVersion).toBe(first.resourceVersion);
        names.push(...page.items.map(nameOf));
        token = page.continue;
      }
      expect(names.filter((found) => found.startsWith("page-"))).toEqual([0, 1, 2, 3, 4].map((index) => `page-${index}`));
    });

    it("KL2 throws the server's reason when a list or a watch is rejected", async () => {
      const list = subject.kube.listPage("replicasets", { resourceVersionMatch: "Exact" }, AbortSignal.timeout(10_000));
      expect(isInvalid(await failure(list))).toBe(true);
      const watch = collect(subject.kube, { resourceVersion: "yesterday", allowWatchBookmarks: true, timeoutSeconds: 5 }, 1);
      expect(await failure(watch)).toBeInstanceOf(KubeApiError);
    });

    it("KL2 distinguishes a list from a future resourceVersion from other timeouts", async () => {
      const { resourceVersion } = await subject.kube.listPage("replicasets", { limit: 1 }, AbortSignal.timeout(10_000));
      const query = { resourceVersion: String(BigInt(resourceVersion) + 1_000_000n), resourceVersionMatch: "NotOlderThan" } as const;
      const error = await failure(subject.kube.listPage("replicasets", query, AbortSignal.timeout(10_000)));
      expect(isTooLargeResourceVersion(error)).toBe(true);
      expect(error).toMatchObject({ code: 504, retryAfterSeconds: expect.any(Number) });
    });

    it("KL1 lists only metadata on request", async () => {
      await create(replicaSet("meta"));
      const page = await subject.kube.listPage("replicasets", { metadataOnly: true, limit: 500 }, AbortSignal.timeout(10_000));
      const items = page.items as readonly { readonly metadata: { readonly name: string } }[]; // ReplicaSets of the page
      const item = items.find(({ metadata }) => metadata.name === "meta");
      expect(item).toMatchObject({ kind: "PartialObjectMetadata", metadata: { uid: expect.any(String), labels: { name: "meta" } } });
      expect(item).not.toHaveProperty("spec");
    });

    it("KL3 yields every change after the resourceVersion, in order, as whole lines", async () => {
      const { resourceVersion } = await subject.kube.listPage("replicasets", { limit: 1 }, AbortSignal.timeout(10_000));
      const events = collect(subject.kube, { resourceVersion, allowWatchBookmarks: false, timeoutSeconds: 20 }, 3);
      const { uid } = (await create({ ...replicaSet("watched"), metadata: { name: "watched", annotations: { text: "größer 🙂 \n" } } }))
        .metadata;
      await subject.kube.patch({ ...target("watched"), type: "application/merge-patch+json", body: { spec: { replicas: 2 } } });
      await subject.kube.delete({ ...target("watched"), preconditions: { uid } });
      const seen = (await events).map(({ type, object }) => [type, object.metadata.name, object.metadata.annotations?.["text"]]);
      expect(seen).toEqual(["ADDED", "MODIFIED", "DELETED"].map((type) => [type, "watched", "größer 🙂 \n"]));
    });

    it("KL3 a WatchList yields all objects, a bookmark at or after the requested version, and then changes", async () => {
      await create(replicaSet("streamed-before"));
      const asked = await subject.kube.newestVersion("replicasets", {}, AbortSignal.timeout(10_000));
      const query = { resourceVersion: asked, resourceVersionMatch: "NotOlderThan", sendInitialEvents: true } as const;
      const there = (await subject.kube.listPage("replicasets", {}, AbortSignal.timeout(10_000))).items.map(nameOf).toSorted();
      const ending = new AbortController();
      const seen: WatchEvent[] = [];
      for await (const lines of subject.kube.watch(
        "replicasets",
        { ...query, allowWatchBookmarks: true, timeoutSeconds: 20 },
        ending.signal,
      )) {
        seen.push(...lines.map((line) => JSON.parse(lineOf(line)) as WatchEvent));
        if (seen.at(-1)?.type === "BOOKMARK") await create(replicaSet("streamed-after"));
        if (seen.at(-1)?.object.metadata.name === "streamed-after") break;
      }
      const end = seen.findIndex(({ type }) => type === "BOOKMARK");
      expect(seen.slice(0, end).every(({ type }) => type === "ADDED")).toBe(true);
      expect(
        seen
          .slice(0, end)
          .map(({ object }) => object.metadata.name)
          .toSorted(),
      ).toEqual(there);
      expect(seen[end]?.object.metadata.annotations).toEqual({ "k8s.io/initial-events-end": "true" });
      expect(BigInt(seen[end]?.object.metadata.resourceVersion ?? "0")).toBeGreaterThanOrEqual(BigInt(asked));
    });

    it("KL8 returns a newest version that is not older than any response received before the request", async () => {
      const { metadata } = await create(replicaSet("newest"));
      const newest = await subject.kube.newestVersion("replicasets", {}, AbortSignal.timeout(10_000));
      expect(BigInt(newest)).toBeGreaterThanOrEqual(BigInt(metadata.resourceVersion));
      const selected = await subject.kube.newestVersion(
        "replicasets",
        { fieldSelector: "metadata.name=nobody" },
        AbortSignal.timeout(10_000),
      );
      expect(BigInt(selected)).toBeGreaterThanOrEqual(BigInt(newest));
    });

    it("KL9 lists and streams the same fields of pods as with JSON", async () => {
      const { kube, namespace, protobuf } = subject;
      const signal = AbortSignal.timeout(30_000);
      const { uid } = (await create(replicaSet("k9"))).metadata;
      const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "k9", uid, controller: true };
      const annotations = { "controller.kubernetes.io/pod-deletion-cost": "-3", text: "größer 🙂" };
      const always = { name: "sidecar", image: "i", restartPolicy: "Always" };
      for (const podName of ["k9-1", "k9-2"]) {
        const metadata = { name: podName, labels: { name: podName, z: "1", a: "2" }, annotations, ownerReferences: [owner] };
        const spec = { containers: [{ name: "c", image: "i" }], initContainers: [always] };
        await kube.create({ resource: "pods", namespace, body: { apiVersion: "v1", kind: "Pod", metadata, spec } });
      }
      const texts = (objects: readonly unknown[]): readonly string[] =>
        objects.map((object) => JSON.stringify(strip("pods", object, createDigester("k9")))).filter((text) => text.includes("k9-"));
      const whole = await kube.listPage("pods", {}, signal);
      const want = texts(whole.items);
      expect(want).toHaveLength(2);
      const first = await kube.listPage("pods", { limit: 1, fields: POD_FIELDS }, signal);
      const rest = await kube.listPage("pods", { continue: first.continue ?? "", fields: POD_FIELDS }, signal);
      expect(texts([...first.items, ...rest.items])).toEqual(want);
      expect(first.resourceVersion).toBe(rest.resourceVersion);

      const query = { resourceVersion: whole.resourceVersion, resourceVersionMatch: "NotOlderThan", sendInitialEvents: true } as const;
      const objects: unknown[] = [];
      const stream = kube.watch("pods", { ...query, allowWatchBookmarks: true, timeoutSeconds: 20, fields: POD_FIELDS }, signal);
      reading: for await (const frames of stream)
        for (const frame of frames) {
          expect(Buffer.isBuffer(frame)).toBe(protobuf ?? false);
          const event = parseWatchLine(frame, POD_FIELDS);
          if (event.kind === "bookmark" && event.endsInitialEvents) break reading;
          if (event.kind !== "change") throw new Error(event.kind);
          objects.push(event.object);
        }
      expect(texts(objects).toSorted()).toEqual(want.toSorted());
      const expired = kube.listPage("pods", { continue: "nonsense", fields: POD_FIELDS }, signal);
      expect(await failure(expired)).toMatchObject({ code: 400, reason: "BadRequest" });
    });

    it("KL4 ends a watch cleanly at its timeout", async () => {
      const { resourceVersion } = await subject.kube.listPage("replicasets", { limit: 1 }, AbortSignal.timeout(10_000));
      const events = collect(subject.kube, { resourceVersion, allowWatchBookmarks: false, timeoutSeconds: 1 }, Infinity);
      await expect(events).resolves.toBeInstanceOf(Array);
    });

    it("KL6 ends an aborted watch immediately with the signal's reason", async () => {
      const { resourceVersion } = await subject.kube.listPage("replicasets", { limit: 1 }, AbortSignal.timeout(10_000));
      const controller = new AbortController();
      const query = { resourceVersion, allowWatchBookmarks: false, timeoutSeconds: 30 };
      const ended = failure(collect(subject.kube, query, Infinity, controller.signal));
      setTimeout(() => controller.abort(new Error("enough")), 50);
      const startedAt = performance.now();
      expect(await ended).toMatchObject({ message: "enough" });
      expect(performance.now() - startedAt).toBeLessThan(1_000);
    });
  });
}

function replicaSet(name: string, podSpec: object = {}) {
  const labels = { name };
  return {
    apiVersion: "apps/v1",
    kind: "ReplicaSet",
    metadata: { name, labels },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }], ...podSpec } },
    },
  };
}

interface WatchEvent {
  readonly type: string;
  readonly object: {
    readonly kind: string;
    readonly metadata: { readonly name: string; readonly resourceVersion: string; readonly annotations?: Record<string, string> };
  };
}

async function collect(
  kube: KubeWatch,
  query: Parameters<KubeWatch["watch"]>[1],
  count: number,
  signal: AbortSignal = AbortSignal.timeout(30_000),
): Promise<readonly WatchEvent[]> {
  const events: WatchEvent[] = [];
  for await (const lines of kube.watch("replicasets", query, signal)) {
    events.push(...lines.map((line) => parseExact(lineOf(line)) as WatchEvent));
    if (events.length >= count) break;
  }
  return events;
}

function nameOf(item: unknown): string {
  return (item as { metadata: { name: string } }).metadata.name;
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return await promise.then(
    () => expect.unreachable("the call should have failed"),
    (error: unknown) => error,
  );
}
