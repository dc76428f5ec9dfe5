// The new ReplicaSet: matching, revisions, annotations, name and body.
import { describe, expect, it } from "vitest";
import type { CachedReplicaSet } from "../../../shared/kube/objects/cached.ts";
import { podTemplateHash } from "../../../shared/kube/pod-template/pod-template-hash.ts";
import type { KubeObject } from "../../../shared/kube/objects/wire.ts";
import {
  annotatedReplicas,
  createdReplicaSetAnnotations,
  DESIRED_REPLICAS,
  existingReplicaSetAnnotations,
  MAX_REPLICAS,
  outdatedSizeAnnotations,
  REVISION_HISTORY,
} from "../../../shared/controllers/deployment/annotations.ts";
import {
  collisionStatus,
  createdNote,
  createdStatus,
  createFailed,
  foundStatus,
  newReplicaSet,
  replicaSetName,
  syncExistingReplicaSet,
} from "../../../shared/controllers/deployment/new-replica-set.ts";
import { replicaSetBody } from "../../../shared/controllers/deployment/replica-set-body.ts";
import { activeReplicaSets, splitReplicaSets } from "../../../shared/controllers/deployment/replica-sets.ts";
import { maxRevision, nextRevision, parseRevision, REVISION } from "../../../shared/controllers/deployment/revision.ts";
import { condition, copiedOf, D_UID, deployment, HASH_STATE, NOW, NOW_MS, OWNER, replicaSet } from "./builders.ts";

const names = (rss: readonly CachedReplicaSet[]): readonly string[] => rss.map((rs) => rs.metadata.name);
const EXPLICIT = { observedGeneration: 0, replicas: 0, updatedReplicas: 0, readyReplicas: 0, availableReplicas: 0, unavailableReplicas: 0 };

describe("splitReplicaSets", () => {
  const d = deployment({ template: "v2" });
  const old = replicaSet("old", { template: "v1", age: 0 });
  const fresh = replicaSet("new", { template: "v2", age: 2 });
  const dup = replicaSet("dup", { template: "v2", age: 1, size: 1 });

  it("[deployment T88] returns the oldest ReplicaSet with the Deployment's template as the new one", () => {
    expect(splitReplicaSets(d, [fresh, dup, old]).newRS?.metadata.name).toBe("dup");
    expect(splitReplicaSets(d, [fresh, old]).newRS?.metadata.name).toBe("new");
    expect(splitReplicaSets(d, [old]).newRS).toBeUndefined();
  });

  it("[deployment T89] returns all other ReplicaSets as old, in creation order", () => {
    const rest = (rss: readonly CachedReplicaSet[]): readonly string[] => names(splitReplicaSets(d, rss).oldRSs);
    expect(rest([fresh, old])).toEqual(["old"]);
    expect(rest([old])).toEqual(["old"]);
    expect(rest([old, fresh, dup])).toEqual(["old", "new"]);
    expect(rest([fresh])).toEqual([]);
    expect(names(activeReplicaSets(splitReplicaSets(d, [old, replicaSet("big", { template: "v0", size: 2 }), fresh]).oldRSs))).toEqual([
      "big",
    ]);
  });

  it("orders equal creation times by name", () => {
    expect(splitReplicaSets(d, [replicaSet("b", { template: "v2" }), replicaSet("a", { template: "v2" })]).newRS?.metadata.name).toBe("a");
  });

  it("throws when it compares digests of different keys or forms", () => {
    const other: CachedReplicaSet = { ...old, spec: { ...old.spec, template: { digest: "k2.f1.v2" } } };
    expect(() => splitReplicaSets(d, [other])).toThrow("k1.f1 and k2.f1 cannot be compared");
  });

  it("treats a ReplicaSet without a template as old", () => {
    const { template: _template, ...spec } = old.spec;
    expect(splitReplicaSets(d, [{ ...old, spec }]).newRS).toBeUndefined();
  });
});

describe("revisions", () => {
  it("[deployment T100] revisions are compared beyond 2^53", () => {
    const adopted = replicaSet("adopted", { revision: "3546343826724305832", template: "v0" });
    expect(maxRevision([adopted, replicaSet("rs", { revision: "3" })])).toBe(3546343826724305832n);
    expect(newReplicaSet(deployment(), [adopted]).decided.annotations[REVISION]).toBe("3546343826724305833");
  });
  it("revisions overflow as int64: a new ReplicaSet after the maximum has no revision, and the Deployment has the minimum", () => {
    const old = replicaSet("old", { revision: "9223372036854775807", template: "v0" });
    const { decided: write } = newReplicaSet(deployment(), [old]);
    expect(write.annotations).not.toHaveProperty([REVISION]);
    expect(createdStatus(deployment(), write, 0)?.annotations).toEqual({ [REVISION]: "-9223372036854775808" });
    expect(foundStatus(deployment(), write)?.annotations).toEqual({ [REVISION]: "-9223372036854775808" });
    const made = replicaSet("made", { age: 1 });
    const next = syncExistingReplicaSet(deployment({ revision: "-9223372036854775808" }), made, [old], 0).decided;
    expect(next).toMatchObject({ kind: "UpdateStatus", annotations: { [REVISION]: "" } });
    const low = replicaSet("low", { revision: "5" });
    expect(existingReplicaSetAnnotations(deployment(), low, nextRevision([old])).changed).toBe(false);
  });
  it("missing revisions count as 0, and revisions that are not an int64 are skipped", () => {
    expect(maxRevision([replicaSet("a"), replicaSet("b", { revision: "x" }), replicaSet("c", { revision: "9223372036854775808" })])).toBe(
      0n,
    );
    expect(["+7", "-7", "", "7 ", "0x7", "9223372036854775807"].map(parseRevision)).toEqual([
      7n,
      -7n,
      undefined,
      undefined,
      undefined,
      9223372036854775807n,
    ]);
  });
});

describe("existingReplicaSetAnnotations", () => {
  it("[deployment T90] keeps the latest entries that fit", () => {
    let rs = replicaSet("rs", { revision: "10" });
    for (let n = 11n; n <= 20n; n++) {
      const { set, changed } = existingReplicaSetAnnotations(deployment(), rs, n, 5);
      expect(changed).toBe(true);
      rs = { ...rs, metadata: { ...rs.metadata, annotations: { ...rs.metadata.annotations, ...set } } };
      expect(rs.metadata.annotations?.[REVISION]).toBe(String(n));
      expect(rs.metadata.annotations?.[REVISION_HISTORY]).toBe(n === 11n ? "10" : `${n - 2n},${n - 1n}`);
    }
  });

  it("drops the oldest entries above 2000 characters, and omits a single entry that is longer", () => {
    const history = (length: number): string => `${"1".repeat(length - 2)},2`;
    const extended = (text: string, limit?: number): string | undefined =>
      existingReplicaSetAnnotations(deployment(), replicaSet("rs", { revision: "7", annotations: { [REVISION_HISTORY]: text } }), 8n, limit)
        .set[REVISION_HISTORY];
    expect(extended(history(1998))).toBe(`${history(1998)},7`);
    expect(extended(history(1999))).toBe("2,7");
    expect(extended("5,6", 0)).toBeUndefined();
    expect(extended("")).toBe("7");
  });

  it("copies the Deployment's annotations except the six that upstream skips, and keeps those that only the ReplicaSet has", () => {
    const d = deployment({
      revision: "3",
      annotations: {
        "kubernetes.io/change-cause": "image",
        same: "1",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "deprecated.deployment.rollback.to": "1",
        [DESIRED_REPLICAS]: "1",
        [MAX_REPLICAS]: "1",
        [REVISION_HISTORY]: "1",
      },
    });
    const rs = replicaSet("rs", { revision: "3", annotations: { same: "1", gone: "from the deployment" } });
    const cause = { "kubernetes.io/change-cause": "image" };
    expect(existingReplicaSetAnnotations(d, rs, 3n)).toEqual({ set: {}, copied: copiedOf(cause, { ...cause, same: "1" }), changed: true });
    expect(existingReplicaSetAnnotations(deployment(), rs, 3n)).toEqual({ set: {}, changed: false });
  });

  it("copies plain-text annotations by value, and all others by digest", () => {
    const d = deployment({ annotations: { "deployment.kubernetes.io/note": "1", a: "2", b: "3" } });
    const rs = replicaSet("rs", { revision: "3", annotations: { "deployment.kubernetes.io/note": "0", a: "2", b: "2" } });
    expect(existingReplicaSetAnnotations(d, rs, 3n)).toEqual({
      set: { "deployment.kubernetes.io/note": "1" },
      copied: copiedOf({ b: "3" }, { a: "2", b: "3" }),
      changed: true,
    });
  });

  it("never lowers a revision, and sets a missing or empty revision", () => {
    expect(existingReplicaSetAnnotations(deployment(), replicaSet("rs", { revision: "9" }), 4n)).toEqual({ set: {}, changed: false });
    expect(existingReplicaSetAnnotations(deployment(), replicaSet("rs"), 4n)).toEqual({ set: { [REVISION]: "4" }, changed: true });
    // The annotation is present but empty, so upstream makes it the first entry of the history.
    expect(existingReplicaSetAnnotations(deployment(), replicaSet("rs", { revision: "" }), 4n).set).toEqual({
      [REVISION]: "4",
      [REVISION_HISTORY]: "",
    });
  });

  it("does not write if the revision annotation is invalid, even if annotations must be copied", () => {
    const d = deployment({ annotations: { a: "1" } });
    expect(existingReplicaSetAnnotations(d, replicaSet("rs", { revision: "one" }), 4n)).toEqual({
      set: {},
      copied: copiedOf({ a: "1" }),
      changed: false,
    });
  });
});

describe("size annotations", () => {
  it("[deployment T91] size annotations are written for a new ReplicaSet", () => {
    expect(createdReplicaSetAnnotations(deployment({ replicas: 10, surge: 1, annotations: { a: "1" } }), 4n)).toEqual({
      set: { [REVISION]: "4", [DESIRED_REPLICAS]: "10", [MAX_REPLICAS]: "11" },
      copied: copiedOf({ a: "1" }),
    });
    expect(createdReplicaSetAnnotations(deployment({ replicas: 10, strategy: "Recreate" }), 4n).set[MAX_REPLICAS]).toBe("10");
  });

  it("[deployment T93] size annotations are outdated if one of them is missing or differs as text", () => {
    const d = deployment({ replicas: 10, surge: 10 });
    const outdated = (rs: CachedReplicaSet): readonly string[] => Object.keys(outdatedSizeAnnotations(d, rs));
    expect(outdated(replicaSet("rs"))).toEqual([DESIRED_REPLICAS, MAX_REPLICAS]);
    expect(outdated(replicaSet("rs", { desired: 8, max: 20 }))).toEqual([DESIRED_REPLICAS]);
    expect(outdated(replicaSet("rs", { desired: 10, max: 16 }))).toEqual([MAX_REPLICAS]);
    expect(outdated(replicaSet("rs", { desired: 10, max: 20 }))).toEqual([]);
  });

  const numbers: [string | undefined, ReturnType<typeof annotatedReplicas>][] = [
    [undefined, { kind: "absent" }],
    ["invalid", { kind: "invalid", why: "invalid syntax" }],
    ["-1", { kind: "invalid", why: "invalid syntax" }],
    ["", { kind: "invalid", why: "invalid syntax" }],
    ["0", { kind: "replicas", replicas: 0 }],
    ["13", { kind: "replicas", replicas: 13 }],
    ["2147483647", { kind: "replicas", replicas: 2147483647 }],
    ["2147483648", { kind: "invalid", why: "value out of range" }],
    ["4294967296", { kind: "invalid", why: "value out of range" }],
  ];
  it.each(numbers)("[deployment T94] parses the desired-replicas annotation %j", (text, want) => {
    expect(annotatedReplicas(replicaSet("rs", text === undefined ? {} : { desired: text }), DESIRED_REPLICAS)).toEqual(want);
  });
});

describe("replicaSetName", () => {
  const table: [string, string, string][] = [
    ["my-deployment", "abcde12345", "my-deployment-abcde12345"],
    ["a".repeat(242), "abcde12345", `${"a".repeat(242)}-abcde12345`],
    ["b".repeat(250), "abcde12345", `${"b".repeat(242)}-abcde12345`],
    ["d".repeat(252), "h".repeat(252), `${"d".repeat(252)}-${"h".repeat(252)}`],
  ];
  it.each(table)(
    "[deployment T95] truncates the Deployment's name if the ReplicaSet's name would be too long (case %#)",
    (name, hash, want) => {
      expect(replicaSetName(name, hash)).toBe(want);
    },
  );
});

describe("syncExistingReplicaSet", () => {
  const settled = { revision: "2", desired: 1, max: 1 };

  it("writes annotations and minReadySeconds before anything else", () => {
    const d = deployment({ minReadySeconds: 5, annotations: { a: "1" }, deadline: 60 });
    const { decided: got } = syncExistingReplicaSet(
      d,
      replicaSet("new", { revision: "1" }),
      [replicaSet("old", { revision: "4", template: "v0" })],
      NOW_MS,
    );
    expect(got).toEqual({
      kind: "PatchReplicaSet",
      owner: OWNER,
      name: "new",
      uid: "uid-new",
      resourceVersion: "50",
      minReadySeconds: 5,
      annotations: { [REVISION]: "5", [REVISION_HISTORY]: "1" },
      copied: copiedOf({ a: "1" }),
    });
  });

  it("with an invalid revision annotation, writes copied annotations only together with minReadySeconds", () => {
    const d = deployment({ minReadySeconds: 5, annotations: { a: "1" } });
    expect(syncExistingReplicaSet(d, replicaSet("new", { revision: "x" }), [], NOW_MS).decided).toMatchObject({
      minReadySeconds: 5,
      copied: copiedOf({ a: "1" }),
    });
  });

  it("sets the ReplicaSet's revision on the Deployment once the ReplicaSet has it", () => {
    const d = deployment({ revision: "1", status: { replicas: 3, observedGeneration: 1 } });
    expect(syncExistingReplicaSet(d, replicaSet("new", settled), [], NOW_MS).decided).toEqual({
      kind: "UpdateStatus",
      owner: OWNER,
      resourceVersion: "100",
      status: { ...EXPLICIT, observedGeneration: 1, replicas: 3, conditions: [] },
      absent: ["terminatingReplicas", "collisionCount"],
      annotations: { [REVISION]: "2" },
    });
  });

  it("adds a FoundNewReplicaSet condition if the Deployment has a progress deadline", () => {
    const d = deployment({ revision: "2", deadline: 60 });
    const { decided: got } = syncExistingReplicaSet(d, replicaSet("new", settled), [], NOW_MS);
    expect(got).toMatchObject({
      kind: "UpdateStatus",
      status: { conditions: [condition("Progressing", "True", "FoundNewReplicaSet", { message: 'Found new replica set "new"' })] },
    });
    expect(got).not.toHaveProperty("annotations");
  });

  it("writes nothing if annotations, revision and condition are set", () => {
    const d = deployment({
      revision: "2",
      deadline: 60,
      status: { conditions: [condition("Progressing", "False", "ProgressDeadlineExceeded")] },
    });
    expect(syncExistingReplicaSet(d, replicaSet("new", settled), [], NOW_MS).decided).toBeUndefined();
    expect(syncExistingReplicaSet(deployment({ revision: "2" }), replicaSet("new", settled), [], NOW_MS).decided).toBeUndefined();
  });
});

describe("creation of a ReplicaSet", () => {
  it("[deployment T86] puts hash, size and annotations into the write", () => {
    const d = deployment({ replicas: 20, surge: "25%", annotations: { test: "should-copy-to-replica-set" }, generation: 7 });
    const hash = podTemplateHash(HASH_STATE);
    expect(newReplicaSet(d, []).decided).toEqual({
      kind: "CreateReplicaSet",
      owner: OWNER,
      name: `web-${hash}`,
      hash,
      template: { generation: 7, digest: "k1.f1.v1" },
      replicas: 20,
      annotations: { [REVISION]: "1", [DESIRED_REPLICAS]: "20", [MAX_REPLICAS]: "25" },
      copied: copiedOf({ test: "should-copy-to-replica-set" }),
    });
  });

  it("the size is replicas plus maxSurge minus the old replicas, and the hash includes collisionCount", () => {
    const d = deployment({ replicas: 4, surge: 1, status: { collisionCount: 1 } });
    const { decided: got } = newReplicaSet(d, [replicaSet("old", { size: 4, template: "v0", revision: "3" })]);
    expect([got.replicas, got.hash, got.annotations[REVISION]]).toEqual([1, podTemplateHash(HASH_STATE, 1), "4"]);
    expect(got.hash).not.toBe(podTemplateHash(HASH_STATE));
  });

  it("[deployment T86] the body carries the hash in label, selector and template, and keeps all other fields", () => {
    const live = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata: { namespace: "shop", name: "web", uid: D_UID, resourceVersion: "100", labels: { not: "copied" }, annotations: { b: "2" } },
      spec: {
        minReadySeconds: 5,
        selector: { matchLabels: { app: "web" }, matchExpressions: [{ key: "tier", operator: "Exists" }] },
        template: {
          metadata: { labels: { app: "web", tier: "x" }, annotations: { a: "1" } },
          spec: { containers: [], laterField: { kept: true } },
        },
      },
    } as KubeObject;
    const { decided: write } = newReplicaSet(deployment({ replicas: 2, annotations: { b: "2" } }), []);
    const labels = { app: "web", tier: "x", "pod-template-hash": write.hash };
    const body = replicaSetBody(live, write);
    expect(JSON.stringify(body)).toBe('"sealed(k1.f1.v1)"');
    expect(body.open()).toEqual({
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: {
        name: write.name,
        namespace: "shop",
        labels,
        annotations: { ...write.annotations, b: "2" },
        ownerReferences: [
          { apiVersion: "apps/v1", kind: "Deployment", name: "web", uid: D_UID, controller: true, blockOwnerDeletion: true },
        ],
      },
      spec: {
        replicas: 2,
        minReadySeconds: 5,
        selector: { matchLabels: { app: "web", "pod-template-hash": write.hash }, matchExpressions: [{ key: "tier", operator: "Exists" }] },
        template: { metadata: { labels, annotations: { a: "1" } }, spec: { containers: [], laterField: { kept: true } } },
      },
    });
  });

  it("records an Event for a new ReplicaSet unless it has 0 replicas", () => {
    const { decided: write } = newReplicaSet(deployment({ replicas: 2 }), []);
    expect(createdNote(write)).toEqual({
      type: "Normal",
      reason: "ScalingReplicaSet",
      message: `Scaled up replica set ${write.name} from 0 to 2`,
    });
    expect(createdNote({ ...write, replicas: 0 })).toBeUndefined();
  });

  it("sets revision and condition on the Deployment, but only the revision if the ReplicaSet already exists", () => {
    const d = deployment({ deadline: 60 });
    const { decided: write } = newReplicaSet(d, []);
    const created = condition("Progressing", "True", "NewReplicaSetCreated", { message: `Created new replica set "${write.name}"` });
    expect(createdStatus(d, write, NOW_MS)).toMatchObject({ annotations: { [REVISION]: "1" }, status: { conditions: [created] } });
    expect(createdStatus(deployment({ revision: "1" }), write, NOW_MS)).toBeUndefined();
    expect(foundStatus(d, write)).toMatchObject({ annotations: { [REVISION]: "1" }, status: { conditions: [] } });
    expect(foundStatus(deployment({ revision: "1", deadline: 60 }), write)).toBeUndefined();
  });

  it("keeps a NewReplicaSetCreated condition of an earlier ReplicaSet (quirk Q14)", () => {
    const earlier = condition("Progressing", "True", "NewReplicaSetCreated", { message: "earlier" });
    const d = deployment({ deadline: 60, revision: "1", status: { conditions: [earlier] } });
    expect(createdStatus(d, newReplicaSet(d, []).decided, NOW_MS)).toBeUndefined();
  });

  it("[deployment T97] increments the collision count when another object has the name", () => {
    expect(collisionStatus(deployment()).status).toMatchObject({ collisionCount: 1 });
    expect(collisionStatus(deployment({ status: { collisionCount: 1, replicas: 2 } }))).toEqual({
      kind: "UpdateStatus",
      owner: OWNER,
      resourceVersion: "100",
      status: { ...EXPLICIT, replicas: 2, collisionCount: 2, conditions: [] },
      absent: ["terminatingReplicas"],
    });
  });

  it("records an Event for each rejected create, and the condition once", () => {
    const d = deployment({ deadline: 60 });
    const { decided: write } = newReplicaSet(d, []);
    const message = `Failed to create new replica set "${write.name}": exceeded quota`;
    const note = { type: "Warning", reason: "ReplicaSetCreateError", message };
    const failed = condition("Progressing", "False", "ReplicaSetCreateError", { message });
    expect(createFailed(d, write, "exceeded quota", NOW_MS)).toMatchObject({ note, write: { status: { conditions: [failed] } } });
    expect(createFailed(deployment({ deadline: 60, status: { conditions: [failed] } }), write, "exceeded quota", NOW_MS)).toEqual({ note });
    expect(createFailed(deployment(), write, "exceeded quota", NOW_MS)).toEqual({ note });
    expect(failed.lastTransitionTime).toBe(NOW);
  });
});
