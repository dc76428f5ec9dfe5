/**
 * The scenes of the five examples, each in one namespace: a user's requests in stages, and the expected state at the end of each stage. In
 * addition there are objects that the controller does not own and must not change.
 */
import { podJanitor } from "../../../examples/pod-janitor/pod-janitor.ts";
import { pullSecret } from "../../../examples/pull-secret/pull-secret.ts";
import { scheduledScaler } from "../../../examples/scheduled-scaler/scheduled-scaler.ts";
import { teamGuard } from "../../../examples/team-guard/team-guard.ts";
import { website } from "../../../examples/website/website.ts";
import type { Controller } from "../../../shared/sdk/index.ts";
import { eventually } from "../../support/eventually.ts";
import type { RawClient } from "../../support/raw-client.ts";

export const EXAMPLES: readonly Controller[] = [website, teamGuard, pullSecret, scheduledScaler, podJanitor];
export const EXAMPLE_FILES: readonly string[] = EXAMPLES.map(({ name }) => `examples/${name}/${name}.ts`);

/** The plural, and the part of the path before the namespace. */
export const KINDS = {
  websites: "/apis/demo.example.com/v1",
  deployments: "/apis/apps/v1",
  services: "/api/v1",
  secrets: "/api/v1",
  pods: "/api/v1",
  resourcequotas: "/api/v1",
  networkpolicies: "/apis/networking.k8s.io/v1",
} as const;
export type Plural = keyof typeof KINDS;

export interface Stage {
  /** Sends the user's requests. */
  readonly request: (user: RawClient, namespace: string) => Promise<unknown>;
  /** The expected objects: `<plural>/<name>` with some of their fields. Bystanders are left out. */
  readonly ends: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export interface Scene {
  readonly controller: string;
  /** The key of the primary object. */
  readonly key: (namespace: string) => string;
  readonly stages: readonly Stage[];
  /** The objects that the controller may write: `<plural>/<name>`. */
  readonly writes: readonly string[];
  /** An object of another writer whose name an owned object needs. */
  readonly taken?: { readonly plural: Plural; readonly body: object };
  /** An edit of an owned field by another writer, after the first stage. */
  readonly edit?: { readonly plural: Plural; readonly name: string; readonly patch: object };
  /** An owned object that another writer deletes after the first stage. */
  readonly loss?: { readonly plural: Plural; readonly name: string };
}

const MERGE = "application/merge-patch+json";
const PLAN = "example.com/replicas";
const MANAGED = ["deltaloop-scheduled-scaler"];
const GUARDED = { "networkpolicies/deny": { "spec.policyTypes": ["Ingress"] }, "resourcequotas/team": { "spec.hard": { pods: "50" } } };
const COPIED = { "secrets/pull": { data: { password: "Y2hhbmdl" } } };
/** The Secret that pull-secret copies. */
export const SOURCE = {
  ...{ apiVersion: "v1", kind: "Secret", type: "Opaque" },
  metadata: { name: "pull", namespace: "registry" },
  stringData: { password: "change" },
};

export function pathOf(plural: Plural, namespace: string, name?: string): string {
  return `${KINDS[plural]}/namespaces/${namespace}/${plural}${name === undefined ? "" : `/${name}`}`;
}

function deployment(name: string, metadata: object = {}, replicas = 1): object {
  const template = { metadata: { labels: { app: name } }, spec: { containers: [{ name: "c", image: "i" }] } };
  return {
    ...{ apiVersion: "apps/v1", kind: "Deployment" },
    metadata: { name, ...metadata },
    spec: { replicas, selector: { matchLabels: { app: name } }, template },
  };
}

/** Labels of the Namespace itself. */
const label =
  (name: string, value: string | null) =>
  (user: RawClient, namespace: string): Promise<unknown> =>
    user.request("PATCH", `/api/v1/namespaces/${namespace}`, { metadata: { labels: { [name]: value } } }, MERGE);
const change =
  (plural: Plural, name: string, patch: object) =>
  (user: RawClient, namespace: string): Promise<unknown> =>
    user.request("PATCH", pathOf(plural, namespace, name), patch, MERGE);

export const SCENES: readonly Scene[] = [
  {
    controller: "website",
    key: (namespace) => `${namespace}/a`,
    stages: [
      {
        request: (user, namespace) =>
          user.request("POST", pathOf("websites", namespace), {
            ...{ apiVersion: "demo.example.com/v1", kind: "Website", metadata: { name: "a" } },
            spec: { image: "nginx", replicas: 2 },
          }),
        ends: { "websites/a": { "status.ready": 0 }, "deployments/a": { "spec.replicas": 2 }, "services/a": { "spec.selector.app": "a" } },
      },
      {
        request: change("websites", "a", { spec: { replicas: 3 } }),
        ends: { "websites/a": { "spec.replicas": 3 }, "deployments/a": { "spec.replicas": 3 }, "services/a": { "spec.selector.app": "a" } },
      },
    ],
    writes: ["deployments/a", "services/a", "websites/a"],
    taken: { plural: "services", body: { apiVersion: "v1", kind: "Service", metadata: { name: "a" }, spec: { ports: [{ port: 1 }] } } },
    edit: { plural: "deployments", name: "a", patch: { spec: { replicas: 9 } } },
    loss: { plural: "services", name: "a" },
  },
  {
    controller: "team-guard",
    key: (namespace) => `/${namespace}`,
    stages: [
      { request: label("example.com/team", "a"), ends: GUARDED },
      { request: label("example.com/team", null), ends: {} },
      { request: label("example.com/team", "b"), ends: GUARDED },
    ],
    writes: ["networkpolicies/deny", "resourcequotas/team"],
    taken: {
      plural: "networkpolicies",
      body: { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata: { name: "deny" }, spec: { podSelector: {} } },
    },
    edit: { plural: "resourcequotas", name: "team", patch: { spec: { hard: { pods: "1" } } } },
    loss: { plural: "networkpolicies", name: "deny" },
  },
  {
    controller: "pull-secret",
    key: (namespace) => `/${namespace}`,
    stages: [
      { request: label("example.com/pulls", "a"), ends: COPIED },
      { request: label("example.com/pulls", null), ends: {} },
      { request: label("example.com/pulls", "b"), ends: COPIED },
    ],
    writes: ["secrets/pull"],
    taken: { plural: "secrets", body: { apiVersion: "v1", kind: "Secret", metadata: { name: "pull" }, stringData: { of: "another" } } },
    edit: { plural: "secrets", name: "pull", patch: { stringData: { password: "edited" } } },
    loss: { plural: "secrets", name: "pull" },
  },
  {
    controller: "scheduled-scaler",
    key: (namespace) => `${namespace}/timed`,
    stages: [
      {
        request: (user, namespace) =>
          user.request("POST", pathOf("deployments", namespace), deployment("timed", { annotations: { [PLAN]: "00:00=4" } })),
        ends: { "deployments/timed": { "spec.replicas": 4, managers: MANAGED } },
      },
      {
        request: change("deployments", "timed", { metadata: { annotations: { [PLAN]: "00:00=5" } } }),
        ends: { "deployments/timed": { "spec.replicas": 5, managers: MANAGED } },
      },
      {
        request: change("deployments", "timed", { metadata: { annotations: { [PLAN]: null } } }),
        ends: { "deployments/timed": { "spec.replicas": 5, managers: [] } },
      },
    ],
    writes: ["deployments/timed"],
    edit: { plural: "deployments", name: "timed", patch: { spec: { replicas: 9 } } },
  },
  {
    controller: "pod-janitor",
    key: (namespace) => `${namespace}/done`,
    stages: [{ request: endedPod, ends: {} }],
    writes: ["pods/done"],
  },
];

async function endedPod(user: RawClient, namespace: string): Promise<void> {
  // Retries, because the namespace's service account does not exist immediately.
  await eventually("the pod", () =>
    user.request("POST", pathOf("pods", namespace), {
      ...{ apiVersion: "v1", kind: "Pod", metadata: { name: "done" } },
      spec: { containers: [{ name: "c", image: "i" }] },
    }),
  );
  const finishedAt = new Date().toISOString().replace(/\.\d+/, "");
  const ended = { name: "c", image: "i", imageID: "", ready: false, restartCount: 0, state: { terminated: { exitCode: 0, finishedAt } } };
  const status = { phase: "Succeeded", containerStatuses: [ended] };
  await user.request("PATCH", `${pathOf("pods", namespace, "done")}/status`, { status }, MERGE);
}

/** Objects of other owners, some of which claim to be owned by the primary. */
export async function addBystanders(user: RawClient, namespace: string): Promise<void> {
  const owner = (name: string, kind: string, apiVersion: string) => ({
    ownerReferences: [{ apiVersion, kind, name, uid: "00000000-0000-0000-0000-000000000000", controller: true }],
  });
  const service = (name: string, metadata: object) => ({
    ...{ apiVersion: "v1", kind: "Service", metadata: { name, ...metadata }, spec: { ports: [{ port: 1 }] } },
  });
  await Promise.all([
    user.request("POST", pathOf("deployments", namespace), deployment("bystander")),
    user.request(
      "POST",
      `${pathOf("services", namespace)}?fieldManager=deltaloop-website`,
      service("forged-website", owner("a", "Website", "demo.example.com/v1")),
    ),
    user.request("POST", `${pathOf("secrets", namespace)}?fieldManager=deltaloop-pull-secret`, {
      ...{ apiVersion: "v1", kind: "Secret", metadata: { name: "forged-namespace", ...owner(namespace, "Namespace", "v1") } },
    }),
    user.request("POST", pathOf("resourcequotas", namespace), {
      ...{ apiVersion: "v1", kind: "ResourceQuota", metadata: { name: "bystander" }, spec: { hard: { pods: "1000" } } },
    }),
  ]);
}
