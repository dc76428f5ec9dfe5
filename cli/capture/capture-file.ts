/** The output of a capture: one file, several self-contained files, or standard output. */
import { randomBytes } from "node:crypto";
import {
  closeSync,
  createWriteStream,
  fchmodSync,
  constants as files,
  fstatSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readdirSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from "node:fs";
import { once } from "node:events";
import { basename, dirname, join } from "node:path";
import type { Writable } from "node:stream";
import { finished } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { constants, createGzip } from "node:zlib";
import type { Gzip } from "node:zlib";
import { messageOf } from "@deltaloop/kube/objects";
import { UsageError } from "@deltaloop/base";

const OWNER_ONLY = 0o600;
const EVERYBODY = 0o666;
/** Paths of standard output, which is written to without opening it: another process shares its descriptor and offset. */
const STANDARD_OUTPUT: ReadonlySet<string> = new Set(["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"]);

export function isStandardOutput(path: string): boolean {
  return STANDARD_OUTPUT.has(path);
}

export function isSameFile(one: string, other: string): boolean {
  const [a, b] = [one, other].map((path) => statSync(path, { throwIfNoEntry: false }));
  return a !== undefined && b !== undefined && a.isFile() && a.dev === b.dev && a.ino === b.ino;
}

export interface CaptureFileOptions {
  /** Records unredacted objects: only the owner may read the file, including an existing one. */
  readonly isWhole: boolean;
  /** Size before compression at which a file is full; a file may be longer by the data in flight. */
  readonly rotateBytes?: number;
  readonly rotateMs?: number;
  /** Number of the newest files to keep. */
  readonly keep?: number;
  /**
   * How to treat an existing file that is not empty (CF4). Default: `refused`, which throws an error. `continued` is only for rotated
   * files.
   */
  readonly existing?: "refused" | "overwritten" | "replaced" | "continued";
}

interface OpenFile {
  readonly path: string;
  readonly file: Writable;
  /** Descriptor of a file; absent for standard output, which must not be truncated. */
  readonly fd?: number;
  /** The stream to which lines are written: the file, or a gzip stream that is piped into it. */
  readonly out: Writable | Gzip;
  readonly sinceMs: number;
  bytes: number;
  /** Lines for gzip, which costs much less for large chunks. */
  held: string[];
  heldBytes: number;
}

const CHUNK_BYTES = 64 * 2 ** 10;

/** A file that replaces another one. */
interface Draft {
  readonly path: string;
  readonly place: string;
}

/**
 * CF1 after `flush`, everything written before is readable, also gzip data and after SIGKILL.
 * CF2 an older file is deleted only when the newer one has all existing objects: a process killed in between leaves a complete one.
 * CF3 a full file is reported and not cut: the writer calls `next` where a file can begin.
 * CF4 an existing file stays unchanged until the first line is written. A file to be replaced stays until `end` succeeds. Pipes and devices
 *     are written to directly.
 */
export class CaptureFile {
  readonly #path: string;
  readonly #options: CaptureFileOptions;
  readonly #ended: Promise<void>[] = [];
  readonly #kept: string[] = [];
  #open: OpenFile;
  #draft: Draft | undefined;
  #number = 1;
  #error: Error | undefined;

  /** Opens the file. @throws {UsageError} if it cannot be written */
  constructor(path: string, options: CaptureFileOptions, nowMs: number) {
    this.#path = path;
    this.#options = options;
    if (this.#rotates && isStandardOutput(path)) throw new UsageError("standard output cannot be rotated: name a file");
    if (this.#rotates && this.#isRefused) for (const earlier of numberedFiles(path)) throw inTheWay(earlier);
    if (options.existing === "continued") this.#continue();
    this.#open = this.#begin(nowMs);
  }

  /** The first write error, usually a full disk. */
  get error(): Error | undefined {
    return this.#error;
  }

  get path(): string {
    return this.#open.path;
  }

  /** Writes a line. Returns false if the caller should wait for `drained`. */
  write(line: string): boolean {
    const open = this.#open;
    if (open.bytes === 0) this.#makeRoom(open);
    const bytes = Buffer.byteLength(line) + 1;
    open.bytes += bytes;
    if (open.out === open.file) return open.out.write(`${line}\n`);
    open.held.push(line);
    open.heldBytes += bytes;
    return open.heldBytes < CHUNK_BYTES ? !open.out.writableNeedDrain : passOn(open);
  }

  /** Resolves once the file takes more lines, or writing has failed. */
  async room(): Promise<void> {
    if (this.#open.out.writableNeedDrain && this.#error === undefined) await this.drained();
  }

  /** Resolves once the file takes more lines. Also resolves when writing has failed: gzip in front of a failed file never drains. */
  async drained(): Promise<void> {
    const { out, file } = this.#open;
    if (file.closed) return;
    const one = new AbortController();
    // the constructor records errors of the file
    await Promise.race([once(out, "drain", one), once(file, "close", one)].map((each) => each.catch(() => undefined)));
    one.abort();
  }

  flush(): void {
    const { out, file } = this.#open;
    passOn(this.#open);
    if (out !== file) (out as Gzip).flush(constants.Z_SYNC_FLUSH); // `out` is the file or a gzip stream
  }

  /** Flushes, waits until the file contains all data, and removes the files beyond `keep` (CF2). Also resolves when writing has failed. */
  async settled(): Promise<void> {
    this.flush();
    const { file, out } = this.#open;
    const isUnderWay = (): boolean => file.writableLength > 0 || (out !== file && out.writableLength + (out as Gzip).readableLength > 0); // see flush
    while (isUnderWay() && this.#error === undefined) await sleep(1);
    if (this.#error === undefined) this.#removeOldest();
  }

  isFull(nowMs: number): boolean {
    const { rotateBytes = Infinity, rotateMs = Infinity } = this.#options;
    const { bytes, sinceMs } = this.#open;
    return bytes >= rotateBytes || (bytes > 0 && nowMs - sinceMs >= rotateMs);
  }

  /** Ends this file and begins the next one. @throws {UsageError} if that file cannot be written */
  next(nowMs: number): void {
    this.#end();
    this.#number++;
    this.#open = this.#begin(nowMs);
  }

  async end(): Promise<void> {
    this.#end();
    await Promise.all(this.#ended);
    if (this.#draft === undefined) return;
    const { path, place } = this.#draft;
    try {
      if (this.#error === undefined) renameSync(path, place);
    } catch (error) {
      this.#error = new Error(`${place} cannot be replaced: ${messageOf(error)}`);
    }
    rmSync(path, { force: true });
  }

  /** Ends without replacing the existing file. */
  async discard(): Promise<void> {
    if (this.#draft !== undefined) rmSync(this.#draft.path, { force: true });
    this.#draft = undefined;
    await this.end();
  }

  /** Also removes files beyond `keep`: a process that often restarts may never complete another file. */
  #continue(): void {
    this.#kept.push(...numberedFiles(this.#path));
    this.#number = numberOf(this.#kept.at(-1) ?? "") + 1;
    this.#removeOldest();
  }

  #removeOldest(): void {
    const { keep = Infinity } = this.#options;
    while (this.#kept.length > keep) rmSync(this.#kept.shift() ?? "", { force: true });
  }

  get #rotates(): boolean {
    return this.#options.rotateBytes !== undefined || this.#options.rotateMs !== undefined;
  }

  get #isRefused(): boolean {
    return (this.#options.existing ?? "refused") === "refused";
  }

  #begin(nowMs: number): OpenFile {
    const path = this.#rotates ? numbered(this.#path, this.#number) : this.#path;
    if (isStandardOutput(path))
      return { path: "standard output", file: process.stdout, out: process.stdout, sinceMs: nowMs, bytes: 0, held: [], heldBytes: 0 };
    let fd: number;
    try {
      // Opened at once, so that a wrong path is reported before any request to a cluster.
      fd = this.#openFile(path);
    } catch (error) {
      throw error instanceof UsageError ? error : new UsageError(`${path} cannot be written: ${messageOf(error)}`);
    }
    const file = createWriteStream(path, { fd, ...(this.#draft !== undefined && { flush: true }) });
    const out = path.endsWith(".gz") ? createGzip() : file;
    if (out !== file) out.pipe(file);
    this.#ended.push(finished(file).catch((error: unknown) => void (this.#error ??= new Error(`${path}: ${messageOf(error)}`))));
    this.#kept.push(path);
    return { path, file, fd, out, sinceMs: nowMs, bytes: 0, held: [], heldBytes: 0 };
  }

  #openFile(path: string): number {
    const mode = this.#options.isWhole ? OWNER_ONLY : EVERYBODY;
    const before = statSync(path, { throwIfNoEntry: false });
    const isLinkToNothing = before === undefined && lstatSync(path, { throwIfNoEntry: false }) !== undefined;
    if (this.#options.existing === "replaced" && before?.isFile() !== false && !isLinkToNothing) {
      const place = before === undefined ? path : realpathSync(path);
      this.#draft = { path: `${place}.${randomBytes(4).toString("hex")}.tmp`, place };
      return openSync(this.#draft.path, "wx", before === undefined ? mode : mode & before.mode);
    }
    const fd = openSync(path, files.O_WRONLY | files.O_CREAT, mode);
    const { size } = fstatSync(fd);
    if (size === 0 || !this.#isRefused) return fd;
    closeSync(fd);
    throw inTheWay(path);
  }

  #makeRoom({ path, fd }: OpenFile): void {
    if (fd === undefined || !fstatSync(fd).isFile()) return;
    try {
      ftruncateSync(fd);
      if (this.#options.isWhole) fchmodSync(fd, OWNER_ONLY);
    } catch (error) {
      this.#error ??= new Error(`${path} cannot be emptied: ${messageOf(error)}`);
    }
  }

  #end(): void {
    const { out } = this.#open;
    passOn(this.#open);
    if (out !== process.stdout) out.end();
    else this.#ended.push(new Promise((resolve) => out.write("", () => resolve())));
  }
}

/** Passes the held lines to gzip. Returns false if the caller should wait for `drained`. */
function passOn(open: OpenFile): boolean {
  if (open.held.length === 0) return !open.out.writableNeedDrain;
  const chunk = `${open.held.join("\n")}\n`;
  [open.held, open.heldBytes] = [[], 0];
  return open.out.write(chunk);
}

function inTheWay(path: string): UsageError {
  return new UsageError(`${path} exists and is not empty: move it, name another file, or overwrite it with --force`);
}

/** Adds the number to a name: `incident.jsonl.gz` becomes `incident.0001.jsonl.gz`. */
function numbered(path: string, number: number): string {
  const [stem, ending] = partsOf(path);
  return `${stem}.${String(number).padStart(4, "0")}${ending}`;
}

function partsOf(path: string): readonly [stem: string, ending: string] {
  const [, stem = path, ending = ""] = /^(.*?)((?:\.jsonl)?(?:\.gz)?)$/.exec(path) ?? [];
  return [stem, ending];
}

/** The number in `incident.0001.jsonl.gz`: 1. Returns 0 for a name without a number. */
function numberOf(path: string): number {
  return Number(/\.(\d{4,})$/.exec(partsOf(path)[0])?.[1] ?? 0);
}

/** The files of a rotated capture that are not empty, oldest first. */
export function numberedFiles(path: string): readonly string[] {
  const [stem, ending] = partsOf(basename(path));
  let names: readonly string[] = [];
  try {
    names = readdirSync(dirname(path));
  } catch {
    // opening the next file reports the error
  }
  return names
    .filter((name) => name.startsWith(`${stem}.`) && name.endsWith(ending))
    .filter((name) => /^(?!0+$)\d{4,}$/.test(name.slice(stem.length + 1, name.length - ending.length)))
    .map((name) => join(dirname(path), name))
    .filter((each) => (statSync(each, { throwIfNoEntry: false })?.size ?? 0) > 0)
    .toSorted((a, b) => numberOf(a) - numberOf(b));
}
