/** Reads the end of a container's log, for its termination message (node-agent §6.1). */
import { constants } from "node:fs";
import { open } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import { ifExists } from "./errors.ts";

const BLOCK_BYTES = 64 * 1024;
/** Maximum number of bytes to read. Runtimes split lines at 16 KiB, so this is more than the 80 lines that callers request. */
const READ_BYTES_MAX = 4 * 1024 * 1024;
const NEWLINE = 0x0a;
/** Matches `2026-03-01T10:00:00.5Z stdout F text`. */
const CRI_LINE = /^\S+ (?:stdout|stderr) ([^\s:]+)\S* (.*)$/su;

/**
 * Returns the last lines, up to a byte limit. A line that the runtime has split (tag `P`) continues in the next entry.
 *
 * Source: pkg/kubelet/kuberuntime readLastStringFromContainerLogs; cri-client pkg/logs/tail.go findTailLineStartIndex.
 */
export async function tailLog(
  path: string,
  { linesMax, bytesMax }: { readonly linesMax: number; readonly bytesMax: number },
): Promise<string> {
  const file = await ifExists(open(path, constants.O_RDONLY | constants.O_NONBLOCK));
  if (file === undefined) return "";
  try {
    const lines = (await lastBytes(file, linesMax)).toString("utf8").split("\n");
    // The text after the last newline is a line that is still being written, so it does not count as a line.
    const text = Buffer.from(
      lines
        .slice(-linesMax - 1)
        .map(lineText)
        .join(""),
    );
    return text.subarray(Math.max(0, text.length - bytesMax)).toString("utf8");
  } finally {
    await file.close();
  }
}

/** Reads as many blocks from the end as the lines need; the result may begin in the middle of a line. */
async function lastBytes(file: FileHandle, linesMax: number): Promise<Buffer> {
  const { size } = await file.stat();
  const blocks: Buffer[] = [];
  let newlines = 0;
  let start = size;
  while (start > 0 && newlines <= linesMax && size - start < READ_BYTES_MAX) {
    const length = Math.min(BLOCK_BYTES, start);
    start -= length;
    const { buffer, bytesRead } = await file.read(Buffer.alloc(length), 0, length, start);
    blocks.unshift(buffer.subarray(0, bytesRead));
    newlines += buffer.subarray(0, bytesRead).filter((byte) => byte === NEWLINE).length;
  }
  return Buffer.concat(blocks);
}

/** Returns an empty string for a line that is in neither CRI's log format nor the format of Docker's json-file driver. */
function lineText(line: string): string {
  if (line.startsWith("{")) return jsonText(line);
  const [, tag, text = ""] = CRI_LINE.exec(line) ?? [];
  if (tag === undefined) return "";
  return tag === "P" ? text : `${text}\n`;
}

/** The `log` field includes the newline. */
function jsonText(line: string): string {
  try {
    const { log } = JSON.parse(line) as { readonly log?: unknown };
    return typeof log === "string" ? log : "";
  } catch {
    return ""; // the first line of the block may be incomplete
  }
}
