/** Snapshots of etcd through its JSON gateway; `etcdctl snapshot save` sends the same request over gRPC. */
import { writeFile } from "node:fs/promises";

/** One message of the stream: a part of the database, or at the end the SHA-256 of all parts. Source: etcd api/v3 SnapshotResponse. */
interface SnapshotMessage {
  readonly result?: { readonly blob?: string };
  readonly error?: { readonly message?: string };
}

/**
 * Writes a file that `etcdutl snapshot restore` can read.
 * @throws {Error} if etcd ends the stream early
 */
export async function saveSnapshot(etcdUrl: string, path: string): Promise<void> {
  const response = await fetch(`${etcdUrl}/v3/maintenance/snapshot`, { method: "POST", body: "{}" });
  if (!response.ok) throw new Error(`etcd returned no snapshot: ${response.status} ${await response.text()}`);
  const lines = (await response.text()).split("\n").filter((line) => line !== "");
  const blobs = lines.map((line) => {
    const { result, error } = JSON.parse(line) as SnapshotMessage; // a message of etcd's JSON gateway
    if (error !== undefined) throw new Error(`etcd aborted the snapshot: ${error.message}`);
    return Buffer.from(result?.blob ?? "", "base64");
  });
  await writeFile(path, Buffer.concat(blobs), { mode: 0o600 });
}
