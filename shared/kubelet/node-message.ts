/** What stands in a message of the node's own queues: which pod to look at, and why; never the pod (node-agent §18.2). */
export interface NodeMessage {
  readonly uid: string;
  /** For people who read logs. */
  readonly reason: string;
  readonly enqueuedAtMs: number;
}

/** @throws {TypeError} for a body that this agent did not write */
export function parseNodeMessage(body: string): NodeMessage {
  const value = JSON.parse(body) as Partial<NodeMessage> | null; // looked at field by field
  if (typeof value?.uid !== "string" || value.uid === "") throw new TypeError("a message of the node's queue without a uid");
  return { uid: value.uid, reason: String(value.reason ?? ""), enqueuedAtMs: Number(value.enqueuedAtMs ?? 0) };
}
