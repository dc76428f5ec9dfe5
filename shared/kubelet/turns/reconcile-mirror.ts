/** Keeps a static pod's copy in the API server (node-agent §2.7). */
import { describeError } from "../../ports/describe-error.ts";
import { isAlreadyExists, isNotFound, isUnanswered } from "../../ports/errors.ts";
import { mirrorPod, mirrorStep } from "../config/mirror-pod.ts";
import type { NodePorts } from "../node-ports.ts";
import { parseNodePod } from "../pod.ts";
import type { NodePod } from "../pod.ts";

/** Whatever goes wrong is logged: a static pod runs with the API server away, too. */
export async function reconcileMirror(ports: NodePorts, pod: NodePod): Promise<void> {
  const { kube, log, condition, options } = ports;
  const { namespace, name } = pod.metadata;
  const mirror = ports.pods.mirrorOf(pod);
  try {
    const step = mirrorStep(pod, mirror);
    if (step === "none" || condition.nodeUid === undefined) return;
    if (step === "deleteThenCreate" && mirror !== undefined) await deleteMirror(ports, mirror);
    const body = mirrorPod(pod, { name: options.nodeName, uid: condition.nodeUid });
    await kube.create({ resource: "pods", namespace, body }).catch(async (error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
      // Ours of an earlier start, which our own watch has not brought yet.
      const there = await kube.get("pods", namespace, name);
      if (there === undefined || mirrorStep(pod, parseNodePod(there)) !== "none") throw error;
    });
  } catch (error) {
    const level = isUnanswered(error) ? "debug" : "warn";
    log[level]("the mirror pod is not as it should be", { pod: `${namespace}/${name}`, error: describeError(error) });
  }
}

/** At once, and only this one. */
export async function deleteMirror({ kube }: NodePorts, mirror: NodePod): Promise<void> {
  const { namespace, name, uid } = mirror.metadata;
  await kube.delete({ resource: "pods", namespace, name, preconditions: { uid }, gracePeriodSeconds: 0 }).catch((error: unknown) => {
    if (!isNotFound(error)) throw error;
  });
}
