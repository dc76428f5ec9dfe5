import { createHash } from "node:crypto";
import type { KubeReader } from "./kube.ts";

export interface ClusterIdentity {
  /** 12 hex digits of SHA-256 over the uid: part of every key, group and message. */
  readonly cid: string;
  /** uid of the namespace kube-system: the one thing of a cluster that lives as long as it does. */
  readonly uid: string;
}

/** @throws {Error} when the API server cannot be reached or has no kube-system. */
export async function readClusterIdentity(reader: KubeReader): Promise<ClusterIdentity> {
  const namespace = await reader.get("namespaces", "", "kube-system");
  if (!namespace) throw new Error("the cluster has no namespace kube-system, so it cannot be told apart from others");
  const { uid } = namespace.metadata;
  return { uid, cid: createHash("sha256").update(uid).digest("hex").slice(0, 12) };
}
