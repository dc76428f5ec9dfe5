/** Changes for which `explain` must report no problem. */
import { IMAGES } from "../../containerd/images.ts";
import { shell, STAY } from "../../harness/node-processes/pods.ts";
import { changed, containers, env, healthy, quota, web, workload } from "./stage.ts";
import type { Scene } from "./stage.ts";

export const HEALTHY: Readonly<Record<string, Scene>> = {
  collision: {
    async play({ apply, complete, kubectl, contains, seconds }) {
      await apply(workload());
      await complete();
      const [path = ""] = (await kubectl("get", "replicasets", "-o", "name")).split("\n");
      await kubectl("delete", "deployment/web", "--cascade=foreground", "--wait");
      const name = path.slice(path.indexOf("/") + 1);
      const own = { app: "other" };
      const taken = workload({
        kind: "ReplicaSet",
        name,
        replicas: 0,
        spec: { selector: { matchLabels: own }, template: { metadata: { labels: own }, spec: { containers: [web()] } } },
      });
      await apply(taken, workload());
      await contains('"collisionCount":1');
      await seconds(1);
    },
  },
  created: healthy(async () => undefined),
  rollout: healthy(changed(containers(web(env("2"))))),
  "rollout-by-image": healthy(async ({ kubectl, complete }) => {
    await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
    await complete();
  }),
  restart: healthy(async ({ kubectl, complete }) => {
    await kubectl("rollout", "restart", "deployment/web");
    await complete();
  }),
  rollback: healthy(async ({ kubectl, complete }) => {
    await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
    await complete();
    await kubectl("rollout", "undo", "deployment/web");
    await complete();
  }),
  "scale-up": healthy(async ({ kubectl, complete }) => {
    await kubectl("scale", "deployment/web", "--replicas=5");
    await complete();
  }),
  "scale-down": healthy(
    async ({ kubectl, complete }) => {
      await kubectl("scale", "deployment/web", "--replicas=1");
      await complete();
    },
    { replicas: 4 },
  ),
  "scale-to-zero": healthy(async ({ kubectl, complete, seconds }) => {
    await kubectl("scale", "deployment/web", "--replicas=0");
    await seconds(3);
    await kubectl("scale", "deployment/web", "--replicas=2");
    await complete();
  }),
  "pod-deleted": healthy(async ({ kubectl, complete }) => {
    const [first = ""] = (await kubectl("get", "pods", "-o", "name")).split("\n");
    await kubectl("delete", first, "--wait=false");
    await complete();
  }),
  recreate: healthy(changed({ ...containers(web(env("2"))), spec: { strategy: { type: "Recreate" } } }), {
    spec: { strategy: { type: "Recreate" } },
  }),
  "all-at-once": healthy(
    changed({ ...containers(web(env("2"))), spec: { strategy: { rollingUpdate: { maxSurge: "100%", maxUnavailable: "100%" } } } }),
  ),
  "one-by-one": healthy(
    changed({ ...containers(web(env("2"))), spec: { strategy: { rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } } } }),
  ),
  "slow-pull": healthy(async ({ kubectl, image, complete }) => {
    await kubectl(
      "patch",
      "deployment/web",
      "-p",
      JSON.stringify({ spec: { template: { spec: { containers: [{ name: "main", image: image("app"), readinessProbe: null }] } } } }),
    );
    await complete();
  }),
  "slow-start": healthy(
    changed(
      containers(
        shell("main", `sleep 8; touch /tmp/up; ${STAY}`.replace("touch /tmp/up", "echo > /tmp/up"), {
          readinessProbe: { exec: { command: ["cat", "/tmp/up"] }, periodSeconds: 2, failureThreshold: 3, initialDelaySeconds: 6 },
        }),
      ),
    ),
  ),
  "min-ready": healthy(changed({ ...containers(web(env("2"))), spec: { minReadySeconds: 4 } })),
  "paused-and-resumed": healthy(async ({ kubectl, complete }) => {
    await kubectl("rollout", "pause", "deployment/web");
    await kubectl("rollout", "resume", "deployment/web");
    await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
    await complete();
  }),
  "init-container": healthy(changed({ pod: { initContainers: [shell("wait", "sleep 3")], containers: [web()] } })),
  "quota-with-room": healthy(async ({ apply, complete }) => {
    await apply(quota(10), workload(containers(web(env("2")))));
    await complete();
  }),
  "pods-of-two-revisions": healthy(async ({ apply, complete }) => {
    await apply(workload({ replicas: 3, ...containers(web(env("2"))) }));
    await apply(workload({ replicas: 3, ...containers(web(env("3"))) }));
    await complete();
  }),
  cordoned: healthy(async ({ kubectl, complete }) => {
    await kubectl("cordon", "node-b");
    await kubectl("rollout", "restart", "deployment/web");
    await complete();
    await kubectl("uncordon", "node-b");
  }),
  /** The template's hash differs between the two releases. A controller that compared hashes would start a second rollout. */
  "cluster-upgraded": {
    alone: true,
    async play({ apply, complete, kubectl, release }) {
      await release("1.36");
      await apply(workload({ replicas: 4, spec: { minReadySeconds: 4 } }));
      await complete();
      await kubectl("set", "image", "deployment/web", `main=${IMAGES.serverV2}`);
      await release("1.37");
      await complete();
      await kubectl("scale", "deployment/web", "--replicas=5");
      await complete();
    },
  },
};
