/**
 * Invariants that are checked at every request that the API server executes, and at the end.
 *
 * SC1 no pod is created above the greatest recent size of its owner (SC1reuse: the documented exception, informer §13)
 * SC2 a pod delete carries a uid, and it is that pod's
 * SC3 no object of another owner is changed
 * SC6 a controller's delete leaves at least as many pods as the smallest recent size (if users do not change pods; a tenant deletes and
 *     releases its own pods)
 * SC7 Recreate: no new pod while an old one exists
 * SC8 maxSurge and maxUnavailable
 * SC9 nothing is written to, or created for, an object without an owner in its own namespace, and no slice of the cache holds dependents of
 *     two owners
 * SC10 the item counters add up after every Store call, and equal those of an observer of the calls (TY1)
 * SC11 a second cluster with the same keys and Store writes nothing under a term that its Lease does not list
 * SC12 runs write nothing where the guard has stopped them, except calls that were begun before
 * SC13 an audit finds no difference between the API server and a cache that has lost nothing
 * SC14 no build takes a key, or applies a pack or manifest, of an epoch with another projection than its own
 * SE1 cache = API server, queues and intents empty
 * SE2 the desired state is reached and the status says so
 * SE3 after that, nothing is written, and no sync runs unless resyncs are frequent
 */
import { ownerId, podOwnerId, primaryAsOwner } from "../../shared/kube/objects/owner-id.ts";
import { controllerRef } from "../../shared/kube/objects/owner-references.ts";
import { CACHED_RESOURCES, CONTROLLER_INFO, CONTROLLERS, objectKey } from "../../shared/kube/objects/resources.ts";
import type { CachedResource, Controller, ObjectKey } from "../../shared/kube/objects/resources.ts";
import { compileSelector, formatSelector, matches } from "../../shared/kube/selectors/selector.ts";
import { templatesEqual } from "../../shared/kube/pod-template/digest.ts";
import type { Deployment, KubeObject, Pod, ReplicaSet } from "../../shared/kube/objects/wire.ts";
import type { MemoryData } from "../../shared/store/memory/store/data.ts";
import type { RequestRecord } from "../../shared/api-server/api-server.ts";
import type { Clock } from "../../shared/base/clock.ts";
import { MAY_LAND_MS, RENEWAL_MS, REQUEST_TIMEOUT_MS } from "../../shared/base/times.ts";
import type { KubeObserver } from "./kube.ts";
import type { Loss } from "./losses.ts";
import { isActive, ownerName } from "./mirror.ts";
import type { Change, Mirror, OwnerName } from "./mirror.ts";
import { TENANT } from "./tenant.ts";
import { DECOYS, SHOP } from "./users.ts";
import type { UserHabits } from "./users.ts";

export interface Violation {
  readonly rule: string;
  readonly atMs: number;
  readonly what: string;
}

/**
 * Known violations: documented and not prevented (informer §13 layer 4), or caused by writes of a run during a loss of the Store, or by a
 * call that is executed late. `SC1epoch`: a pod's create of a former epoch is executed late, beside the pods that the new epoch has named
 * otherwise; upstream's controllers draw other names after each restart, too. The excuse for a loss was not used in the seeds 2,000,001 to 2,000,150, neither with `rewind` nor with
 * `restore`. It is kept for pod names that were dropped before a loss (informer §13 layer 5). `run.ts` prints how often each excuse was
 * used.
 */
export function isKnown(rule: string): boolean {
  return rule === "SC1reuse" || rule === "SC1epoch" || rule.endsWith("loss") || rule.endsWith("late");
}

/**
 * Maximum age in ms of the state on which an executed call may be based: the call's time in flight plus the age of the state at the
 * decision.
 */
const WINDOW_MS = 100_000;
const LATE_MS = 30_000;
/** Time in ms after a loss of the Store for which the writes of a run may violate its owner's bounds. */
const LOSS_MS = 60_000;
/** A run notices a stop when it renews its lease; a call that was sent before may still be executed. */
const STOPPED_MS = RENEWAL_MS + REQUEST_TIMEOUT_MS + MAY_LAND_MS;
const OURS = "deltaloop-";

export interface CheckOptions {
  readonly clock: Clock;
  readonly mirror: Mirror;
  readonly data: MemoryData;
  readonly habits: UserHabits;
  readonly onViolation: (violation: Violation) => void;
}

export class Checks implements KubeObserver {
  readonly #options: CheckOptions;
  /** UIDs of pods that deltaloop's controllers created, with the UID of their owner, until another owner adopts them. */
  readonly #createdFor = new Map<string, string>();
  /** UIDs of pods whose release was rejected as invalid, which counts as done. Source: pkg/controller/controller_ref_manager.go ReleasePod. */
  readonly #unreleased = new Set<string>();
  /** Keys of pods that have been deleted. */
  readonly #names = new Set<string>();
  readonly #reused = new Set<string>();
  /** Time of a pod's last change of controller, by the pod's UID. */
  readonly #ownedSinceMs = new Map<string, number>();
  readonly #bornMs = new Map<string, number>();
  readonly #decoys = new Map<string, string>();
  #lateMs = Number.NEGATIVE_INFINITY;
  /** The epoch in which each pod create was sent that is executed late, by the pod's key. */
  readonly #lateCreates = new Map<ObjectKey, string | undefined>();
  #stoppedMs: number | undefined;
  /** The time of the last loss of the Store, and until when decisions may be based on restored data. */
  #lossMs = Number.NEGATIVE_INFINITY;
  #soundMs = Number.NEGATIVE_INFINITY;
  /** `<controller> <key>` → the time at which the key was last taken. */
  readonly #taken = new Map<string, number>();
  /** Keys whose run was taken before the loss and wrote after it. */
  readonly #outran = new Set<string>();
  /** Selector of the Deployment controller's live lists of pods, and when the last one was executed. */
  readonly #podLists = new Map<string, number>();
  lastWriteMs = 0;
  lastSyncMs = 0;
  lastWrite = "";

  #report: CheckOptions["onViolation"];

  constructor(options: CheckOptions) {
    this.#options = options;
    this.#report = options.onViolation;
  }

  /** Called when one of our API calls will be executed after its sender has given up. */
  late: KubeObserver["late"] = ({ method, path, body }) => {
    this.#lateMs = this.#options.clock.now();
    const [, namespace] = /\/namespaces\/([^/]+)\/pods$/.exec(path) ?? [];
    const name = nameIn(body);
    if (method === "POST" && namespace !== undefined && name !== undefined)
      this.#lateCreates.set(objectKey(namespace, name), this.#options.data.epoch?.record.epoch);
  };

  /**
   * Called when the Store has lost data. A run in progress may write changes that the next list does not contain yet; nothing can prevent
   * that (informer §20). Later runs are not excused: every gate is closed immediately, or, after a `rewind`, with the next checkpoint.
   */
  lost(loss: Loss): void {
    this.#lossMs = this.#options.clock.now();
    this.#soundMs = loss === "rewind" ? Number.POSITIVE_INFINITY : this.#lossMs;
    this.#outran.clear();
  }

  /** Called when the guard has stopped the users' namespace, and with undefined when that has ended. */
  stopped(sinceMs: number | undefined): void {
    this.#stoppedMs = sinceMs;
  }

  /** Called when a checkpoint was executed, whatever its result. */
  checkpointed(): void {
    this.#soundMs = Math.min(this.#soundMs, this.#options.clock.now());
  }

  taken(controller: Controller, key: ObjectKey, atMs: number): void {
    this.#taken.set(`${controller} ${key}`, atMs);
  }

  changed({ resource, type, before, object }: Change): void {
    const { uid, name, namespace = "" } = object.metadata;
    if (resource !== "pods") return;
    const nowMs = this.#options.clock.now();
    if (type === "ADDED") this.#bornMs.set(uid, nowMs);
    if (controllerRef(before?.metadata ?? {})?.uid !== controllerRef(object.metadata)?.uid) {
      this.#ownedSinceMs.set(uid, nowMs);
      if (before?.metadata.uid === uid) this.#createdFor.delete(uid);
    }
    if (type === "DELETED") this.#names.add(objectKey(namespace, name));
  }

  /** Called after each executed request; the mirror has its effect. */
  request(record: RequestRecord): void {
    const { clock } = this.#options;
    if (!record.userAgent.startsWith(OURS) || !["create", "update", "patch", "delete"].includes(record.verb)) return;
    if (record.status >= 300 || record.resource === "leases") return;
    this.lastWriteMs = clock.now();
    this.lastWrite = `${record.userAgent} ${record.verb} ${record.resource}/${record.subresource} ${record.name}`;
    if (record.resource === "events") return;
    if (record.namespace === SHOP && this.#stoppedMs !== undefined && clock.now() - this.#stoppedMs > STOPPED_MS)
      this.bad("SC12", `${this.lastWrite}, although it is stopped since ${(clock.now() - this.#stoppedMs) / 1_000} s`);
    this.#bound(record);
    if (record.resource === "pods" && record.verb === "create") this.#podCreated(record);
    if (record.resource === "replicasets" && record.subresource === "" && record.verb !== "delete") this.#resized(record);
    for (const decoy of DECOYS)
      if (record.name === decoy && record.namespace === SHOP && record.subresource !== "status")
        this.bad("SC3", `${this.lastWrite} touched a decoy`);
  }

  /** Called before a request of ours is executed. */
  executing: KubeObserver["executing"] = (component, { method, path, query, body }, sent) => {
    this.#options.mirror.update();
    if (method === "DELETE" || method === "PATCH")
      this.#touches(path, method === "DELETE" ? preconditionsOf(body).uid : uidIn(body), component);
    if (method === "DELETE" && path.includes("/pods/"))
      this.#deletes(path, { chosen: preconditionsOf(body).uid, sent: preconditionsOf(sent) }, component);
    if (method === "GET" && path.endsWith("/pods") && component === "deltaloop-sync-deployment") {
      this.#podLists.set(String(query?.["labelSelector"]), this.#options.clock.now());
    }
  };

  /** Called when a webhook has rejected a request. */
  denied: NonNullable<KubeObserver["denied"]> = ({ method, body }, code) => {
    const uid = uidIn(body);
    if (method === "PATCH" && code === 422 && uid !== undefined) this.#unreleased.add(uid);
  };

  #deletes(path: string, { chosen, sent }: { readonly chosen: string | undefined; readonly sent: Preconditions }, component: string): void {
    const { mirror, habits } = this.#options;
    const { namespace, name } = targetOf(path);
    const pod = mirror.get("pods", objectKey(namespace, name));
    if (!pod) return;
    if (chosen !== pod.metadata.uid) {
      // With the uid as precondition, the server rejects the request.
      if (sent.uid === undefined) this.bad("SC2", `${component} deletes ${name}, chosen was uid ${chosen}, there is ${pod.metadata.uid}`);
      return;
    }
    if (sent.resourceVersion !== undefined && sent.resourceVersion !== pod.metadata.resourceVersion) return; // rejected, too
    const ref = controllerRef(pod.metadata);
    if (!ref || !this.#exists({ ...ref, namespace })) return;
    if (namespace === SHOP && DECOYS.includes(name)) this.bad("SC3", `${component} deletes ${name}`);
    if (!habits.calmPods || namespace === TENANT || !isActive(pod)) return;
    const excused = this.#excuse({ ...ref, namespace });
    const left = mirror.controlledBy("pods", { ...ref, namespace }).filter(isActive).length - 1;
    const lowest = Math.min(...mirror.lately<ReplicaSet & KubeObject>(ref.uid, WINDOW_MS).map((rs) => rs.spec?.replicas ?? 0));
    if (left < lowest)
      this.bad(excused("SC6"), `${component} deletes ${name}: ${left} pods are left of ${ref.name}, lowest size was ${lowest}`);
  }

  /** Checks that a changed or deleted object recently had an owner in its own namespace, or is being adopted. */
  #touches(path: string, chosen: string | undefined, component: string): void {
    const { mirror } = this.#options;
    const { resource, namespace, name } = targetOf(path);
    if (resource !== "pods" && resource !== "replicasets") return;
    const object = mirror.get(resource, objectKey(namespace, name));
    if (!object || (chosen !== undefined && chosen !== object.metadata.uid)) return;
    const refs = mirror.lately(object.metadata.uid, WINDOW_MS).map(({ metadata }) => controllerRef(metadata));
    if (refs.some((ref) => ref === undefined || mirror.isOwner({ ...ref, namespace }))) return;
    this.bad(
      "SC9",
      `${component} writes ${resource} ${namespace}/${name}, which ${refs.at(-1)?.kind} ${refs.at(-1)?.name} does not control`,
    );
  }

  /** Checks that a created or changed object references an owner in its own namespace, or none. */
  #bound({ verb, resource, subresource, namespace, name }: RequestRecord): void {
    if ((resource !== "pods" && resource !== "replicasets") || subresource !== "" || verb === "delete") return;
    const { mirror } = this.#options;
    const object = mirror.get(resource, objectKey(namespace, name));
    const ref = object && controllerRef(object.metadata);
    if (ref && !mirror.isOwner({ ...ref, namespace }))
      this.bad("SC9", `${this.lastWrite} of ${namespace} is for ${ref.kind} ${ref.name} of elsewhere`);
  }

  /** Checks a created pod. */
  #podCreated(record: RequestRecord): void {
    const { mirror } = this.#options;
    const pod = mirror.get("pods", objectKey(record.namespace, record.name));
    const ref = pod && controllerRef(pod.metadata);
    if (!pod || !ref) return this.bad("SC3", `created ${record.name} without a controller`);
    const { namespace } = record;
    if (!mirror.isOwner({ ...ref, namespace }))
      this.bad("SC9", `created ${namespace}/${record.name} for ${ref.kind} ${ref.name} of elsewhere`);
    const { uid } = pod.metadata;
    this.#createdFor.set(uid, ref.uid);
    if (this.#names.has(objectKey(namespace, record.name))) this.#reused.add(uid);
    const excused = this.#excuse({ ...ref, namespace });
    const own = mirror
      .controlledBy("pods", { ...ref, namespace })
      .filter(({ metadata: { uid: id } }) => this.#createdFor.get(id) === ref.uid && !this.#unreleased.has(id))
      .filter(isActive);
    const sizes = mirror.lately<ReplicaSet & KubeObject>(ref.uid, WINDOW_MS).map((rs) => rs.spec?.replicas ?? 0);
    const highest = Math.max(0, ...sizes);
    if (own.length <= highest) return;
    const { epoch } = this.#options.data.epoch?.record ?? {};
    const isOfFormerEpoch = ({ metadata }: KubeObject): boolean => {
      const key = objectKey(namespace, metadata.name);
      const isRecent = this.#options.clock.now() - (this.#bornMs.get(metadata.uid) ?? 0) < LATE_MS;
      return isRecent && this.#lateCreates.has(key) && this.#lateCreates.get(key) !== epoch;
    };
    const isReused = own.some((each) => this.#reused.has(each.metadata.uid));
    const rule = isReused ? "SC1reuse" : own.some(isOfFormerEpoch) ? "SC1epoch" : excused("SC1");
    this.bad(rule, `${ref.kind} ${ref.name} has ${own.length} own pods, highest size ${highest}, created ${record.name}`);
  }

  /** Called when the Deployment controller has created or patched a ReplicaSet. */
  #resized(record: RequestRecord): void {
    const { mirror } = this.#options;
    const rs = mirror.get("replicasets", objectKey(record.namespace, record.name));
    const ref = rs && controllerRef(rs.metadata);
    if (!rs || ref?.kind !== "Deployment") return;
    const d = mirror.get("deployments", objectKey(record.namespace, ref.name));
    if (!d || d.metadata.uid !== ref.uid) return;
    const versions = mirror.lately<ReplicaSet & KubeObject>(rs.metadata.uid, 0);
    const before = mirror.lately<ReplicaSet & KubeObject>(rs.metadata.uid, WINDOW_MS * 10).at(-2)?.spec?.replicas ?? 0;
    const size = versions.at(-1)?.spec?.replicas ?? 0;
    const excused = this.#excuse({ kind: "Deployment", namespace: record.namespace, name: d.metadata.name });
    if (size > before) this.#grown(d, rs, { record, excused });
    if (size < before) this.#shrunk(d, rs, { before, excused });
  }

  #grown(
    d: Deployment & KubeObject,
    rs: ReplicaSet & KubeObject,
    { record, excused }: { readonly record: RequestRecord; readonly excused: (rule: string) => string },
  ): void {
    const { mirror, clock } = this.#options;
    const states = mirror.lately<Deployment & KubeObject>(d.metadata.uid, WINDOW_MS);
    const all = mirror.controlledBy("replicasets", ownerName("deployments", d));
    const total = all.reduce((sum, each) => sum + (each.spec?.replicas ?? 0), 0);
    const cap = Math.max(...states.map((state) => (state.spec?.replicas ?? 0) + fencepost(state, "maxSurge")));
    if (total > cap) this.bad(excused("SC8surge"), `${record.name} grew: ${total} replicas in all, the surge allows ${cap}`);
    if (
      !states.every(
        ({ spec }) => spec?.strategy?.type === "Recreate" && spec.paused !== true && spec.replicas === states[0]?.spec?.replicas,
      )
    )
      return;
    if (!templatesEqual(rs.spec?.template ?? {}, d.spec?.template ?? {})) return;
    const listedMs = this.#podLists.get(labelSelectorOf(d)) ?? Number.NEGATIVE_INFINITY;
    for (const old of all.filter(({ metadata }) => metadata.uid !== rs.metadata.uid)) {
      for (const pod of mirror.controlledBy("pods", ownerName("replicasets", old))) {
        const sinceMs = Math.max(this.#bornMs.get(pod.metadata.uid) ?? 0, this.#ownedSinceMs.get(pod.metadata.uid) ?? 0);
        const ended = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
        if (sinceMs < listedMs && !ended) this.bad(excused("SC7"), `${record.name} grows at ${clock.now()} beside ${pod.metadata.name}`);
      }
    }
  }

  #shrunk(
    d: Deployment & KubeObject,
    rs: ReplicaSet & KubeObject,
    { before, excused }: { readonly before: number; readonly excused: (rule: string) => string },
  ): void {
    const { mirror } = this.#options;
    const states = mirror.lately<Deployment & KubeObject>(d.metadata.uid, WINDOW_MS);
    if (states.some(({ spec }) => spec?.strategy?.type === "Recreate")) return;
    // Upstream counts available pods of a ReplicaSet whose controller has not yet deleted its surplus pods. So two ReplicaSets may both be
    // scaled down too far.
    const lags = mirror
      .controlledBy("replicasets", ownerName("deployments", d))
      .some((each) =>
        mirror
          .lately<ReplicaSet & KubeObject>(each.metadata.uid, 1_000)
          .some(({ spec, status }) => (status?.availableReplicas ?? 0) > (spec?.replicas ?? 0)),
      );
    if (lags) return;
    const least = Math.min(...states.map((state) => (state.spec?.replicas ?? 0) - fencepost(state, "maxUnavailable")));
    // Checks with the current statuses, and with the best recent ones, because the decision was based on a state in between.
    for (const ms of [0, LATE_MS]) {
      const available = (each: ReplicaSet & KubeObject, size: number): number =>
        Math.min(
          size,
          Math.max(0, ...mirror.lately<ReplicaSet & KubeObject>(each.metadata.uid, ms).map(({ status }) => status?.availableReplicas ?? 0)),
        );
      const left = mirror
        .controlledBy("replicasets", ownerName("deployments", d))
        .reduce((sum, each) => sum + available(each, each.spec?.replicas ?? 0), 0);
      const was = left - available(rs, rs.spec?.replicas ?? 0) + available(rs, before);
      if (left >= was || left >= least) return;
    }
    this.bad(excused("SC8unavailable"), `${rs.metadata.name} shrank from ${before}: fewer than ${least} are left available`);
  }

  /** The rule to report for a violation for `owner`: a call that is executed late, or a loss, may violate bounds for a moment. */
  #excuse({ kind, namespace, name }: Pick<OwnerName, "kind" | "namespace" | "name">): (rule: string) => string {
    const nowMs = this.#options.clock.now();
    const run = `${kind.toLowerCase()} ${objectKey(namespace, name)}`;
    const isNear = nowMs - this.#lossMs < LOSS_MS;
    if (isNear && (this.#taken.get(run) ?? 0) < this.#soundMs) this.#outran.add(run);
    return (rule) => {
      if (isNear && this.#outran.has(run)) return `${rule}loss`;
      return rule !== "SC1" && rule !== "SC7" && nowMs - this.#lateMs < LATE_MS ? `${rule}late` : rule;
    };
  }

  #exists({ namespace, name, uid }: OwnerName): boolean {
    const { mirror } = this.#options;
    const key = objectKey(namespace, name);
    return [mirror.get("replicasets", key), mirror.get("replicationcontrollers", key)].some((owner) => owner?.metadata.uid === uid);
  }

  rememberDecoys(): void {
    for (const name of DECOYS) this.#decoys.set(name, this.#decoyText(name));
  }

  #decoyText(name: string): string {
    const { mirror } = this.#options;
    const key = objectKey(SHOP, name);
    const object = mirror.get("pods", key) ?? mirror.get("replicasets", key);
    return JSON.stringify([object?.metadata.labels, object?.metadata.ownerReferences, object?.metadata.uid]);
  }

  /** Returns whether SE1 and SE2 hold now. */
  isAtRest(): boolean {
    const found: Violation[] = [];
    this.#report = (violation) => found.push(violation);
    this.#atRest();
    this.#report = this.#options.onViolation;
    return found.length === 0;
  }

  end(quietMs: number): void {
    const nowMs = this.#options.clock.now();
    for (const [name, text] of this.#decoys)
      if (this.#decoyText(name) !== text) this.bad("SC3", `${name} is no longer what it was: ${this.#decoyText(name)}`);
    this.#atRest();
    if (nowMs - this.lastWriteMs < quietMs)
      this.bad("SE3", `wrote ${Math.round((nowMs - this.lastWriteMs) / 1000)} s before the end: ${this.lastWrite}`);
    if (nowMs - this.lastSyncMs < quietMs) this.bad("SE3", `a sync ran ${Math.round((nowMs - this.lastSyncMs) / 1000)} s before the end`);
  }

  #atRest(): void {
    this.#cacheIsExact();
    this.#nothingIsOpen();
    this.desired("SE2");
  }

  #cacheIsExact(): void {
    const { data, mirror } = this.#options;
    for (const resource of CACHED_RESOURCES) {
      const rows = new Map(data.epoch?.resources.get(resource)?.lanes.flatMap((lane) => [...lane.rows]) ?? []);
      const objects = mirror.all(resource);
      for (const { metadata } of objects) {
        const key = objectKey(metadata.namespace ?? "", metadata.name);
        const row = rows.get(key);
        if (row?.rv !== metadata.resourceVersion || row.uid !== metadata.uid)
          this.bad("SE1cache", `${resource} ${key} is at ${metadata.resourceVersion}, cached at ${row?.rv}`);
        if (row?.gone) this.bad("SE1gone", `${resource} ${key} is flagged gone`);
        if (row && row.owner !== ownerOf(resource, metadata)) this.bad("SE1cache", `${resource} ${key} stands under ${row.owner}`);
      }
      const keys = new Set(objects.map(({ metadata }) => objectKey(metadata.namespace ?? "", metadata.name)));
      for (const key of rows.keys()) if (!keys.has(key)) this.bad("SE1cache", `${resource} ${key} is cached and does not exist`);
      const sliced = [...(data.epoch?.resources.get(resource)?.slices.values() ?? [])].reduce((sum, slice) => sum + slice.size, 0);
      this.#slicesAreBound(resource);
      if (sliced !== rows.size) this.bad("SE1slices", `${resource}: ${rows.size} rows, ${sliced} slice entries`);
    }
  }

  /** A slice must hold the dependents of one owner, or orphans of one namespace, whatever its name. */
  #slicesAreBound(resource: CachedResource): void {
    const { data, mirror } = this.#options;
    for (const [name, slice] of data.epoch?.resources.get(resource)?.slices ?? []) {
      const owners = [...slice.keys()].map((key) => {
        const { namespace, ...metadata } = mirror.get(resource, key)?.metadata ?? {};
        const { kind, name: owner, uid } = controllerRef(metadata) ?? {};
        return JSON.stringify(resource === "pods" ? [namespace, uid, kind, owner] : [namespace, uid]);
      });
      if (new Set(owners).size > 1)
        this.bad("SC9slice", `the slice ${name} of ${resource} holds dependents of ${[...new Set(owners)].join(" and ")}`);
    }
  }

  #nothingIsOpen(): void {
    const { data, mirror } = this.#options;
    for (const controller of CONTROLLERS) {
      const queue = data.epoch?.queues[controller];
      for (const [key, atMs] of queue?.ready ?? [])
        this.bad("SE1dirty", `${controller} ${key} is due in ${atMs - this.#options.clock.now()} ms`);
      for (const key of queue?.runs.keys() ?? []) this.bad("SE1dirty", `${controller} ${key} is running`);
    }
    const owners = new Set(
      CONTROLLERS.flatMap((controller) =>
        mirror
          .all(CONTROLLER_INFO[controller].primary)
          .map(({ metadata: { namespace = "", name, uid } }) => primaryAsOwner(controller, objectKey(namespace, name), uid)),
      ),
    );
    for (const [owner, intents] of data.epoch?.intents ?? []) {
      if (!owners.has(owner)) this.bad("SE1leak", `intents ${[...intents.keys()].join(" ")} of an owner that is no more`);
      for (const { intent } of intents.values()) if (intent.state === "pending") this.bad("SE1intent", `${intent.id} is pending`);
    }
  }

  /** Checks that every owner has its desired pods and reports them in its status. `rule` names the moment. */
  desired(rule: string): void {
    const { mirror } = this.#options;
    for (const resource of ["replicasets", "replicationcontrollers"] as const)
      for (const rs of mirror.all(resource)) this.#replicasAreRight(rule, resource, rs);
    for (const d of mirror.all("deployments")) this.#deploymentIsRight(rule, d);
  }

  #replicasAreRight(rule: string, resource: "replicasets" | "replicationcontrollers", rs: ReplicaSet & KubeObject): void {
    if (rs.metadata.name === "foreign" || rs.metadata.deletionTimestamp !== undefined) return;
    const { mirror } = this.#options;
    const selects = selectorOf(rs);
    const own = mirror.controlledBy("pods", ownerName(resource, rs)).filter(isActive);
    const claimed = own.filter(({ metadata }) => selects(metadata.labels ?? {}));
    const want = rs.spec?.replicas ?? 0;
    const name = `${rs.kind ?? "ReplicaSet"} ${rs.metadata.namespace}/${rs.metadata.name}`;
    if (own.length !== claimed.length) this.bad(rule, `${name} did not release ${own.length - claimed.length}`);
    if (claimed.length !== want) return this.bad(rule, `${name} has ${claimed.length} pods, wants ${want}`);
    const orphan = mirror
      .all("pods")
      .find(
        (pod) =>
          pod.metadata.namespace === rs.metadata.namespace &&
          isActive(pod) &&
          controllerRef(pod.metadata) === undefined &&
          selects(pod.metadata.labels ?? {}),
      );
    if (orphan) this.bad(rule, `${name} did not adopt ${orphan.metadata.name}`);
    const ready = claimed.filter(isReady).length;
    const { status } = rs;
    const says = [
      status?.observedGeneration,
      status?.replicas,
      status?.readyReplicas ?? 0,
      status?.availableReplicas ?? 0,
      status?.terminatingReplicas ?? 0,
    ];
    const is = [rs.metadata.generation, want, ready, ready, 0];
    if (says.join() !== is.join()) this.bad(`${rule}status`, `${name} says ${says.join()}, is ${is.join()}`);
    if ((status?.conditions ?? []).length > 0) this.bad(`${rule}status`, `${name} has ${JSON.stringify(status?.conditions)}`);
  }

  #deploymentIsRight(rule: string, d: Deployment & KubeObject): void {
    if (d.metadata.deletionTimestamp !== undefined) return;
    const { mirror } = this.#options;
    const all = mirror.controlledBy("replicasets", ownerName("deployments", d));
    if (isStuckAsUpstream(d, all)) return;
    const newest = all.filter((rs) => templatesEqual(rs.spec?.template ?? {}, d.spec?.template ?? {})).toSorted(byAge)[0];
    const want = d.spec?.replicas ?? 0;
    const name = `Deployment ${d.metadata.name}`;
    if (newest?.spec?.replicas !== want)
      return this.bad(rule, `${name}: the new ReplicaSet ${newest?.metadata.name} has size ${newest?.spec?.replicas}, not ${want}`);
    for (const rs of all)
      if (rs !== newest && rs.spec?.replicas !== 0)
        this.bad(rule, `${name}: old ReplicaSet ${rs.metadata.name} has size ${rs.spec?.replicas}`);
    const history = all.length - 1;
    if (history > (d.spec?.revisionHistoryLimit ?? 10)) this.bad(`${rule}history`, `${name} keeps ${history} old ReplicaSets`);
    const { status } = d;
    const says = [
      status?.observedGeneration,
      status?.replicas ?? 0,
      status?.updatedReplicas ?? 0,
      status?.readyReplicas ?? 0,
      status?.availableReplicas ?? 0,
      status?.unavailableReplicas ?? 0,
      status?.terminatingReplicas ?? 0,
    ];
    const is = [d.metadata.generation, want, want, want, want, 0, 0];
    if (says.join() !== is.join()) this.bad(`${rule}status`, `${name} says ${says.join()}, is ${is.join()}`);
    const conditions = Object.fromEntries(
      (status?.conditions ?? []).map(({ type, status: value, reason }) => [type, `${value} ${reason}`]),
    );
    if (conditions["Available"] !== "True MinimumReplicasAvailable")
      this.bad(`${rule}status`, `${name}: Available is ${conditions["Available"]}`);
    if (!["True NewReplicaSetAvailable"].includes(conditions["Progressing"] ?? ""))
      this.bad(`${rule}status`, `${name}: Progressing is ${conditions["Progressing"]}`);
    if (conditions["ReplicaFailure"] !== undefined) this.bad(`${rule}status`, `${name}: ReplicaFailure is ${conditions["ReplicaFailure"]}`);
  }

  bad(rule: string, what: string): void {
    this.#report({ rule, atMs: this.#options.clock.now(), what });
  }
}

/**
 * Returns whether upstream would leave a Deployment on the scale path forever: a size written by hand, or (Recreate) several ReplicaSets
 * with replicas, and an annotation with another desired size (deployment quirk Q3, sync.go scale).
 */
function isStuckAsUpstream(d: Deployment, rss: readonly ReplicaSet[]): boolean {
  const active = rss.filter(({ spec }) => (spec?.replicas ?? 0) > 0);
  const scaling = active.some(
    ({ metadata }) => metadata?.annotations?.["deployment.kubernetes.io/desired-replicas"] !== String(d.spec?.replicas),
  );
  return scaling && (active.length === 1 ? active[0]?.spec?.replicas === d.spec?.replicas : d.spec?.strategy?.type === "Recreate");
}

function labelSelectorOf({ spec }: Deployment): string {
  const selector = compileSelector(spec?.selector);
  return selector.kind === "Invalid" ? "" : formatSelector(selector);
}

interface Preconditions {
  readonly uid?: string;
  readonly resourceVersion?: string;
}

function preconditionsOf(body: object | undefined): Preconditions {
  // The body of our DELETEs is DeleteOptions; the write gateway checks it.
  return (body as { readonly preconditions?: Preconditions } | undefined)?.preconditions ?? {};
}

/** The name in the body of a request. */
function nameIn(body: object | undefined): string | undefined {
  return (body as { readonly metadata?: { readonly name?: string } } | undefined)?.metadata?.name;
}

/** A PATCH of ours that must not change another object of the same name states the uid. */
function uidIn(body: object | undefined): string | undefined {
  return (body as { readonly metadata?: { readonly uid?: string } } | undefined)?.metadata?.uid;
}

/** The parts of `…/namespaces/<namespace>/<resource>/<name>`; undefined for other paths, including those of subresources. */
function targetOf(path: string): { readonly resource: string; readonly namespace: string; readonly name: string } {
  const [, namespace = "", resource = "", name = ""] = /\/namespaces\/([^/]+)\/([^/]+)\/([^/]+)$/.exec(path) ?? [];
  return { resource, namespace, name };
}

function isReady(pod: Pod): boolean {
  return pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

function byAge(a: KubeObject, b: KubeObject): number {
  return (a.metadata.creationTimestamp ?? "").localeCompare(b.metadata.creationTimestamp ?? "");
}

function selectorOf(rs: ReplicaSet & KubeObject): (labels: Readonly<Record<string, string>>) => boolean {
  const raw: unknown = rs.spec?.selector;
  const flat = typeof raw === "object" && raw !== null && !("matchLabels" in raw) && !("matchExpressions" in raw);
  const selector = compileSelector(flat ? { matchLabels: raw as Readonly<Record<string, string>> } : rs.spec?.selector);
  return (labels) => selector.kind !== "Invalid" && matches(selector, labels);
}

/** Upstream rounds the surge up and the unavailable number down; if both are 0, one pod may be unavailable. */
function fencepost({ spec }: Deployment, which: "maxSurge" | "maxUnavailable"): number {
  const replicas = spec?.replicas ?? 0;
  if (spec?.strategy?.type === "Recreate") return which === "maxSurge" ? 0 : replicas;
  const rolling = spec?.strategy?.rollingUpdate;
  const surge = resolve(rolling?.maxSurge ?? "25%", replicas, Math.ceil);
  const unavailable = resolve(rolling?.maxUnavailable ?? "25%", replicas, Math.floor);
  if (which === "maxSurge") return surge;
  return surge === 0 && unavailable === 0 ? 1 : Math.min(unavailable, replicas);
}

function resolve(value: string | number, replicas: number, round: (n: number) => number): number {
  return typeof value === "number" ? value : round((Number.parseInt(value, 10) * replicas) / 100);
}

function ownerOf(resource: CachedResource, metadata: KubeObject["metadata"]): string | undefined {
  const ref = controllerRef(metadata);
  const namespace = metadata.namespace ?? "";
  return ref && (resource === "pods" ? podOwnerId(namespace, ref) : ownerId(namespace, ref.uid));
}
