/** Captures of a stuck rolling update with whole objects, for tests of the timeline. */
import { writeFileSync } from "node:fs";
import { RESOURCES } from "../../shared/kube/objects/resources.ts";
import { at, deployment, event, oldPods, pod, replicaSet } from "./incident.ts";
import type { Placed } from "./incident.ts";

type Fields = Readonly<Record<string, unknown>>;

class Lines {
  readonly #lines: string[] = [];
  #version = 100;

  list(resource: keyof typeof RESOURCES, placed: readonly Placed[], seconds = -310): this {
    for (const [, fields] of placed) this.#line({ t: at(seconds), r: resource, k: "item", object: this.#whole(resource, fields) });
    return this.#line({ t: at(seconds), r: resource, k: "listend", rv: String(this.#version) });
  }

  event(seconds: number, type: "ADDED" | "MODIFIED" | "DELETED", [resource, fields]: Placed): this {
    return this.#line({ t: at(seconds), r: resource, type, object: this.#whole(resource, fields) });
  }

  write(path: string): string {
    writeFileSync(path, `${this.#lines.join("\n")}\n`);
    return path;
  }

  #whole(resource: keyof typeof RESOURCES, fields: Fields): object {
    const { apiVersion, kind } = RESOURCES[resource];
    const metadata = { ...(fields["metadata"] as Fields), resourceVersion: String(++this.#version) };
    return { apiVersion, kind, ...fields, metadata };
  }

  #line(line: object): this {
    this.#lines.push(JSON.stringify(line));
    return this;
  }
}

/** A user changes the image at -300 s; the new ReplicaSet has one pod, without a node. */
function updated(): Lines {
  const [, { spec: old }] = replicaSet("web-a");
  const before = deployment({
    spec: { template: (old as Fields)["template"] as Fields },
    metadata: { generation: 1, annotations: { "deployment.kubernetes.io/revision": "1" } },
    status: { observedGeneration: 1, replicas: 3, updatedReplicas: 3 },
  });
  return new Lines()
    .list("deployments", [before])
    .list("replicasets", [replicaSet("web-a")])
    .list("replicationcontrollers", [])
    .list("pods", oldPods)
    .event(-300, "MODIFIED", deployment({ status: { observedGeneration: 1, replicas: 3, updatedReplicas: 0 } }))
    .event(-299.9, "ADDED", replicaSet("web-b", { status: { replicas: 0 } }))
    .event(-299.8, "ADDED", pod({ spec: { nodeName: undefined }, status: { containerStatuses: [], conditions: [] } }))
    .event(-299.7, "MODIFIED", replicaSet("web-b"))
    .event(-299.6, "MODIFIED", deployment())
    .event(-299, "MODIFIED", pod({ state: { waiting: { reason: "ContainerCreating" } } }));
}

export function imagePullCapture(path: string, image = "app:v2"): string {
  const failed = `Failed to pull image "${image}": rpc error: code = NotFound desc = failed to pull and unpack image "${image}": failed to resolve reference "${image}": ${image}: not found`;
  const lines = updated().event(-298, "ADDED", event("Pulling", `Pulling image "${image}"`, { type: "Normal", count: 1, seconds: -298 }));
  for (const [index, seconds] of [-290, -270, -230, -150].entries()) {
    const waiting = (reason: string): Placed => pod({ state: { waiting: { reason, message: `Back-off pulling image "${image}"` } } });
    lines.event(seconds, "MODIFIED", waiting("ErrImagePull"));
    lines.event(seconds + 1, "ADDED", event("Failed", failed, { count: index + 1, seconds: seconds + 1 }));
    lines.event(seconds + 6, "MODIFIED", waiting("ImagePullBackOff"));
  }
  return lines.event(-10, "MODIFIED", deployment()).write(path);
}

export function crashLoopCapture(path: string): string {
  const lines = updated();
  for (const [restartCount, seconds] of [-290, -270, -235, -165].entries()) {
    const startedAt = at(seconds);
    const terminated = { reason: "Error", exitCode: 3, startedAt, finishedAt: at(seconds + 6) };
    const state = { waiting: { reason: "CrashLoopBackOff", message: "back-off 40s restarting failed container=web pod=web-b-1_shop(u)" } };
    const status = { phase: "Running" };
    lines.event(seconds, "MODIFIED", pod({ status, state: { running: { startedAt } }, web: { restartCount } }));
    lines.event(seconds + 6, "MODIFIED", pod({ status, state: { terminated }, web: { restartCount } }));
    lines.event(seconds + 7, "MODIFIED", pod({ status, state, web: { restartCount, lastState: { terminated } } }));
    lines.event(
      seconds + 8,
      "ADDED",
      event("BackOff", "Back-off restarting failed container", { count: restartCount + 1, seconds: seconds + 8 }),
    );
  }
  return lines.event(-10, "MODIFIED", deployment()).write(path);
}
