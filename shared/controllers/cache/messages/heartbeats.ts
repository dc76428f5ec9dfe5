/**
 * Heartbeats of several clusters in one message (informer §10.8): a first line, then one line for each cluster,
 *
 *     heartbeats
 *     <cluster id>.<signature>.{"v":1,"e":"k3x…","f":"812","t":1772359200123,"l":{"pods":{"rv":"4711","sq":[3,null,7]}}}
 *
 * HM1 each line is signed with the key of its cluster, in a domain of its own; nothing of a line is parsed before its MAC is verified.
 * HM2 lines are independent: each is applied by its own cluster, and a failure of one affects no other.
 */
import { BUILT_IN, isResourceVersion } from "@deltaloop/kube/objects";
import type { Catalog, View } from "@deltaloop/kube/objects";
import type { Heartbeat, HeartbeatLane, Signer } from "@deltaloop/store/ports";
import { openBody, signBody } from "./signed-body.ts";
import type { Forged, SignerOf } from "./signed-body.ts";

const FIRST_LINE = "heartbeats\n";
const VERSION = 1;

export function isHeartbeats(body: string): boolean {
  return body.startsWith(FIRST_LINE);
}

export function joinHeartbeats(lines: readonly string[]): string {
  return FIRST_LINE + lines.join("\n");
}

/** The lines of a message, one for each cluster. */
export function splitHeartbeats(body: string): readonly string[] {
  return body.slice(FIRST_LINE.length).split("\n");
}

/** The line of one cluster. `sq` has a number for each lane, null for a lane that the heartbeat leaves out. */
export function heartbeatLine(signer: Signer, cluster: string, { epoch, fence, sentMs, lanes }: Heartbeat): string {
  const of = new Map<View, { readonly rv: string; readonly sq: (number | null)[] }>();
  for (const { resource, lane, sequence, rv } of lanes) {
    const entry = of.get(resource) ?? { rv, sq: [] };
    of.set(resource, entry);
    while (entry.sq.length < lane) entry.sq.push(null);
    entry.sq[lane] = sequence;
  }
  const payload = JSON.stringify({ v: VERSION, e: epoch, f: fence, t: sentMs, l: Object.fromEntries(of) });
  return signBody(signer, cluster, payload, "h");
}

export type OpenedHeartbeat =
  | { readonly kind: "heartbeat"; readonly cluster: string; readonly heartbeat: Heartbeat }
  /** Signed by another build, or of views that this build does not know. */
  | { readonly kind: "unreadable"; readonly cluster: string; readonly why: string }
  | Forged;

/** Never throws. */
export function openHeartbeat(line: string, signerOf: SignerOf, { views }: Pick<Catalog, "views"> = BUILT_IN): OpenedHeartbeat {
  const opened = openBody(line, signerOf, "h");
  if (opened.kind === "forged") return opened;
  const { cluster, payload } = opened;
  const unreadable = (why: string): OpenedHeartbeat => ({ kind: "unreadable", cluster, why });
  let value: unknown;
  try {
    value = JSON.parse(payload);
  } catch {
    return unreadable("not JSON");
  }
  if (!isRecord(value) || value["v"] !== VERSION) return unreadable("not a heartbeat of this build's version");
  const { e: epoch, f: fence, t: sentMs, l: named } = value;
  if (typeof epoch !== "string" || typeof fence !== "string" || !isResourceVersion(fence))
    return unreadable("its epoch or fence is not valid");
  if (!isCount(sentMs) || !isRecord(named)) return unreadable("its time or lanes are not valid");
  const lanes: HeartbeatLane[] = [];
  for (const [name, entry] of Object.entries(named)) {
    const resource = views.find((view) => view === name);
    if (resource === undefined) continue; // a view of a newer build
    if (!isRecord(entry) || typeof entry["rv"] !== "string" || !isResourceVersion(entry["rv"]) || !Array.isArray(entry["sq"]))
      return unreadable(`its lanes of ${resource} are not valid`);
    for (const [lane, sequence] of (entry["sq"] as readonly unknown[]).entries()) {
      if (sequence === null) continue;
      if (!isCount(sequence)) return unreadable(`a sequence number of ${resource} is not valid`);
      lanes.push({ resource, lane, sequence, rv: entry["rv"] });
    }
  }
  return { kind: "heartbeat", cluster, heartbeat: { epoch, fence, sentMs, lanes } };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isCount(value: unknown): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
}
