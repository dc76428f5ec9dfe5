/**
 * Reads a container's log file forward in blocks.
 *
 * LF1 at most one block and one line are held in memory.
 * LF2 after symlinks are resolved, only regular files in the pod log directory are opened, or in the runtime's own log directory if one
 *     is configured (CR9). Opening a FIFO would block a thread forever.
 * LF3 a renamed file is read to its end before the new file with its name is read.
 */
import { constants } from "node:fs";
import { open, realpath, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { dirname, join, relative, resolve, sep } from "node:path";
import { NodeApiError } from "./answer.ts";
import { messageOf } from "@deltaloop/kube/objects";

const BLOCK_BYTES = 64 * 1024;
/** Maximum length of a line, because some runtimes write lines of any length. */
const LINE_BYTES_MAX = 16 * 1024 * 1024;
const NEWLINE = 0x0a;

export interface LogFile {
  /** Returns the complete lines of the next blocks, with newlines. Empty at the current end of the file. */
  lines(): Promise<readonly Buffer[]>;
  /** Returns the text after the last newline. */
  rest(): Buffer;
  /** Whether the path now refers to another file. */
  isReplaced(): Promise<boolean>;
  /** The real path of the log's directory. */
  readonly directory: string;
  close(): Promise<void>;
}

export interface LogRoots {
  readonly podLogsDir: string;
  readonly runtimeLogsDir?: string;
}

/**
 * @param tailLines number of lines from the end, not counting an incomplete last line; if absent, the file is read from the beginning
 * @throws {NodeApiError} if the file is missing, outside the roots, or not a regular file
 */
export async function openLogFile(path: string, roots: LogRoots, tailLines?: number): Promise<LogFile> {
  const real = await realPathInside(path, roots);
  const file = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const opened = await file.stat();
    if (!opened.isFile()) throw new NodeApiError(`log file "${path}" is not a regular file`);
    return reader(real, file, opened.ino, tailLines === undefined ? 0 : await tailStart(file, opened.size, tailLines));
  } catch (error) {
    await file.close();
    throw error;
  }
}

function reader(path: string, file: FileHandle, inode: number, start: number): LogFile {
  const block = Buffer.alloc(BLOCK_BYTES);
  let position = start;
  let rest: Buffer = Buffer.alloc(0);

  return {
    async lines() {
      for (;;) {
        const { bytesRead } = await file.read(block, 0, BLOCK_BYTES, position);
        if (bytesRead === 0) return [];
        position += bytesRead;
        const found = splitLines(Buffer.concat([rest, block.subarray(0, bytesRead)]));
        rest = found.rest;
        if (rest.length > LINE_BYTES_MAX) throw new NodeApiError(`a line of log file "${path}" exceeds ${LINE_BYTES_MAX} bytes`);
        if (found.lines.length > 0) return found.lines;
      }
    },
    rest: () => rest,
    async isReplaced() {
      const now = await stat(path).catch(() => undefined); // the path may have no file between the rename and the creation of the new file
      return now !== undefined && now.ino !== inode;
    },
    directory: dirname(path),
    close: () => file.close(),
  };
}

function splitLines(bytes: Buffer): { readonly lines: readonly Buffer[]; readonly rest: Buffer } {
  const lines: Buffer[] = [];
  let from = 0;
  for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
    lines.push(bytes.subarray(from, end + 1));
    from = end + 1;
  }
  return { lines, rest: bytes.subarray(from) };
}

/**
 * Finds the start of the last `tailLines` lines: the position after newline number `tailLines + 1` from the end, or 0. In `a⏎b⏎c⏎`, the
 * last 2 lines are `b⏎c⏎`.
 * Source: cri-client pkg/logs/tail.go.
 */
async function tailStart(file: FileHandle, size: number, tailLines: number): Promise<number> {
  const block = Buffer.alloc(BLOCK_BYTES);
  let newlines = 0;
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - BLOCK_BYTES);
    const { bytesRead } = await file.read(block, 0, end - start, start);
    for (let at = block.subarray(0, bytesRead).lastIndexOf(NEWLINE); at >= 0; at = at === 0 ? -1 : block.lastIndexOf(NEWLINE, at - 1)) {
      newlines++;
      if (newlines > tailLines) return start + at + 1;
    }
    end = start;
  }
  return 0;
}

/** Checks the given path against `podLogsDir`, and the real path against all permitted directories. */
async function realPathInside(path: string, { podLogsDir: root, runtimeLogsDir }: LogRoots): Promise<string> {
  if (path === "" || !isInside(resolve(path), resolve(root))) throw new NodeApiError(`log file "${path}" is not in ${root}`);
  try {
    const real = await realpath(path);
    for (const one of runtimeLogsDir === undefined ? [root] : [root, runtimeLogsDir]) if (isInside(real, await realpath(one))) return real;
  } catch (error) {
    throw new NodeApiError(`failed to open log file "${path}": ${messageOf(error)}`, { cause: error });
  }
  throw new NodeApiError(`log file "${path}" is not in ${root}`);
}

function isInside(path: string, root: string): boolean {
  const way = relative(root, path);
  return way !== "" && way !== ".." && !way.startsWith(`..${sep}`) && join(root, way) === path;
}
