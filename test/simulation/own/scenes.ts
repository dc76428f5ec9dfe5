/**
 * Scenes for the five examples: steps of users and other writers, each with the expected final state. `everyCrash` plays them unchanged,
 * the simulation under faults.
 */
import { podJanitor } from "../../../examples/pod-janitor/pod-janitor.ts";
import { pullSecret } from "../../../examples/pull-secret/pull-secret.ts";
import { scheduledScaler } from "../../../examples/scheduled-scaler/scheduled-scaler.ts";
import { teamGuard } from "../../../examples/team-guard/team-guard.ts";
import { Website, website } from "../../../examples/website/website.ts";
import type { Controller } from "../../../shared/sdk/index.ts";
import { ConfigMap, Deployment, Namespace, NetworkPolicy, Pod, ResourceQuota, Secret, Service } from "../../../shared/sdk/kinds.ts";
import type { World } from "../../../shared/test-kit/index.ts";

export interface Step {
  readonly what: string;
  readonly act: (w: World) => Promise<unknown>;
  /** Returns the difference from the state that the step must reach; undefined if there is none. */
  readonly check: (w: World) => unknown;
  /** The next step starts only after the controller has finished this one, because the final state depends on it. */
  readonly isAwaited?: true;
}

export interface Scene {
  readonly name: string;
  readonly controllers: readonly Controller[];
  readonly steps: readonly Step[];
  /** Actions of other writers between steps, which the controller must revert. */
  readonly others: readonly ((w: World) => Promise<unknown>)[];
}

const NS = "shop";
const PLAN = "example.com/replicas";
const podSpec = { containers: [{ name: "c", image: "i" }] };

function deployment(name: string, plan?: string, replicas?: number) {
  const labels = { app: name };
  const annotations = plan === undefined ? {} : { annotations: { [PLAN]: plan } };
  return Deployment({
    metadata: { name, namespace: NS, ...annotations },
    spec: {
      ...(replicas !== undefined && { replicas }),
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: podSpec },
    },
  });
}

/** Returns undefined if `found` equals `value`, otherwise the difference as text. */
function is(name: string, found: unknown, value: unknown): string | undefined {
  const [a, b] = [JSON.stringify(found), JSON.stringify(value)];
  return a === b ? undefined : `${name} is ${a} instead of ${b}`;
}

const both = (...checks: readonly (string | undefined)[]): string | undefined => checks.find((each) => each !== undefined);
const isMine = (object: { readonly metadata: { readonly ownerReferences?: readonly object[] } } | undefined): boolean =>
  (object?.metadata.ownerReferences?.length ?? 0) > 0;
const managed = (w: World, manager: string): boolean =>
  JSON.stringify(w.get(Deployment, NS, "timed")?.metadata.managedFields ?? []).includes(manager);

const site = Website({ metadata: { name: "a", namespace: NS }, spec: { image: "nginx", replicas: 2 } });
const serves = (w: World, replicas: number): string | undefined =>
  both(
    is("replicas", w.get(Deployment, NS, "a")?.spec?.replicas, replicas),
    is("the Service's selector", w.get(Service, NS, "a")?.spec?.selector, { app: "a" }),
    is(
      "Ready",
      w
        .get(Website, NS, "a")
        ?.status?.conditions?.find(({ type }) => type === "Ready")
        ?.message?.split("/")[1],
      String(replicas),
    ),
  );

const WEBSITE: Scene = {
  name: "website",
  controllers: [website],
  steps: [
    { what: "create", act: (w) => w.apply(site), check: (w) => serves(w, 2) },
    {
      what: "another writer scales",
      act: (w) => w.edit(Deployment, NS, "a", { spec: { replicas: 9 } }),
      check: (w) => serves(w, 2),
      isAwaited: true,
    },
    { what: "change", act: (w) => w.edit(Website, NS, "a", { spec: { replicas: 3 } }), check: (w) => serves(w, 3), isAwaited: true },
    {
      what: "delete, and another writer takes a name",
      async act(w) {
        await w.delete(Website, NS, "a");
        await w.settle();
        await w.apply(Service({ metadata: { name: "a", namespace: NS }, spec: { selector: { of: "another" }, ports: [{ port: 1 }] } }));
        await w.apply(site);
      },
      check: (w) =>
        both(
          is("the selector of the foreign Service", w.get(Service, NS, "a")?.spec?.selector, { of: "another" }),
          is("its owner", isMine(w.get(Service, NS, "a")), false),
          is("replicas", w.get(Deployment, NS, "a")?.spec?.replicas, 2),
        ),
      isAwaited: true,
    },
    {
      what: "the name is free again",
      async act(w) {
        await w.delete(Service, NS, "a");
        await w.advance("10m");
      },
      check: (w) => serves(w, 2),
    },
  ],
  others: [
    (w) => w.edit(Deployment, NS, "a", { spec: { replicas: 7 } }),
    (w) => w.edit(Deployment, NS, "a", { metadata: { annotations: { other: String(w.now.getTime()) } } }),
    (w) => w.delete(Deployment, NS, "a"),
    (w) => w.edit(Website, NS, "a", { metadata: { labels: { other: "x" } } }),
  ],
};

const guarded = (w: World): string | undefined =>
  both(
    is("policyTypes", w.get(NetworkPolicy, NS, "deny")?.spec?.policyTypes, ["Ingress"]),
    is("the quota", w.get(ResourceQuota, NS, "team")?.spec?.hard, { pods: "50" }),
  );
const label = (key: string, value: string | null) => (w: World) => w.edit(Namespace, "", NS, { metadata: { labels: { [key]: value } } });
const unguarded = (w: World): string | undefined =>
  both(
    is("the NetworkPolicy", w.get(NetworkPolicy, NS, "deny")?.metadata.name, undefined),
    is("the quota", w.get(ResourceQuota, NS, "team")?.metadata.name, undefined),
  );

const TEAM_GUARD: Scene = {
  name: "team-guard",
  controllers: [teamGuard],
  steps: [
    { what: "label", act: label("example.com/team", "a"), check: guarded },
    {
      what: "another writer raises the quota",
      act: (w) => w.edit(ResourceQuota, NS, "team", { spec: { hard: { pods: "99" } } }),
      check: guarded,
      isAwaited: true,
    },
    { what: "no label", act: label("example.com/team", null), check: unguarded },
    { what: "label again", act: label("example.com/team", "b"), check: guarded },
    { what: "no label again", act: label("example.com/team", null), check: unguarded, isAwaited: true },
    {
      what: "another writer takes a name",
      async act(w) {
        await w.apply(ResourceQuota({ metadata: { name: "team", namespace: NS }, spec: { hard: { pods: "7" } } }));
        await label("example.com/team", "c")(w);
      },
      check: (w) => is("the foreign quota", w.get(ResourceQuota, NS, "team")?.spec?.hard, { pods: "7" }),
    },
  ],
  others: [
    (w) => w.edit(NetworkPolicy, NS, "deny", { spec: { policyTypes: ["Egress"] } }),
    (w) => w.delete(NetworkPolicy, NS, "deny"),
    (w) => w.edit(ResourceQuota, NS, "team", { metadata: { labels: { other: "x" } } }),
  ],
};

const source = (data: Readonly<Record<string, string>>) =>
  Secret({ metadata: { name: "pull", namespace: "registry" }, type: "Opaque", data });
const copied = (w: World, data: object | undefined): string | undefined => is("the copy", w.get(Secret, NS, "pull")?.data, data);

const PULL_SECRET: Scene = {
  name: "pull-secret",
  controllers: [pullSecret],
  steps: [
    {
      what: "source and label",
      async act(w) {
        await w.apply(source({ a: "eA==", b: "eQ==" }));
        await label("example.com/pulls", "a")(w);
      },
      check: (w) => copied(w, { a: "eA==", b: "eQ==" }),
    },
    {
      what: "another writer edits the copy",
      act: (w) => w.edit(Secret, NS, "pull", { data: { a: "ZWRpdGVk" } }),
      check: (w) => copied(w, { a: "eA==", b: "eQ==" }),
      isAwaited: true,
    },
    {
      what: "the source drops a field",
      act: (w) => w.apply(source({ a: "eA==" })),
      check: (w) => copied(w, { a: "eA==" }),
      isAwaited: true,
    },
    {
      what: "the source is deleted",
      act: (w) => w.delete(Secret, "registry", "pull"),
      check: (w) => copied(w, { a: "eA==" }),
      isAwaited: true,
    },
    { what: "no label", act: label("example.com/pulls", null), check: (w) => copied(w, undefined) },
    {
      what: "label again",
      async act(w) {
        await w.apply(source({ c: "eg==" }));
        await label("example.com/pulls", "b")(w);
      },
      check: (w) => copied(w, { c: "eg==" }),
    },
  ],
  others: [
    (w) => w.edit(Secret, NS, "pull", { metadata: { labels: { other: "x" } } }),
    // A copy that is deleted after its source is not recreated.
    (w) => (w.get(Secret, "registry", "pull") ? w.delete(Secret, NS, "pull") : Promise.resolve()),
    (w) => w.edit(Namespace, "", NS, { metadata: { annotations: { other: "x" } } }),
  ],
};

const scaled = (w: World, replicas: number, isManaged: boolean): string | undefined =>
  both(
    is("replicas", w.get(Deployment, NS, "timed")?.spec?.replicas, replicas),
    is("an entry in managedFields", managed(w, "deltaloop-scheduled-scaler"), isManaged),
  );
const plan = (value: string | null) => (w: World) => w.edit(Deployment, NS, "timed", { metadata: { annotations: { [PLAN]: value } } });

const SCALER: Scene = {
  name: "scheduled-scaler",
  controllers: [scheduledScaler],
  steps: [
    { what: "create", act: (w) => w.apply(deployment("timed", "00:00=4")), check: (w) => scaled(w, 4, true) },
    {
      what: "another writer scales",
      act: (w) => w.edit(Deployment, NS, "timed", { spec: { replicas: 9 } }),
      check: (w) => scaled(w, 4, true),
      isAwaited: true,
    },
    { what: "another plan", act: plan("00:00=5"), check: (w) => scaled(w, 5, true), isAwaited: true },
    { what: "no plan", act: plan(null), check: (w) => scaled(w, 5, false), isAwaited: true },
    {
      what: "a controller of another deployment manages replicas",
      act: (w) => w.apply(deployment("rival", "00:00=4", 9), "deltaloop-rival"),
      check: (w) => is("the rival's replicas", w.get(Deployment, NS, "rival")?.spec?.replicas, 9),
    },
  ],
  others: [
    (w) => w.edit(Deployment, NS, "timed", { metadata: { annotations: { other: String(w.now.getTime()) } } }),
    (w) => w.edit(Deployment, NS, "timed", { status: { observedGeneration: 1 } }),
  ],
};

const JANITOR: Scene = {
  name: "pod-janitor",
  controllers: [podJanitor],
  steps: [
    {
      what: "a pod ends",
      async act(w) {
        await w.apply(Pod({ metadata: { name: "done", namespace: NS }, spec: podSpec }));
        await w.edit(Pod, NS, "done", { status: { phase: "Failed" } });
      },
      check: (w) => is("the pod", w.get(Pod, NS, "done")?.metadata.name, "done"),
      isAwaited: true,
    },
    { what: "an hour passes", act: (w) => w.advance("61m"), check: (w) => is("the pod", w.get(Pod, NS, "done")?.metadata.name, undefined) },
  ],
  others: [(w) => w.edit(Pod, NS, "done", { metadata: { labels: { other: "x" } } })],
};

export const SCENES: readonly Scene[] = [WEBSITE, TEAM_GUARD, PULL_SECRET, SCALER, JANITOR];

/**
 * Adds objects that the primary does not own, although some have labels or references that suggest it.
 * @returns a function that returns the first changed object as text
 */
export async function addBystanders(w: World): Promise<() => string | undefined> {
  const owner = await w.apply(ConfigMap({ metadata: { name: "a", namespace: NS } }));
  const reference = { apiVersion: "v1", kind: "ConfigMap", name: "a", uid: owner.metadata.uid, controller: true };
  const forged = { name: "forged", namespace: NS, ownerReferences: [reference] };
  const added = [
    await w.apply({ apiVersion: "v1", kind: "Service", metadata: forged, spec: { ports: [{ port: 1 }] } }, "deltaloop-website"),
    await w.apply({ apiVersion: "v1", kind: "Secret", metadata: forged }, "deltaloop-pull-secret"),
    owner,
  ];
  return () => {
    const kinds = { Service, Secret, ConfigMap } as const;
    const touched = added.find(({ kind, metadata: { name, resourceVersion } }) => {
      const now = w.get(kinds[kind as keyof typeof kinds], NS, name);
      return now?.metadata.resourceVersion !== resourceVersion;
    });
    return touched && `${touched.kind} ${touched.metadata.name} of another owner was touched`;
  };
}

/** Plays all steps and checks the state after each. */
export async function play(w: World, { steps }: Scene): Promise<void> {
  const untouched = await addBystanders(w);
  for (const { what, act, check } of steps) {
    await act(w);
    await w.settle();
    const why = check(w) ?? untouched();
    if (why !== undefined) throw new Error(`after "${what}": ${String(why)}`);
  }
}
