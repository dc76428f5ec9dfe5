/** What a change of a Node's status is worth saying (node-agent §14.2, §14.3). */
import type { InvolvedObject, NodeEvent } from "./event-recorder.ts";
import { conditionOf } from "./node-conditions.ts";
import type { NodeStatus } from "./node-object.ts";

/** A Node in an event: upstream's kubelet gives its name for its uid. Source: pkg/kubelet/kubelet.go nodeRef. */
export function nodeReference(name: string): InvolvedObject {
  return { kind: "Node", apiVersion: "v1", namespace: "", name, uid: name };
}

/** Of a node that was known before; a new one is not news. Source: nodestatus/setters.go ReadyCondition, MachineInfo. */
export function nodeEvents(name: string, before: NodeStatus | undefined, after: NodeStatus): readonly NodeEvent[] {
  const involved = nodeReference(name);
  const events: NodeEvent[] = [];
  const bootId = after.nodeInfo?.bootID;
  if (before?.nodeInfo !== undefined && before.nodeInfo.bootID !== "" && before.nodeInfo.bootID !== bootId)
    events.push({ involved, type: "Warning", reason: "Rebooted", message: `Node ${name} has been rebooted, boot id: ${bootId}` });
  const [was, is] = [before, after].map((status) => conditionOf(status?.conditions, "Ready")?.status);
  if (was !== undefined && was !== is) {
    const reason = is === "True" ? "NodeReady" : "NodeNotReady";
    events.push({ involved, type: "Normal", reason, message: `Node ${name} status is now: ${reason}` });
  }
  return events;
}
