/**
 * The run that follows a crashed run (informer §13 layer 4). The crashed run's calls may or may not have been executed, and nothing is
 * decided before that is known. Reads the objects live, writes them through and requeues the key.
 */
import { objectKey, splitKey } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import type { Intent } from "@deltaloop/store/ports";
import type { Run, SyncResult } from "../run.ts";
import type { SyncSession } from "./session.ts";

/** With more objects than this, one LIST of the namespace replaces the GETs. */
const GETS_MAX = 10;

/**
 * Reads the objects of expired ops live and settles the ops.
 *
 * @throws {Error} if a live read fails: the key is retried and reads the same objects again
 */
export async function recover(session: SyncSession): Promise<SyncResult> {
  const { namespace } = splitKey(session.key);
  const ops = expiredOps(session, session.clock.now());
  const found = await readPods(session, namespace, ops);
  const findings = ops.map((op) => findingOf(op, found.get(op.name)));
  await session.save({
    resource: "pods",
    objects: [...new Map(findings.flatMap(({ object }) => (object ? [[object.metadata.name, object]] : []))).values()],
    lower: findings.flatMap(({ op, end }) => (end === "lower" ? [op.id] : [])),
    plan: findings.flatMap(({ op, end }) => (end === "plan" ? [{ id: op.id, mayLand: false }] : [])),
    gone: findings.flatMap(({ op, gone }) => (gone ? [{ key: objectKey(namespace, op.name), uid: op.uid ?? "" }] : [])),
  });
  session.log.info("recovered the calls of a crashed run", { key: session.key, calls: ops.length, found: found.size });
  return { kind: "again", afterMs: 0 };
}

/**
 * Pending ops whose deadline has passed; the Store has assigned them to this run. The Store found at least one op. If none has expired by
 * the local clock, which may lag, returns the oldest op.
 */
export function expiredOps({ snapshot }: Pick<Run, "snapshot">, nowMs: number): readonly Intent[] {
  const pending = snapshot.intents.filter((op) => op.state === "pending");
  const expiredAtMs = Math.max(nowMs, Math.min(...pending.map((op) => op.deadlineMs)));
  return pending.filter((op) => op.deadlineMs <= expiredAtMs);
}

async function readPods({ reader }: SyncSession, namespace: string, ops: readonly Intent[]): Promise<ReadonlyMap<string, KubeObject>> {
  const names = [...new Set(ops.map((op) => op.name))];
  const pods =
    names.length > GETS_MAX
      ? (await reader.list("pods", namespace)).items
      : await Promise.all(names.map((name) => reader.get("pods", namespace, name)));
  return new Map(pods.flatMap((pod) => (pod && names.includes(pod.metadata.name) ? [[pod.metadata.name, pod]] : [])));
}

interface Finding {
  readonly op: Intent;
  readonly end: "lower" | "plan";
  /** Whether the pod of a delete no longer exists. */
  readonly gone: boolean;
  readonly object: KubeObject | undefined;
}

/**
 * A create whose pod exists is settled, even if another owner controls the pod: the name is then in use. A create whose pod does not exist
 * is planned again under the same name. A delete whose pod is unchanged was not executed.
 */
export function findingOf(op: Intent, object: KubeObject | undefined): Finding {
  if (op.verb === "create") return { op, end: object ? "lower" : "plan", gone: false, object };
  return { op, end: "lower", gone: object?.metadata.uid !== op.uid, object };
}
