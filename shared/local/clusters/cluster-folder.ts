/**
 * The directory of clusters: in a folder of kubeconfigs, or in Parameter Store.
 *
 * FK1 clients use copies that this process made of vetted files: a file that changes after it was vetted is never used. Kubeconfigs from
 *     Parameter Store stay in memory.
 * FK2 a copy is replaced in one step when the credentials change; clients read it again after a 401, and every minute.
 * FK3 a folder is read when the system reports a change, and every POLL_MS, because such reports get lost; parameters every 10 s.
 */
import { rename, rm, writeFile } from "node:fs/promises";
import { watch } from "node:fs";
import { join } from "node:path";

import { changesBetween, kubeconfigText } from "@deltaloop/kube/kubeconfig";
import type { ClusterDirectory, ListedCluster } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";
import { readParameterClusters } from "./parameter-clusters.ts";
import type { ParameterOptions } from "./parameter-clusters.ts";
import { readFolder } from "./read-folder.ts";
import type { FolderEntry, FolderOptions, ServedClusters, Vetted } from "./read-folder.ts";

interface DirectoryOptions {
  /** Called once for each new problem, with one line. */
  readonly onProblem: (line: string) => void;
  /** Decides between entries with one server (KD4). Without it, the first by name is served. */
  readonly cached?: ServedClusters["cached"];
}

export interface ClusterFolderOptions extends Omit<FolderOptions, "served">, DirectoryOptions {
  /** A folder of this process with mode 0700, for the copies. */
  readonly copies: string;
}
export type ClusterParametersOptions = Omit<ParameterOptions, "known" | "served"> & DirectoryOptions;

/** Where entries come from. */
interface Source {
  /** As in "the folder of clusters cannot be read". */
  readonly what: string;
  /** Folder for copies, which clients read. If absent, they get kubeconfigs from memory. */
  readonly copies?: string;
  readonly pollMs: number;
  read(served: Pick<FolderOptions, "served">): Promise<readonly FolderEntry[]>;
  /** Calls `soon` after changes, if the source reports them; returns how to stop. */
  watch(soon: () => void): () => void;
}

const POLL_MS = 5_000;
/** A new cluster is served within 30 s; each poll of 200 clusters takes 20 requests. */
const PARAMETERS_POLL_MS = 10_000;
/** Editors write a file in several steps. */
const SETTLE_MS = 200;

function isSame(a: string, b: string): boolean {
  return new URL(a).href === new URL(b).href;
}

/** Opens the directory of clusters in a folder. @throws {Error} if the first read of the folder fails */
export async function openClusterFolder(options: ClusterFolderOptions): Promise<ClusterDirectory> {
  const parsed: NonNullable<FolderOptions["parsed"]> = new Map();
  return await openDirectory(options, {
    copies: options.copies,
    what: "folder",
    pollMs: POLL_MS,
    read: async (served) => await readFolder({ ...options, ...served, parsed }),
    watch(soon) {
      const watcher = watch(options.folder, soon).on("error", () => undefined); // FK3: polling continues
      return () => watcher.close();
    },
  });
}

/** Opens the directory of one role's clusters in Parameter Store. @throws {Error} if the first read fails */
export async function openClusterParameters(options: ClusterParametersOptions): Promise<ClusterDirectory> {
  const known: NonNullable<ParameterOptions["known"]> = new Map();
  return await openDirectory(options, {
    what: "path",
    pollMs: PARAMETERS_POLL_MS,
    read: async (served) => await readParameterClusters({ ...options, ...served, known }),
    watch: () => () => undefined,
  });
}

async function openDirectory(options: DirectoryOptions, source: Source): Promise<ClusterDirectory> {
  let clusters: readonly ListedCluster[] = [];
  let reported: ReadonlySet<string> = new Set();
  const copied = new Map<string, { config: Vetted["config"]; text: string }>();
  const followers = new Set<() => void>();
  let reading: Promise<boolean> | undefined;
  const { cached } = options;
  const served = cached === undefined ? {} : { served: { cached, isListed: (cid: string) => clusters.some((each) => each.cid === cid) } };

  await read();

  async function read(): Promise<boolean> {
    const entries = await source.read(served);
    const vetted = entries.filter((entry) => entry.kind === "vetted");
    for (const entry of vetted) await copy(entry);
    const next = vetted.map((entry) => listed(entry)).concat(entries.flatMap((entry) => keptOf(entry, vetted)));
    report(entries.flatMap((entry) => (entry.kind === "rejected" ? entry.problems : [])));
    const hasChanged = changesBetween(clusters, next).length > 0;
    clusters = next.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    await forgetCopies();
    if (hasChanged) for (const follower of followers) follower();
    return hasChanged;
  }

  /** Returns the last good state of an entry that is now rejected (KD3), unless another entry has its name or server (KD4). */
  function keptOf(entry: FolderEntry, vetted: readonly Vetted[]): readonly ListedCluster[] {
    if (entry.kind === "vetted") return [];
    return clusters
      .filter(({ name, server }) => name === entry.name && !vetted.some((other) => other.name === name || isSame(other.server, server)))
      .map((cluster) => ({ ...cluster, isPaused: entry.isPaused }));
  }

  function listed({ name, cid, server, isPaused, config }: Vetted): ListedCluster {
    const kubeconfig = copyOf(cid);
    // The last kubeconfig of a removed cluster stays: its watcher still releases the Lease.
    const newest = copied.get(cid) ?? { config };
    return { name, cid, server, isPaused, ...(kubeconfig === undefined ? { inline: () => newest.config } : { kubeconfig }) };
  }

  function copyOf(cid: string): string | undefined {
    return source.copies && join(source.copies, `${cid}.yaml`);
  }

  /** Writes the copy of a vetted kubeconfig (FK1, FK2). */
  async function copy({ cid, config }: Vetted): Promise<void> {
    const known = copied.get(cid);
    if (known?.config === config) return; // an unchanged file is the same object, and writing its text costs a millisecond
    const path = copyOf(cid);
    const text = path === undefined ? "" : kubeconfigText(config);
    if (path !== undefined && known?.text !== text) {
      await writeFile(`${path}.new`, text, { mode: 0o600 });
      await rename(`${path}.new`, path);
    }
    if (known) Object.assign(known, { config, text });
    else copied.set(cid, { config, text });
  }

  async function forgetCopies(): Promise<void> {
    for (const cid of copied.keys()) {
      if (clusters.some((cluster) => cluster.cid === cid)) continue;
      copied.delete(cid);
      const path = copyOf(cid);
      if (path !== undefined) await rm(path, { force: true });
    }
  }

  function report(lines: readonly string[]): void {
    for (const line of lines) if (!reported.has(line)) options.onProblem(line);
    reported = new Set(lines);
  }

  async function refresh(): Promise<boolean> {
    reading ??= read()
      .catch((error: unknown) => {
        report([`the ${source.what} of clusters cannot be read: ${messageOf(error)}`]);
        return false;
      })
      .finally(() => (reading = undefined));
    return await reading;
  }

  return {
    list: () => clusters,
    hasProblems: () => reported.size > 0,
    refresh,
    follow(onChange, signal) {
      let seen: readonly ListedCluster[] = [];
      const look = (): void => {
        const changes = changesBetween(seen, clusters);
        seen = clusters;
        for (const change of changes) onChange(change);
      };
      let settling: NodeJS.Timeout | undefined;
      const soon = (): void =>
        void (settling ??= setTimeout(() => {
          settling = undefined;
          void refresh();
        }, SETTLE_MS));
      const unwatch = source.watch(soon);
      const polling = setInterval(() => void refresh(), source.pollMs);
      followers.add(look);
      signal.addEventListener(
        "abort",
        () => {
          followers.delete(look);
          unwatch();
          clearInterval(polling);
          clearTimeout(settling);
        },
        { once: true },
      );
      look();
    },
  };
}
