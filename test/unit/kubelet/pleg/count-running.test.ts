// Would catch: a pod that is counted because of an ended sandbox, or twice because of two sandboxes, and containers of other clients that
// are counted as a pod's.
import { expect, test } from "vitest";

import { LABELS } from "../../../../shared/node-agent/kubelet/types/labels.ts";
import { countRunning } from "../../../../shared/node-agent/kubelet/pleg/relist.ts";
import type { Container, ContainerState, PodSandbox } from "../../../../shared/node-agent/ports/cri-types.ts";

const sandbox = (uid: string, state: PodSandbox["state"]): PodSandbox => ({
  id: `${uid}-${state}`,
  metadata: { name: uid, namespace: "default", uid, attempt: 0 },
  state,
  createdAtMs: 0,
  labels: uid === "" ? {} : { [LABELS.podUid]: uid },
  annotations: {},
});
const container = (uid: string, state: ContainerState): Container => ({
  id: `${uid}-${state}`,
  podSandboxId: "s",
  metadata: { name: "c", attempt: 0 },
  image: "",
  imageRef: "",
  state,
  createdAtMs: 0,
  labels: uid === "" ? {} : { [LABELS.podUid]: uid },
  annotations: {},
});

test("[node-agent §15] counts pods with a ready sandbox, and their containers by state", () => {
  const sandboxes = [
    sandbox("a", "SANDBOX_READY"),
    sandbox("a", "SANDBOX_READY"),
    sandbox("b", "SANDBOX_NOTREADY"),
    sandbox("", "SANDBOX_READY"),
  ];
  const containers = [container("a", "CONTAINER_RUNNING"), container("b", "CONTAINER_EXITED"), container("", "CONTAINER_RUNNING")];
  expect(countRunning(sandboxes, containers)).toEqual({ pods: 1, containers: { created: 0, running: 1, exited: 1, unknown: 0 } });
});
