/** The building blocks of scenes: a healthy Deployment, a change of it, and the condition that ends the recording. */
import { server } from "../../harness/node-processes/pods.ts";

export interface Stage {
  readonly namespace: string;
  /**
   * Returns the reference of the image with this name: pulling `app` takes seconds, the registry refuses `denied` and `limited`, and all
   * others do not exist.
   */
  image(name: string): string;
  kubectl(...args: readonly string[]): Promise<string>;
  apply(...objects: readonly object[]): Promise<void>;
  /** Makes an image available in the registry; its program sleeps. Returns its name. */
  publish(repository: string): Promise<string>;
  /** The registry answers requests for a published image with this status. */
  refuse(repository: string, status: 404 | 429): void;
  /** Resolves when all pods of the Deployment (default: `web`) match its template and are available. */
  complete(name?: string): Promise<void>;
  /** Resolves when an Event of this reason has occurred `times` times. */
  event(reason: string, times?: number): Promise<void>;
  /** Resolves when the JSON of the namespace's pods and workloads contains this text. */
  contains(text: string): Promise<void>;
  seconds(count: number): Promise<void>;
  /** Registers a step to run when the recording has ended. */
  afterwards(undo: () => Promise<unknown>): void;
  /** Suspends upstream's controller manager, or the agent of node-b, until the recording has ended. */
  hold(what: "controllers" | "node-b"): Promise<void>;
  /**
   * Restarts the control plane with the newest buildable patch release of this minor version; afterwards the pinned release is restored.
   */
  release(minor: string): Promise<void>;
}

export interface Scene {
  /** The workload to explain; default `deployments/web`. */
  readonly subject?: string;
  /** The kind of the first finding, from the catalogue of findings; absent if the verdict has only a wait. */
  readonly finding?: string;
  /** The kind of the first wait. */
  readonly wait?: string;
  /** The scene needs the whole cluster for itself. */
  readonly alone?: true;
  play(stage: Stage): Promise<void>;
}

const labels = { app: "web" };
/** Serves on 8080 and is ready within a second or two. */
export const web = (more: object = {}): object => server({ readinessProbe: { tcpSocket: { port: 8080 }, periodSeconds: 1 }, ...more });

export interface Parts {
  readonly replicas?: number;
  readonly pod?: object;
  readonly spec?: object;
  readonly name?: string;
  readonly kind?: "Deployment" | "ReplicaSet";
}

export function workload({ replicas = 2, pod = {}, spec = {}, name = "web", kind = "Deployment" }: Parts = {}): object {
  const template = { metadata: { labels }, spec: { terminationGracePeriodSeconds: 1, containers: [web()], ...pod } };
  return { apiVersion: "apps/v1", kind, metadata: { name }, spec: { replicas, selector: { matchLabels: labels }, template, ...spec } };
}

export const containers = (...list: readonly object[]): Parts => ({ pod: { containers: list } });
export const PATCH = ["patch", "deployment/web", "--type=merge", "-p"] as const;

/** A scene that starts with a complete Deployment, applies this change, and ends when the final condition holds. */
export function rollout(finding: string, change: Parts, sign: (stage: Stage) => Promise<void>, before: Parts = {}): Scene {
  return {
    finding,
    async play(stage) {
      await stage.apply(workload(before));
      await stage.complete();
      await stage.apply(workload({ ...before, ...change }));
      await sign(stage);
    },
  };
}

/** A scene that changes the image of the container. */
export function pulled(finding: string, imageOf: (stage: Stage) => string): Scene {
  return {
    finding,
    async play(stage) {
      await stage.apply(workload());
      await stage.complete();
      await stage.kubectl("set", "image", "deployment/web", `main=${imageOf(stage)}`);
      await stage.event("BackOff", 1);
    },
  };
}

/** A scene with a complete Deployment that uses its whole quota; the change then needs one more pod. */
export function overQuota(change: (stage: Stage) => Promise<unknown>): Scene {
  return {
    finding: "quota exceeded",
    async play(stage) {
      await stage.apply(quota(2), workload());
      await stage.complete();
      await change(stage);
      await stage.event("FailedCreate", 3);
    },
  };
}

export function healthy(play: (stage: Stage) => Promise<void>, before: Parts = {}): Scene {
  return {
    async play(stage) {
      await stage.apply(workload(before));
      await stage.complete();
      await play(stage);
      await stage.seconds(2);
    },
  };
}

export const changed = (change: Parts): ((stage: Stage) => Promise<void>) => {
  return async (stage) => {
    await stage.apply(workload(change));
    await stage.complete();
  };
};
export const env = (value: string): object => ({ env: [{ name: "VALUE", value }] });
export const namespaced = (apiVersion: string, kind: string, name: string, more: object): object => ({
  apiVersion,
  kind,
  metadata: { name },
  ...more,
});
export const quota = (pods: number): object => namespaced("v1", "ResourceQuota", "few", { spec: { hard: { pods: String(pods) } } });
