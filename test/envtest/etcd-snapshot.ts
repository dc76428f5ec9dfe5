/** A backup of etcd through the JSON form of its API: what `etcdctl snapshot save` requests by gRPC. */
import { writeFile } from "node:fs/promises";

/** One message of the stream: a part of the database, and at the end the SHA-256 of the whole. Source: etcd api/v3 SnapshotResponse. */
interface SnapshotMessage {
  readonly result?: { readonly blob?: string };
  readonly error?: { readonly message?: string };
}

/** Writes a file that `etcdutl snapshot restore` reads. @throws when etcd ends the stream early */
export async function saveSnapshot(etcdUrl: string, path: string): Promise<void> {
  const response = await fetch(`${etcdUrl}/v3/maintenance/snapshot`, { method: "POST", body: "{}" });
  if (!response.ok) throw new Error(`etcd returned no snapshot: ${response.status} ${await response.text()}`);
  const lines = (await response.text()).split("\n").filter((line) => line !== "");
  const blobs = lines.map((line) => {
    const { result, error } = JSON.parse(line) as SnapshotMessage; // the format of etcd's API
    if (error !== undefined) throw new Error(`etcd aborted the snapshot: ${error.message}`);
    return Buffer.from(result?.blob ?? "", "base64");
  });
  await writeFile(path, Buffer.concat(blobs), { mode: 0o600 });
}
