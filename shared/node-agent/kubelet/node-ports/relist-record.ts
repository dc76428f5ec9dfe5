/** The containers and sandboxes that the last relist of the runtime saw (node-agent §12). */

/** Plain data: what the last look saw. */
export interface RelistRecord {
  readonly states: Readonly<Record<string /* container or sandbox id */, RelistEntry>>;
}

export interface RelistEntry {
  readonly uid: string;
  readonly state: "running" | "exited" | "unknown" | "created";
}

/** Of a record, which nobody alters, what runs: each pod that is looked at asks, and there is a record a second. */
const running = new WeakMap<RelistRecord, ReadonlySet<string>>();

/** UIDs of pods of which a container runs or a sandbox is ready. */
export function runningByRelist(record: RelistRecord): ReadonlySet<string> {
  const known = running.get(record);
  if (known !== undefined) return known;
  const uids = new Set(Object.values(record.states).flatMap(({ uid, state }) => (state === "running" ? [uid] : [])));
  running.set(record, uids);
  return uids;
}
