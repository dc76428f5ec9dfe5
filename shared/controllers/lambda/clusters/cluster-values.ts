/**
 * The clusters of one role in Parameter Store, as a function needs them: one by one, when a message arrives.
 *
 * XV1 each version of a value is decrypted once. A cluster that is needed CONFIRMED_MS after its last confirmation is confirmed again: its
 *     version is read, without decryption. So pauses, removals and renewed credentials take effect within that time. The same request
 *     confirms other clusters that are due soon and were needed within ASKED_MS. JITTER spreads the requests of functions that started
 *     together.
 * XV2 a refused credential is confirmed at once, but at most every REFUSED_MS for each cluster, so that a hostile server causes few reads.
 * XV3 while Parameter Store does not answer, known values are used for KEPT_MS after their last confirmation, and are confirmed again after
 *     AGAIN_AFTER_FAILURE_MS. After KEPT_MS, and for other clusters, the caller gets the error. A failed read fails all callers that wait, so
 *     that none waits for two: an invocation has 5 s. No caller gets "missing" without an answer.
 * XV4 a rejected value keeps the last good one (KD3), as does one that cannot be decrypted; without a good one, callers get the error of the
 *     latter. Each problem is logged once.
 * XV5 at most KNOWN_MAX clusters are kept; the least recently used are forgotten.
 */
import { parameterPath, parseClusterValue } from "@deltaloop/kube/clusters";
import type { Allowance, ListedValue } from "@deltaloop/kube/clusters";
import type { Clock, Log, Random } from "@deltaloop/base";
import { describeError } from "@deltaloop/kube/client";
import { SecretError } from "@deltaloop/store/ports";
import { batches, NAMES_MAX } from "@deltaloop/store/secrets";
import type { Parameters, ParameterValue } from "@deltaloop/store/secrets";

export interface ClusterValuesOptions {
  readonly parameters: Pick<Parameters, "versions" | "versionsOf" | "values">;
  /** `ssm:/deltaloop/prod/clusters`. */
  readonly place: string;
  readonly role: string;
  readonly allowed: ReadonlySet<Allowance>;
  readonly clock: Pick<Clock, "now">;
  readonly random: Random;
  readonly log: Pick<Log, "warn">;
}

export interface ClusterValues {
  /** Returns the cluster, if it is in the directory. @throws {SecretError} XV3 */
  get(cid: string): Promise<ListedValue | undefined>;
  /** Reads the cluster again because its server has refused its credentials (XV2). Never throws. */
  refused(cid: string): Promise<ListedValue | undefined>;
  /** Returns all clusters. @throws {SecretError} XV3 */
  list(): Promise<readonly ListedValue[]>;
}

export const CONFIRMED_MS = 30_000;
/** Part of CONFIRMED_MS. */
const JITTER = 0.2;
const ASKED_MS = 60_000;
/** A cluster that was not found is often new. */
const ABSENT_MS = 5_000;
export const REFUSED_MS = 15_000;
export const KEPT_MS = 3_600_000;
const AGAIN_AFTER_FAILURE_MS = 10_000;
/** After a failed read, callers get its error. */
const AGAIN_MS = 1_000;
export const KNOWN_MAX = 1_000;

interface Known {
  /** Undefined for a cluster that is not in the directory. */
  version: string | undefined;
  value: ListedValue | undefined;
  confirmedMs: number;
  /** When it is to be confirmed again. */
  dueMs: number;
  /** When it was last asked for. */
  askedMs: number;
  refusedMs: number;
  problem: string;
  /** The value cannot be decrypted. */
  error: SecretError | undefined;
}

type Found = Pick<Known, "version" | "value"> & Partial<Pick<Known, "problem" | "error">>;

export function createClusterValues({ parameters, place, role, allowed, clock, random, log }: ClusterValuesOptions): ClusterValues {
  const path = parameterPath(place, role);
  /** By cluster id, the most recently used last. */
  const known = new Map<string, Known>();
  /** The clusters of the next read. */
  const asked = new Set<string>();
  let reading: Promise<void> | undefined;
  /** The next read, until it begins: its callers share it, and its failure. */
  let next: Promise<void> | undefined;
  let failed: { readonly error: unknown; readonly atMs: number } | undefined;
  let listedMs: number | undefined;
  const nameOf = (cid: string): string => `${path}/${cid}`;
  const cidIn = (name: string): string => name.slice(path.length + 1);
  const isFresh = (cid: string): boolean => clock.now() < (known.get(cid)?.dueMs ?? -Infinity);

  /** Adds a cluster to the next read. */
  async function readNext(cid: string): Promise<void> {
    asked.add(cid);
    next ??= alone(async () => {
      const cids = [...asked].filter((each) => !isFresh(each));
      asked.clear();
      next = undefined;
      if (cids.length > 0) await confirm(cids);
    });
    await next;
  }

  /** Reads or confirms clusters (XV1). */
  async function confirm(cids: readonly string[]): Promise<void> {
    const now = clock.now();
    if (failed && now - failed.atMs < AGAIN_MS) throw failed.error;
    const fresh = cids.filter((cid) => !known.has(cid));
    const held = cids.filter((cid) => known.has(cid));
    held.push(...soonDue(cids, batches(held).length * NAMES_MAX - held.length));
    try {
      const changed: string[] = [];
      for (const batch of batches(held.map(nameOf))) {
        const versions = await parameters.versionsOf(batch);
        changed.push(...changedIn(batch.map((name) => [cidIn(name), versions.get(name)])));
      }
      await read([...changed, ...fresh]);
    } catch (error) {
      failed = { error, atMs: clock.now() };
      postpone();
      log.warn("failed to read the clusters; using the last values", { error: describeError(error) });
      throw error;
    }
  }

  /** Known clusters that save a read later, because they are in use. */
  function soonDue(but: readonly string[], most: number): readonly string[] {
    const now = clock.now();
    const isSoon = ({ dueMs, askedMs }: Known): boolean => dueMs <= now + CONFIRMED_MS / 2 && now - askedMs < ASKED_MS;
    return [...known].flatMap(([cid, own]) => (isSoon(own) && !but.includes(cid) ? [cid] : [])).slice(0, most);
  }

  /** Uses known values without another read for a while (XV3). */
  function postpone(): void {
    const untilMs = clock.now() + AGAIN_AFTER_FAILURE_MS;
    for (const own of known.values()) if (own.value) own.dueMs = Math.max(own.dueMs, Math.min(untilMs, own.confirmedMs + KEPT_MS));
  }

  /** Confirms the unchanged clusters, and returns the others. */
  function changedIn(versions: readonly (readonly [cid: string, version: string | undefined])[]): readonly string[] {
    const changed = versions.flatMap(([cid, version]) => (version !== undefined && version !== known.get(cid)?.version ? [cid] : []));
    for (const [cid, version] of versions) if (!changed.includes(cid)) set(cid, version === undefined ? undefined : known.get(cid));
    return changed;
  }

  /** Notes each batch as it arrives, because the next one may fail. */
  async function read(cids: readonly string[]): Promise<void> {
    for (const batch of batches(cids.map(nameOf))) {
      const values = await parameters.values(batch);
      for (const name of batch) set(cidIn(name), judged(cidIn(name), values.get(name)));
    }
  }

  function set(cid: string, found: Found | undefined): void {
    const now = clock.now();
    const { version, value, problem = "", error } = found ?? {};
    const dueMs = now + (version === undefined ? ABSENT_MS : CONFIRMED_MS * (1 - JITTER * random.next()));
    const { askedMs = now, refusedMs = -Infinity } = known.get(cid) ?? {};
    known.set(cid, { version, value, problem, error, dueMs, confirmedMs: now, askedMs, refusedMs });
  }

  /** XV4 */
  function judged(cid: string, found: ParameterValue | SecretError | undefined): Found | undefined {
    if (found === undefined) return undefined;
    const before = known.get(cid);
    if (found instanceof SecretError) {
      const problem = describeError(found);
      if (problem !== before?.problem) log.warn("cluster cannot be read; using the last good kubeconfig, if any", { cid, problem });
      return { version: before?.version, value: before?.value, problem, error: found }; // the former version: it is read again
    }
    const { version, text } = found;
    const parsed = parseClusterValue(text, cid, allowed);
    if (parsed.kind === "listed") return { version, value: parsed };
    const problem = parsed.problems.join("; ");
    if (problem !== before?.problem)
      log.warn("kubeconfig rejected; using the last good one, if any", { cluster: parsed.name, cid, problem });
    return { version, value: before?.value && { ...before.value, isPaused: parsed.isPaused }, problem };
  }

  /** Runs one read after the other. */
  async function alone(read: () => Promise<void>): Promise<void> {
    const own = Promise.resolve(reading).then(read, read);
    reading = own;
    await own;
  }

  async function get(cid: string): Promise<ListedValue | undefined> {
    if (!isFresh(cid))
      await readNext(cid).catch((error: unknown) => {
        if (!isFresh(cid)) throw error; // XV3
      });
    const own = known.get(cid);
    if (own === undefined) throw new Error(`cluster ${cid} was forgotten while it was read`); // more than KNOWN_MAX at once
    own.askedMs = clock.now();
    known.delete(cid);
    known.set(cid, own);
    for (const [oldest] of known) if (known.size > KNOWN_MAX) known.delete(oldest); // XV5
    if (own.value === undefined && own.error) throw own.error;
    return own.value;
  }

  return {
    get,
    async refused(cid) {
      const own = known.get(cid);
      const now = clock.now();
      if (own && now - own.refusedMs >= REFUSED_MS) {
        own.refusedMs = now;
        own.dueMs = now;
      }
      return await get(cid).catch(() => own?.value);
    },
    async list() {
      await alone(async () => {
        try {
          const versions = await parameters.versions(path);
          const listed = [...versions].map(([name, version]) => [cidIn(name), version] as const);
          const gone = [...known.keys()].filter((cid) => !versions.has(nameOf(cid)));
          for (const cid of gone) known.delete(cid);
          await read(changedIn(listed));
          listedMs = clock.now();
        } catch (error) {
          if (listedMs === undefined || clock.now() - listedMs >= KEPT_MS) throw error;
          log.warn("failed to read the clusters; using the last values", { error: describeError(error) });
        }
      });
      return [...known.values()].flatMap(({ value }) => (value === undefined ? [] : [value]));
    },
  };
}
