import { createHash } from "node:crypto";
import type { KubeReader } from "./kube.ts";

export interface ClusterIdentity {
  /** First 12 hex digits of the uid's SHA-256. It is part of every key, group and message. */
  readonly cid: string;
  /** uid of the namespace kube-system, which is constant for the lifetime of the cluster. */
  readonly uid: string;
}

/** @throws {Error} when the API server cannot be reached or has no kube-system. */
export async function readClusterIdentity(reader: KubeReader): Promise<ClusterIdentity> {
  const namespace = await reader.get("namespaces", "", "kube-system");
  if (!namespace) throw new Error("the cluster has no namespace kube-system, whose uid identifies it");
  const { uid } = namespace.metadata;
  return { uid, cid: createHash("sha256").update(uid).digest("hex").slice(0, 12) };
}
