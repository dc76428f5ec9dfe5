/** The API server's version, and how far its clock is ahead of this machine's. */
import type { KubeClient } from "@deltaloop/kube/http";

export interface ApiServerFacts {
  /** Version, such as `v1.37.2`. */
  readonly gitVersion: string;
  /** Date of its response, in whole seconds; absent if a proxy removed it. */
  readonly dateMs?: number;
}

export async function readApiServer(client: Pick<KubeClient, "json">): Promise<ApiServerFacts> {
  let date: string | undefined;
  const onHead = (headers: { readonly date?: string | undefined }): void => void (date = headers.date);
  const answer = await client.json({ method: "GET", path: "/version", onHead });
  const { gitVersion = "unknown" } = answer as { readonly gitVersion?: string }; // version.Info
  return { gitVersion, ...(date !== undefined && { dateMs: Date.parse(date) }) };
}

/** Offset to add to this machine's clock for a time that the API server has certainly reached: its Date omits fractions of a second. */
export function aheadMs({ dateMs }: Pick<ApiServerFacts, "dateMs">, nowMs: number): number {
  return dateMs === undefined ? 0 : dateMs + 1_000 - nowMs;
}
