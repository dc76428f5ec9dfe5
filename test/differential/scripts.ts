/**
 * The environment of the tested controller: random actions of users and other controllers. A script is the history of a Deployment or a
 * ReplicaSet (ReplicationController) in about a dozen steps; the controller syncs once after each step.
 */
import type { Controller } from "../../shared/kube/objects/resources.ts";
import { podTemplateHash, podTemplateHashState } from "../../shared/kube/pod-template/pod-template-hash.ts";
import { formatTime } from "../../shared/kube/objects/time.ts";
import type { KubeObject, PodTemplateSpec } from "../../shared/kube/objects/wire.ts";
import { collection, NAMESPACE, REFUSALS, type SharedApiServer, type Fault, type Fields, type Json } from "./shared-api-server.ts";
import type { Dice } from "./dice.ts";

const NAME = "web";
const ANNOTATION = "deployment.kubernetes.io";
const FINALIZER = "example.com/held";
const HOUR_MS = 3_600_000;

export interface Script {
  readonly controller: Controller;
  readonly key: string;
  /** Runs before the first sync. */
  begin(): Promise<void>;
  /** Runs before each further sync. */
  step(): Promise<void>;
  faults(): readonly Fault[];
}

export function scriptOf(shared: SharedApiServer, dice: Dice, controller: Controller): Script {
  return controller === "deployment" ? deploymentScript(shared, dice) : replicaScript(shared, dice, controller);
}

/** Actions shared by several scripts. */
function handsOf(shared: SharedApiServer, dice: Dice) {
  const set = async (resource: string, name: string, part: string, value: Json, subresource = ""): Promise<void> => {
    const body = [{ op: "add", path: `/${part}`, value }];
    await shared.person("PATCH", `${collection(resource)}/${name}${subresource}`, body, "application/json-patch+json");
  };
  const all = async (resource: string): Promise<readonly (KubeObject & { readonly spec: Fields; readonly status: Fields })[]> =>
    (await shared.person("GET", collection(resource)))["items"] as never; // the items of a list
  return {
    set,
    all,
    create: async (resource: string, body: object, agoMs = 0): Promise<KubeObject> =>
      await shared.at(shared.clock.now() - agoMs, () => shared.person<KubeObject>("POST", collection(resource), body)),
    setStatus: (resource: string, name: string, status: Json) => set(resource, name, "status", status, "/status"),
    merge: (resource: string, name: string, body: object) =>
      shared.person("PATCH", `${collection(resource)}/${name}`, body, "application/merge-patch+json"),
    /** Deletes an object while a finalizer holds it. */
    async terminate(resource: string, name: string): Promise<void> {
      await set(resource, name, "metadata/finalizers", [FINALIZER]);
      await shared.person("DELETE", `${collection(resource)}/${name}`, { propagationPolicy: "Background" });
    },
    remove: (resource: string, name: string) =>
      shared.person("DELETE", `${collection(resource)}/${name}`, { propagationPolicy: "Background", gracePeriodSeconds: 0 }),
    time: (agoMs: number): string => formatTime(shared.clock.now() - agoMs),
    async pass(): Promise<void> {
      await shared.clock.advance(dice.pick([0, 1, 997, 1_000, 7_000, 30_500, 59_000, 61_000, 600_000, HOUR_MS]));
      if (shared.clock.now() % 1_000 === 0) await shared.clock.advance(1); // see START_MS
    },
  };
}

const refusals = Object.keys(REFUSALS) as (keyof typeof REFUSALS)[]; // the keys of a literal

function anyFaults(dice: Dice, calls: readonly (readonly [Fault["verb"], string])[]): readonly Fault[] {
  if (!dice.chance(0.25)) return [];
  const [verb, resource] = dice.pick(calls);
  // `all` for deletes of pods, because the choice among equal pods is random.
  const which = resource === "pods" && verb === "delete" ? "all" : dice.pick([1, 1, 1, 2, 3, "all"] as const);
  // A terminating namespace rejects only creates. Upstream deletes pods without a precondition, so a delete never conflicts.
  if (verb === "create" && dice.chance(0.3)) return [{ verb, resource, which, refusal: "terminating" }];
  const refusal = dice.pick(
    refusals.filter(
      (each) => (verb === "create" || each !== "terminating") && (resource !== "pods" || verb !== "delete" || each !== "conflict"),
    ),
  );
  return [{ verb, resource, which, refusal }];
}

/** Returns a template for a small number; equal numbers yield equal templates. */
function template(version: number, labels: Fields = {}): Fields {
  return {
    metadata: { labels: { app: NAME, ...labels }, ...(version % 3 === 2 && { annotations: { note: "n" } }) },
    spec: {
      containers: [{ name: "c", image: `image:v${version}`, ...(version % 2 === 1 && { env: [{ name: "A", value: String(version) }] }) }],
    },
  };
}

function deploymentScript(shared: SharedApiServer, dice: Dice): Script {
  const hands = handsOf(shared, dice);
  const fence = (): Json => dice.pick([0, 1, 1, 2, 3, "0%", "10%", "25%", "33%", "50%", "100%"]);
  const strategy = (): Fields => {
    if (dice.chance(0.2)) return { type: "Recreate", rollingUpdate: null };
    const maxSurge = fence();
    const maxUnavailable = fence();
    const none = (value: Json): boolean => Number.parseInt(String(value), 10) === 0;
    return { type: "RollingUpdate", rollingUpdate: { maxSurge: none(maxSurge) && none(maxUnavailable) ? 1 : maxSurge, maxUnavailable } };
  };
  const revision = (): string => dice.pick(["", "0", "1", "2", "3", "4", "9", "10", "11", "007", "x", "9007199254740993"]);
  let made = 0;

  /** Creates a ReplicaSet that a user or an interrupted sync left behind. */
  const leaveReplicaSet = async (owner: KubeObject, version: number): Promise<void> => {
    const hash = dice.chance(0.7) ? { "pod-template-hash": `h${++made}` } : {};
    const replicas = dice.pick([0, 0, 1, 2, 3, 5, 8]);
    const ready = dice.int(0, replicas);
    const ref = {
      apiVersion: "apps/v1",
      kind: "Deployment",
      name: NAME,
      uid: owner.metadata.uid,
      controller: true,
      blockOwnerDeletion: true,
    };
    const whose = dice.pick(["ours", "ours", "ours", "ours", "ours", "ours", "nobody", "another"]);
    const matches = dice.chance(0.93);
    const name = `${NAME}-left-${++made}`;
    const numbered = dice.chance(0.85) ? { [`${ANNOTATION}/revision`]: revision() } : {};
    const sized = dice.chance(0.8)
      ? {
          [`${ANNOTATION}/desired-replicas`]: dice.pick([String(replicasNow), String(replicasNow), "3", "0", "x", "-1"]),
          [`${ANNOTATION}/max-replicas`]: dice.pick([
            String(replicasNow + 1),
            String(replicasNow + 2),
            String(replicasNow),
            "4",
            "0",
            "99999999999",
          ]),
        }
      : {};
    const history = dice.chance(0.2) ? { [`${ANNOTATION}/revision-history`]: dice.pick(["1", "1,2", "", ",1"]) } : {};
    const copied = dice.chance(0.3) ? { team: dice.pick(["a", "b"]) } : {};
    const labels = { app: matches ? NAME : "other", ...hash };
    await hands.create(
      "replicasets",
      {
        apiVersion: "apps/v1",
        kind: "ReplicaSet",
        metadata: {
          name,
          labels,
          annotations: { ...numbered, ...sized, ...history, ...copied },
          ...(whose !== "nobody" && {
            ownerReferences: [whose === "ours" ? ref : { ...ref, uid: "00000000-0000-4000-8000-000000000000" }],
          }),
        },
        spec: {
          replicas,
          ...(dice.chance(0.2) && { minReadySeconds: 5 }),
          selector: { matchLabels: { app: labels.app, ...hash } },
          template: template(version, { ...labels }),
        },
      },
      dice.pick([0, 1000, 60_000, 60_000, HOUR_MS, 2 * HOUR_MS]),
    );
    await hands.setStatus("replicasets", name, {
      replicas: dice.chance(0.8) ? replicas : dice.int(ready, 9),
      readyReplicas: ready,
      availableReplicas: dice.chance(0.7) ? ready : dice.int(0, ready),
      observedGeneration: dice.chance(0.85) ? 1 : 0,
      ...(dice.chance(0.4) && { terminatingReplicas: dice.int(0, 2) }),
      ...(dice.chance(0.1) && { conditions: [failure(name)] }),
    });
    if (dice.chance(0.12)) await hands.terminate("replicasets", name);
    if (dice.chance(0.25)) await leavePod(name);
  };
  const failure = (of: string): Fields => ({
    type: "ReplicaFailure",
    status: "True",
    reason: "FailedCreate",
    message: `no quota for ${of}`,
    lastTransitionTime: hands.time(5_000),
  });

  const leavePod = async (replicaSet: string): Promise<void> => {
    const { uid } = (await hands.all("replicasets")).find(({ metadata }) => metadata.name === replicaSet)?.metadata ?? { uid: "" };
    const name = `${NAME}-pod-${++made}`;
    const ref = { apiVersion: "apps/v1", kind: "ReplicaSet", name: replicaSet, uid, controller: true };
    await hands.create("pods", {
      metadata: { name, labels: { app: NAME }, ownerReferences: [ref] },
      spec: { containers: [{ name: "c", image: "i" }], nodeName: "n1" },
    });
    await hands.setStatus("pods", name, { phase: dice.pick(["Running", "Pending", "Failed", "Succeeded"]) });
    if (dice.chance(0.2)) await hands.terminate("pods", name);
  };

  /** Creates another owner's object with the name that the next new ReplicaSet would get. */
  const takeName = async (): Promise<void> => {
    const d = await deployment();
    if (d === undefined) return;
    const state = podTemplateHashState(d.spec["template"] as unknown as PodTemplateSpec, shared.release); // the type of a Deployment's field
    const collisions = d.status["collisionCount"];
    const hash = podTemplateHash(state, typeof collisions === "number" ? collisions : undefined);
    const name = `${NAME}-${hash}`;
    if ((await hands.all("replicasets")).some(({ metadata }) => metadata.name === name)) return;
    const ref = { apiVersion: "apps/v1", kind: "Deployment", name: NAME, uid: d.metadata.uid, controller: true };
    const labels = { app: dice.pick([NAME, "other"]) };
    await hands.create("replicasets", {
      apiVersion: "apps/v1",
      kind: "ReplicaSet",
      metadata: { name, labels, ...(dice.chance(0.5) && { ownerReferences: [ref] }) },
      spec: { replicas: 0, selector: { matchLabels: labels }, template: template(dice.int(1, 4), labels) },
    });
  };

  let replicasNow = dice.int(0, 12);
  const deployment = async () => (await hands.all("deployments")).find(({ metadata }) => metadata.name === NAME);
  const condition = (type: string, status: string, reason: string): Fields => {
    const time = hands.time(dice.pick([0, 10_000, 59_000, 60_000, 61_000, 700_000]));
    return { type, status, reason, message: "m", lastUpdateTime: time, lastTransitionTime: time };
  };
  const anyStatus = (current: Fields = {}): Fields => {
    const replicas = dice.int(0, 6);
    const ready = dice.int(0, replicas);
    const reasons = [
      "NewReplicaSetAvailable",
      "ReplicaSetUpdated",
      "NewReplicaSetCreated",
      "FoundNewReplicaSet",
      "ProgressDeadlineExceeded",
      "ProgressDeadlineExceeded",
      "DeploymentPaused",
      "DeploymentResumed",
      "FailedCreate",
      "Other",
    ];
    const conditions = [
      ...(dice.chance(0.7) ? [condition("Progressing", dice.pick(["True", "False", "Unknown"]), dice.pick(reasons))] : []),
      ...(dice.chance(0.5)
        ? [condition("Available", dice.pick(["True", "False"]), dice.pick(["MinimumReplicasAvailable", "MinimumReplicasUnavailable"]))]
        : []),
      ...(dice.chance(0.1) ? [condition("ReplicaFailure", "True", "FailedCreate")] : []),
      ...(dice.chance(0.05) ? [condition("Foreign", "True", "Because")] : []),
    ];
    return {
      replicas,
      updatedReplicas: dice.int(0, replicas),
      readyReplicas: ready,
      availableReplicas: dice.int(0, ready),
      unavailableReplicas: dice.int(0, 6),
      observedGeneration: dice.int(0, 1),
      ...(dice.chance(0.2) && { collisionCount: dice.int(0, 2) }),
      ...(current["collisionCount"] !== undefined && { collisionCount: current["collisionCount"] }),
      ...(conditions.length > 0 && { conditions }),
    };
  };

  /** Simulates part of the ReplicaSet controller's work. */
  const progress = async (): Promise<void> => {
    for (const { metadata, spec } of await hands.all("replicasets")) {
      if (dice.chance(0.2)) continue;
      const replicas = Number(spec["replicas"]);
      const ready = dice.chance(0.6) ? replicas : dice.int(0, replicas);
      await hands.setStatus("replicasets", metadata.name, {
        replicas,
        readyReplicas: ready,
        availableReplicas: dice.chance(0.8) ? ready : dice.int(0, ready),
        observedGeneration: metadata.generation ?? 1,
        ...(dice.chance(0.1) && { conditions: [failure(metadata.name)] }),
      });
    }
  };

  const edit = async (): Promise<void> => {
    const spec = async (change: object): Promise<void> => void (await hands.merge("deployments", NAME, { spec: change }));
    const left = (await hands.all("replicasets")).map(({ metadata }) => metadata.name);
    const d = await deployment();
    if (d === undefined) return;
    switch (dice.int(0, 15)) {
      case 0:
      case 1:
        return spec({ replicas: (replicasNow = dice.int(0, 12)) });
      case 2:
      case 3:
      case 4:
        return spec({ template: template(dice.int(1, 5)) });
      case 5:
        return spec({ paused: dice.chance(0.5) });
      case 6:
        return spec({ strategy: strategy() });
      case 7:
        return spec({ revisionHistoryLimit: dice.int(0, 3) });
      case 8:
        return spec({ progressDeadlineSeconds: dice.pick([61, 600, 2_147_483_647]), minReadySeconds: dice.pick([0, 5]) });
      case 9:
        return void (await hands.merge("deployments", NAME, {
          metadata: { annotations: { team: dice.pick(["a", "b", null]), [`${ANNOTATION}/revision`]: dice.pick(["1", "7", null, "x"]) } },
        }));
      case 10:
        return takeName();
      case 11:
        return leaveReplicaSet(d, dice.int(1, 5));
      case 12:
        if (left.length > 0) await hands.merge("replicasets", dice.pick(left), { spec: { replicas: dice.int(0, 6) } });
        return;
      case 13:
        if (left.length > 0) await leavePod(dice.pick(left));
        return;
      case 14:
        return hands.setStatus("deployments", NAME, anyStatus(d.status));
      case 15:
        if (dice.chance(0.2) && d.metadata.deletionTimestamp === undefined) await hands.terminate("deployments", NAME);
        else if (left.length > 0) await hands.merge("replicasets", dice.pick(left), { metadata: { labels: { app: "other" } } });
        return;
    }
  };

  return {
    controller: "deployment",
    key: `${NAMESPACE}/${NAME}`,
    async begin() {
      const owner = await hands.create(
        "deployments",
        {
          metadata: {
            name: NAME,
            labels: { app: NAME },
            annotations: {
              ...(dice.chance(0.4) && { team: "a" }),
              ...(dice.chance(0.1) && { "kubectl.kubernetes.io/last-applied-configuration": "{}" }),
              ...(dice.chance(0.3) && { [`${ANNOTATION}/revision`]: revision() }),
            },
          },
          spec: {
            replicas: replicasNow,
            selector: { matchLabels: { app: NAME } },
            template: template(dice.int(1, 4)),
            strategy: strategy(),
            ...(dice.chance(0.15) && { paused: true }),
            ...(dice.chance(0.3) && { minReadySeconds: 10 }),
            progressDeadlineSeconds: dice.pick([60, 60, 600, 2_147_483_647]),
            revisionHistoryLimit: dice.pick([0, 1, 2, 10, 10]),
            ...(dice.chance(0.2) && { minReadySeconds: 5 }),
          },
        },
        HOUR_MS,
      );
      for (let left = dice.int(0, 5); left > 0; left--) await leaveReplicaSet(owner, dice.int(1, 4));
      if (dice.chance(0.6)) await hands.setStatus("deployments", NAME, anyStatus());
    },
    async step() {
      await hands.pass();
      if (dice.chance(0.6)) await progress();
      if (dice.chance(0.5)) await edit();
    },
    faults: () =>
      anyFaults(dice, [
        ["create", "replicasets"],
        ["create", "replicasets"],
        ["change", "replicasets"],
        ["change", "replicasets"],
        ["delete", "replicasets"],
        ["change", "deployments/status"],
      ]),
  };
}

function replicaScript(shared: SharedApiServer, dice: Dice, controller: "replicaset" | "replicationcontroller"): Script {
  const hands = handsOf(shared, dice);
  const isReplicaSet = controller === "replicaset";
  const resource = isReplicaSet ? "replicasets" : "replicationcontrollers";
  const api = isReplicaSet ? { apiVersion: "apps/v1", kind: "ReplicaSet" } : { apiVersion: "v1", kind: "ReplicationController" };
  const deploymentRef = {
    apiVersion: "apps/v1",
    kind: "Deployment",
    name: "d",
    uid: "11111111-0000-4000-8000-000000000000",
    controller: true,
  };
  // A new pod has the same owner or none: upstream and ours count a matching pod of another owner differently (replicaset §8.1).
  const hasDeployment = isReplicaSet && dice.chance(0.6);
  const nodes = ["n1", "n2", "n3"];
  let made = 0;

  const primary = async (name: string): Promise<KubeObject> => {
    const labels = { app: NAME };
    const spec = {
      replicas: dice.pick([0, 1, 2, 3, 5, 7, 12]),
      ...(dice.chance(0.4) && { minReadySeconds: dice.pick([1, 10, 60]) }),
      selector: isReplicaSet ? { matchLabels: labels } : labels,
      template: {
        metadata: { labels: { ...labels, ...(dice.chance(0.4) && { tier: "t" }) } },
        spec: { containers: [{ name: "c", image: "i" }] },
      },
    };
    const ownerReferences = hasDeployment ? [deploymentRef] : [];
    return hands.create(resource, { ...api, metadata: { name, labels, ownerReferences }, spec }, HOUR_MS);
  };

  const leavePod = async (owner: KubeObject): Promise<void> => {
    const name = `${NAME}-pod-${++made}`;
    const whose = dice.pick(["ours", "ours", "ours", "ours", "ours", "ours", "nobody", "another"]);
    const ref = { ...api, name: owner.metadata.name, uid: owner.metadata.uid, controller: true, blockOwnerDeletion: true };
    const matches = dice.chance(0.92);
    await hands.create(
      "pods",
      {
        metadata: {
          name,
          labels: { app: matches ? NAME : "other", ...(dice.chance(0.5) && { tier: "t" }) },
          annotations: dice.chance(0.15)
            ? { "controller.kubernetes.io/pod-deletion-cost": dice.pick(["10", "-5", "0", "x", "+3", "007"]) }
            : {},
          ...(whose !== "nobody" && {
            ownerReferences: [whose === "ours" ? ref : { ...ref, uid: "00000000-0000-4000-8000-000000000000" }],
          }),
        },
        spec: {
          containers: [{ name: "c", image: "i" }],
          ...(whose === "another" ? { nodeName: "elsewhere" } : dice.chance(0.85) && { nodeName: dice.pick(nodes) }),
        },
      },
      dice.pick([0, 1_000, 3_000, 9_000, 60_000, 70_000, HOUR_MS]),
    );
    await podStatus(name);
    if (dice.chance(0.08)) await hands.terminate("pods", name);
  };
  const podStatus = async (name: string): Promise<void> => {
    const phase = dice.pick(["Running", "Running", "Running", "Running", "Pending", "Unknown", "Failed", "Succeeded"]);
    const ready = dice.chance(0.75);
    const restarted = { name: "c", image: "i", imageID: "", ready, restartCount: dice.pick([0, 0, 0, 1, 3]), state: {}, lastState: {} };
    await hands.setStatus("pods", name, {
      phase,
      conditions: [
        {
          type: "Ready",
          status: ready ? "True" : "False",
          ...(dice.chance(0.95) && {
            lastTransitionTime: hands.time(dice.pick([0, 500, 1_000, 4_000, 9_000, 10_000, 11_000, 60_000, HOUR_MS])),
          }),
        },
      ],
      ...(dice.chance(0.6) && { containerStatuses: [restarted] }),
    });
  };

  const edit = async (): Promise<void> => {
    const pods = (await hands.all("pods"))
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map(({ metadata }) => metadata.name);
    const owner = (await hands.all(resource)).find(({ metadata }) => metadata.name === NAME);
    if (owner === undefined) return;
    switch (dice.int(0, 8)) {
      case 0:
      case 1:
      case 2:
        return void (await hands.merge(resource, NAME, { spec: { replicas: dice.pick([0, 1, 2, 3, 5, 8, 14]) } }));
      case 3:
        return leavePod(owner);
      case 4:
        return void (await hands.merge(resource, NAME, { spec: { minReadySeconds: dice.pick([0, 1, 10, 60]) } }));
      case 5:
        if (pods.length > 0) await hands.merge("pods", dice.pick(pods), { metadata: { labels: { app: dice.pick([NAME, "other"]) } } });
        return;
      case 6:
        if (pods.length > 0) await hands.terminate("pods", dice.pick(pods));
        return;
      case 7:
        return hands.setStatus(resource, NAME, {
          replicas: dice.int(2, 5),
          readyReplicas: dice.int(1, 2),
          availableReplicas: dice.int(0, 1),
          fullyLabeledReplicas: dice.int(0, 2),
          observedGeneration: dice.int(0, 1),
          ...(dice.chance(0.5) && {
            conditions: [
              {
                type: dice.pick(["ReplicaFailure", "Foreign"]),
                status: "True",
                reason: "FailedDelete",
                message: "m",
                lastTransitionTime: hands.time(9_000),
              },
            ],
          }),
        });
      case 8:
        if (dice.chance(0.15) && owner.metadata.deletionTimestamp === undefined) await hands.terminate(resource, NAME);
        else if (pods.length > 0) await hands.remove("pods", dice.pick(pods));
        return;
    }
  };

  return {
    controller,
    key: `${NAMESPACE}/${NAME}`,
    async begin() {
      const owner = await primary(NAME);
      const sibling = dice.chance(0.5) ? await primary(`${NAME}-sibling`) : undefined;
      for (let left = dice.int(0, 9); left > 0; left--) await leavePod(owner);
      if (sibling) for (let left = dice.int(0, 4); left > 0; left--) await leavePod(sibling);
    },
    async step() {
      await hands.pass();
      for (const { metadata } of await hands.all("pods")) if (dice.chance(0.4)) await podStatus(metadata.name);
      if (dice.chance(0.7)) await edit();
    },
    faults: () =>
      anyFaults(dice, [
        ["create", "pods"],
        ["create", "pods"],
        ["change", "pods"],
        ["delete", "pods"],
        ["change", `${resource}/status`],
      ]),
  };
}
