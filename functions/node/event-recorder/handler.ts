/**
 * Sends the agent's Events one at a time, and counts repeated Events in one Event object. Best effort: an Event that cannot be sent is
 * dropped.
 */
import { describeError, isAlreadyExists, isNotFound } from "@deltaloop/kube/client";
import type { Clock, Log } from "@deltaloop/base";
import type { KubeWriter } from "@deltaloop/kube/client";
import { noEvents, recordEvent } from "@deltaloop/node-agent/kubelet";
import type { EventRequest, NodeEvent } from "@deltaloop/node-agent/kubelet";

/** Maximum number of queued Events; further Events are dropped. */
const WAITING_MAX = 1_000;

export interface EventPorts {
  readonly kube: KubeWriter;
  readonly clock: Clock;
  readonly log: Log;
  readonly nodeName: string;
  readonly nameSalt: number;
  readonly condition: { readonly nodeUid?: string };
}

export function createEventRecorder(ports: EventPorts): (event: NodeEvent) => void {
  const memory = noEvents();
  let waiting = 0;
  let last: Promise<void> = Promise.resolve();
  return (event) => {
    if (waiting >= WAITING_MAX) return;
    const { nodeName, nameSalt, condition } = ports;
    const request = recordEvent(memory, event, ports.clock.now(), { nodeName, nameSalt, nodeUid: condition.nodeUid ?? "" });
    if (request === undefined) return;
    waiting++;
    last = last
      .then(() => send(ports.kube, request))
      .catch((error: unknown) =>
        ports.log.debug("failed to send Event; Event dropped", { reason: event.reason, error: describeError(error) }),
      )
      .finally(() => waiting--);
  };
}

async function send(kube: KubeWriter, request: EventRequest): Promise<void> {
  if (request.kind === "create") return await create(kube, request.body);
  try {
    const { namespace, name, body } = request;
    await kube.patch({ resource: "events", namespace, name, type: "application/strategic-merge-patch+json", body });
  } catch (error) {
    if (!isNotFound(error)) throw error;
    await create(kube, request.ifMissing);
  }
}

async function create(kube: KubeWriter, body: { readonly metadata: { readonly namespace?: string } }): Promise<void> {
  try {
    await kube.create({ resource: "events", namespace: body.metadata.namespace ?? "default", body });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}
