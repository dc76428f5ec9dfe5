/**
 * One delta message: an ordered pack of items of one lane and one kind (informer §10.4).
 *
 *     { v: 2, c: "5d3f…", r: "pods", e: "k3x…", f: "812", g: 1, ln: 7, sq: 42, k: "D", ts: 1772359200123,
 *       items: [{ t: "M", key: "shop/web-x2x4z", uid: "…", rv: "811", o: { … } }] }
 */
import type { Cached, View, ObjectKey } from "@deltaloop/kube/objects";
import type { ManifestRow } from "@deltaloop/store/ports";

/**
 * 2: the body is signed (signed-body.ts), and listed objects carry the version of their list. A build for version 2 does not read the
 * unsigned version 1: the epoch changes as well (identity.ts).
 */
export const ENVELOPE_VERSION = 2;

interface EnvelopeHead {
  readonly v: typeof ENVELOPE_VERSION;
  /** Cluster id. */
  readonly c: string;
  readonly r: View;
  readonly e: string;
  readonly f: string;
  readonly g: number;
  readonly ln: number;
  /** Per lane and fence, from 1, without gaps. */
  readonly sq: number;
  /** Time at which the watcher received the last item, ms; for metrics only. */
  readonly ts: number;
}

export type Envelope = EnvelopeHead &
  (
    | { readonly k: "D"; readonly items: readonly EnvelopeItem[] }
    /** `L`: the resourceVersion of the list's first page. */
    | { readonly k: "L"; readonly L: string; readonly items: readonly EnvelopeItem[] }
    | { readonly k: "W"; readonly rv: string }
    | {
        readonly k: "M";
        readonly L: string;
        /** Number of lanes of the resource, for readers of recorded messages. Absent: of an older build, LANES. */
        readonly lanes?: number;
        readonly part: number;
        readonly parts: number;
        readonly rows: readonly ManifestRow[];
      }
  );

export interface EnvelopeItem {
  readonly t: "A" | "M" | "D";
  readonly key: ObjectKey;
  readonly uid: string;
  readonly rv: string;
  /** Absent if `tooBig`. */
  readonly o?: Cached<View>;
  /** The object would make the message too large, or the queue rejected its message: the applier reads it live. */
  readonly tooBig?: true;
}
