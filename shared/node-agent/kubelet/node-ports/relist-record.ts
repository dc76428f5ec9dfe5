/** The containers and sandboxes of the last relist (node-agent §12), as plain data. */
export interface RelistRecord {
  readonly states: Readonly<Record<string /* container or sandbox id */, RelistEntry>>;
}

export interface RelistEntry {
  readonly uid: string;
  readonly state: "running" | "exited" | "unknown" | "created";
}

/** Caches the result by record, because every sync needs it and there is only one record per second. */
const running = new WeakMap<RelistRecord, ReadonlySet<string>>();

/** Returns the UIDs of pods with a running container or a ready sandbox. */
export function runningByRelist(record: RelistRecord): ReadonlySet<string> {
  const known = running.get(record);
  if (known !== undefined) return known;
  const uids = new Set(Object.values(record.states).flatMap(({ uid, state }) => (state === "running" ? [uid] : [])));
  running.set(record, uids);
  return uids;
}
