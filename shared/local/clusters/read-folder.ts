/** Reads one state of a folder of kubeconfigs: `NAME` or `NAME.yaml`, and `.NAME.paused` beside it. Hidden files are no clusters. */
import type { BigIntStats } from "node:fs";
import { open, readdir, stat } from "node:fs/promises";
import { join } from "node:path";

import { addressProblem, clusterId, isClusterName, parseKubeconfig, repeatedServers, vetKubeconfig } from "@deltaloop/kube/kubeconfig";
import type { Allowance, Kubeconfig } from "@deltaloop/kube/kubeconfig";
import { messageOf } from "@deltaloop/kube/objects";

/** A kubeconfig has a few KiB per user; one with a certificate bundle of a system has 300 KiB. */
const BYTES_MAX = 1024 * 1024;
/**
 * Limit of the characters with a meaning in YAML. A kubeconfig with 100 users has 6,000. A hostile one of a million brackets would keep the
 * parser, and with it every cluster of the process, busy for ten seconds and more.
 */
const MARKS_MAX = 20_000;
const MARKS = /[^\w+/=. \r]/g;
const SUFFIXES = [".yaml", ".yml", ".kubeconfig"];

/** One kubeconfig of the folder. */
export type FolderEntry = Vetted | Rejected;

export interface Vetted {
  readonly kind: "vetted";
  readonly name: string;
  readonly file: string;
  readonly cid: string;
  readonly server: string;
  readonly config: Kubeconfig;
  readonly isPaused: boolean;
}

export interface Rejected {
  readonly kind: "rejected";
  readonly name: string;
  readonly file: string;
  /** One line each: file, place, reason, remedy. */
  readonly problems: readonly string[];
  readonly isPaused: boolean;
}

export interface FolderOptions {
  readonly folder: string;
  readonly allowed: ReadonlySet<Allowance>;
  /** The addresses of a host; none for a name that does not resolve. */
  readonly resolve: (hostname: string) => Promise<readonly string[]>;
  readonly served?: ServedClusters;
  /** Files as last parsed, by path, so that an unchanged one is not parsed again. */
  readonly parsed?: Map<string, ParsedFile>;
}

/** What decides between entries with one server (KD4). */
export interface ServedClusters {
  /** Those of the cluster ids that have an epoch in the Store; undefined if it does not answer. */
  readonly cached: (cids: readonly string[]) => Promise<ReadonlySet<string> | undefined>;
  /** Whether this process serves the cluster id. */
  readonly isListed: (cid: string) => boolean;
}

interface ParsedFile {
  /** Changes with the file. */
  readonly version: string;
  /** An error for a file that is no kubeconfig, so that it is not parsed again either. */
  readonly config: Kubeconfig | Error;
  /** Its problems without the addresses of its server, and its id. */
  readonly problems: readonly string[];
  readonly cid: string;
}

interface ValidFile extends ParsedFile {
  readonly config: Kubeconfig;
}

/** Reads the folder and vets its files. @throws {Error} when the folder cannot be read; a file that cannot be read is a rejected entry */
export async function readFolder(options: FolderOptions): Promise<readonly FolderEntry[]> {
  const files = await readdir(options.folder);
  const paused = new Set(files.map((file) => /^\.(.+)\.paused$/.exec(file)?.[1]));
  const read = await Promise.all(
    files
      .filter((file) => !file.startsWith("."))
      .toSorted()
      .map(async (file) => await readEntry(file, paused, options)),
  );
  return await rejectRepeated(read, options.served);
}

/** The name of the cluster of a file. */
function nameOf(file: string): string {
  const suffix = SUFFIXES.find((each) => file.endsWith(each));
  return suffix === undefined ? file : file.slice(0, -suffix.length);
}

/** The file that pauses the cluster while it exists. */
export function pauseFile(folder: string, name: string): string {
  return join(folder, `.${name}.paused`);
}

async function readEntry(file: string, paused: ReadonlySet<string | undefined>, options: FolderOptions): Promise<FolderEntry> {
  const name = nameOf(file);
  const isPaused = paused.has(name);
  const rejected = (...problems: readonly string[]): Rejected => ({ kind: "rejected", name, file, problems, isPaused });
  if (!isClusterName(name)) return rejected(`${file}: its name is not a DNS label: rename it`);
  try {
    const { config, cid, problems: own } = await parsedFile(file, name, options);
    const problems = own.length > 0 ? own : await vetAddress(config, options);
    if (problems.length > 0) return rejected(...problems.map((problem) => `${file}: ${problem}`));
    const server = config.clusters[0]?.cluster.server ?? "";
    return { kind: "vetted", name, file, cid, server, config, isPaused };
  } catch (error) {
    return rejected(messageOf(error));
  }
}

/** Returns the problems of a kubeconfig, including those of the addresses that its server's name resolves to. */
export async function vet(config: Kubeconfig, options: Omit<FolderOptions, "folder">): Promise<readonly string[]> {
  const problems = vetKubeconfig(config, options.allowed);
  return problems.length > 0 ? problems : await vetAddress(config, options);
}

/** Resolves the server's name each time, because its addresses may change. */
export async function vetAddress(config: Kubeconfig, { allowed, resolve }: Omit<FolderOptions, "folder">): Promise<readonly string[]> {
  const { hostname } = new URL(config.clusters[0]?.cluster.server ?? "");
  const problem = addressProblem(await resolve(hostname), allowed);
  return problem === undefined ? [] : [problem];
}

/** Returns a parsed file. @throws {Error} with the file and the problem */
async function parsedFile(file: string, name: string, { folder, parsed, allowed }: FolderOptions): Promise<ValidFile> {
  const path = join(folder, file);
  const known = parsed?.get(path);
  if (known && known.version === versionOf(await stat(path, { bigint: true }))) return validFile(known);
  const opened = await open(path, "r");
  try {
    const stats = await opened.stat({ bigint: true });
    if (stats.size > BYTES_MAX) throw new Error(`${file}: has more than ${BYTES_MAX} bytes: keep one cluster per file`);
    const config = parseOrError(await opened.readFile(), file);
    const problems = config instanceof Error ? [] : vetKubeconfig(config, allowed);
    const cid = config instanceof Error || problems.length > 0 ? "" : clusterId(name, config);
    const read = { version: versionOf(stats), config, problems, cid };
    parsed?.set(path, read);
    return validFile(read);
  } finally {
    await opened.close();
  }
}

function parseOrError(bytes: Buffer, file: string): Kubeconfig | Error {
  const marks = bytes.toString("latin1").match(MARKS)?.length ?? 0;
  if (marks > MARKS_MAX) return new Error(`${file}: is too complex: keep one cluster per file`);
  try {
    return parseKubeconfig(bytes, file);
  } catch (error) {
    return error instanceof Error ? error : new Error(messageOf(error));
  }
}

function validFile({ config, ...rest }: ParsedFile): ValidFile {
  if (config instanceof Error) throw config;
  return { config, ...rest };
}

function versionOf({ size, ino, mtimeNs, ctimeNs }: BigIntStats): string {
  return [size, ino, mtimeNs, ctimeNs].join();
}

/** Of entries with one name, the first is kept, and of those with one server the one that is served (KD4). */
export async function rejectRepeated(entries: readonly FolderEntry[], served?: ServedClusters): Promise<readonly FolderEntry[]> {
  const names = new Map<string, string>();
  const once = entries.map((entry): FolderEntry => {
    const earlier = names.get(entry.name);
    if (earlier === undefined) names.set(entry.name, entry.file);
    return earlier === undefined ? entry : rejection(entry, `names the same cluster as ${earlier}: remove one of them`);
  });
  const vetted = once.filter((entry) => entry.kind === "vetted");
  const byServer = Map.groupBy(vetted, ({ server }) => new URL(server).href);
  const rivals = [...byServer.values()].flatMap((group) => (group.length > 1 ? group : []));
  if (rivals.length === 0) return once;
  const cached = served === undefined ? new Set<string>() : await served.cached(rivals.map(({ cid }) => cid));
  const isListed = (cid: string): boolean => served?.isListed(cid) === true;
  const repeated = repeatedServers(vetted, ({ cid }) => Number(cached?.has(cid) === true) * 2 + Number(isListed(cid)));
  const unknown = cached === undefined ? rivals.filter(({ cid }) => !isListed(cid)) : [];
  return once.map((entry) => {
    const winner = repeated.get(entry.name);
    if (entry.kind === "rejected") return entry;
    if (winner !== undefined)
      return rejection(entry, `clusters[0].cluster.server: cluster ${winner} has the same server: remove one of them`);
    if (!unknown.includes(entry)) return entry;
    return rejection(
      entry,
      "clusters[0].cluster.server: another cluster has the same server, and the Store does not answer which is served",
    );
  });
}

function rejection({ name, file, isPaused }: FolderEntry, problem: string): Rejected {
  return { kind: "rejected", name, file, problems: [`${file}: ${problem}`], isPaused };
}
