/** Where a capture goes: one file, or several that each stand alone. */
import { createWriteStream, fchmodSync, fstatSync, openSync, rmSync } from "node:fs";
import type { WriteStream } from "node:fs";
import { once } from "node:events";
import { finished } from "node:stream/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { constants, createGzip } from "node:zlib";
import type { Gzip } from "node:zlib";
import { messageOf } from "../../shared/api/errors.ts";
import { UsageError } from "./usage-error.ts";

const OWNER_ONLY = 0o600;
const EVERYBODY = 0o666;

export interface CaptureFileOptions {
  /** Whole objects, with every secret in them: nobody but their owner may read the file, also when it was there before. */
  readonly isWhole: boolean;
  /** Of bytes as they are before compression; a file may be longer by what was under way. */
  readonly rotateBytes?: number;
  readonly rotateMs?: number;
  /** So many files are kept, the newest; of those that this run made. */
  readonly keep?: number;
}

interface OpenFile {
  readonly path: string;
  readonly file: WriteStream;
  /** Where lines go: the file itself, or gzip before it. */
  readonly out: WriteStream | Gzip;
  readonly sinceMs: number;
  bytes: number;
}

/**
 * CF1 what was written is in the file after `flush`, whoever is killed then: gzip data can be read until there.
 * CF2 an older file goes when all that stood there is in the newer one: whoever is killed between them leaves one that is whole.
 * CF3 a file that is full is said so, and nothing is cut: whoever writes goes on with `next` where a file can begin.
 */
export class CaptureFile {
  readonly #path: string;
  readonly #options: CaptureFileOptions;
  readonly #ended: Promise<void>[] = [];
  readonly #kept: string[] = [];
  #open: OpenFile;
  #number = 1;
  #error: Error | undefined;

  /** @throws {UsageError} when it cannot be written */
  constructor(path: string, options: CaptureFileOptions, nowMs: number) {
    this.#path = path;
    this.#options = options;
    this.#open = this.#begin(nowMs);
  }

  /** Of what could not be written, a full disk as a rule. */
  get error(): Error | undefined {
    return this.#error;
  }

  get path(): string {
    return this.#open.path;
  }

  /** False: whoever can wait should, for `drained`. */
  write(line: string): boolean {
    this.#open.bytes += Buffer.byteLength(line) + 1;
    return this.#open.out.write(`${line}\n`);
  }

  /** Ends as well when nothing can be written: gzip before a file that has failed never drains. */
  async drained(): Promise<void> {
    const { out, file } = this.#open;
    if (file.closed) return;
    const one = new AbortController();
    // An error is noted where the file is begun.
    await Promise.race([once(out, "drain", one), once(file, "close", one)].map((each) => each.catch(() => undefined)));
    one.abort();
  }

  flush(): void {
    const { out, file } = this.#open;
    if (out !== file) (out as Gzip).flush(constants.Z_SYNC_FLUSH); // the other one there is
  }

  /** Flushes, waits until all of it is in the file, and removes the files beyond `keep` (CF2). Ends as well when nothing can be written. */
  async settled(): Promise<void> {
    this.flush();
    const { file, out } = this.#open;
    const isUnderWay = (): boolean => file.writableLength > 0 || (out !== file && out.writableLength + (out as Gzip).readableLength > 0); // see flush
    while (isUnderWay() && this.#error === undefined) await sleep(1);
    const { keep = Infinity } = this.#options;
    while (this.#error === undefined && this.#kept.length > keep) rmSync(this.#kept.shift() ?? "", { force: true });
  }

  isFull(nowMs: number): boolean {
    const { rotateBytes = Infinity, rotateMs = Infinity } = this.#options;
    return this.#open.bytes >= rotateBytes || nowMs - this.#open.sinceMs >= rotateMs;
  }

  /** @throws {UsageError} when the next one cannot be written */
  next(nowMs: number): void {
    this.#end();
    this.#number++;
    this.#open = this.#begin(nowMs);
  }

  async end(): Promise<void> {
    this.#end();
    await Promise.all(this.#ended);
  }

  #begin(nowMs: number): OpenFile {
    const { isWhole, rotateBytes, rotateMs } = this.#options;
    const rotates = rotateBytes !== undefined || rotateMs !== undefined;
    const path = rotates ? numbered(this.#path, this.#number) : this.#path;
    let fd: number;
    try {
      // At once: a mistake in the path is told before anything is asked of a cluster.
      fd = openSync(path, "w", isWhole ? OWNER_ONLY : EVERYBODY);
      if (isWhole && fstatSync(fd).isFile()) fchmodSync(fd, OWNER_ONLY);
    } catch (error) {
      throw new UsageError(`${path} cannot be written: ${messageOf(error)}`);
    }
    const file = createWriteStream(path, { fd });
    const out = path.endsWith(".gz") ? createGzip() : file;
    if (out !== file) out.pipe(file);
    this.#ended.push(finished(file).catch((error: unknown) => void (this.#error ??= new Error(`${path}: ${messageOf(error)}`))));
    this.#kept.push(path);
    return { path, file, out, sinceMs: nowMs, bytes: 0 };
  }

  #end(): void {
    this.#open.out.end();
  }
}

/** `incident.jsonl.gz` is `incident.0001.jsonl.gz`. */
function numbered(path: string, number: number): string {
  const [, stem = path, ending = ""] = /^(.*?)((?:\.jsonl)?(?:\.gz)?)$/.exec(path) ?? [];
  return `${stem}.${String(number).padStart(4, "0")}${ending}`;
}
