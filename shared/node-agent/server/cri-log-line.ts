/**
 * Converts container log lines into the output of `kubectl logs`. The input is in CRI's format, `<RFC3339Nano> <stdout|stderr> <F|P>
 * <text>` (node-agent §7.8), or in the format of Docker's json-file driver, `{"log":"text\n","stream":"stdout","time":"<RFC3339Nano>"}`.
 *
 * Source: cri-client pkg/logs/logs.go parseCRILog, parseDockerJSONLog, logWriter.
 */
import type { ContainerLogRequest } from "../kubelet/logs/container-log-request.ts";

interface LogLine {
  /** The time, as written in the log. */
  readonly time: string;
  /** The text with its newline. There is no newline in a part of a longer line and at the end of the file. */
  readonly text: Buffer;
}

/** The output for one line. `full` means that the byte limit has been reached. */
export type ShownLine =
  | { readonly kind: "shown"; readonly text: Buffer; readonly full: boolean }
  | { readonly kind: "hidden" }
  | { readonly kind: "unreadable" };

/** Must be called with raw lines in order, with newlines. */
export type ShowLine = (line: Buffer) => ShownLine;

const SPACE = 0x20;
const BRACE = 0x7b;
const NEWLINE = 0x0a;
/** `<seconds>[.<fraction>]<zone>`. */
const TIME = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})$/u;
const NANOSECOND_DIGITS = 9;

/**
 * Joins partial lines (P) by removing their newlines; only the first part gets a timestamp. The byte limit includes timestamps; the last
 * line is truncated to it.
 */
export function createShowLine(request: Pick<ContainerLogRequest, "timestamps" | "sinceMs" | "limitBytes">): ShowLine {
  const { timestamps, sinceMs, limitBytes = Number.POSITIVE_INFINITY } = request;
  let bytesLeft = limitBytes;
  let atLineStart = true;

  return (raw) => {
    const line = parseLogLine(raw);
    if (line === undefined) return { kind: "unreadable" };
    const prefix = timestamps && atLineStart ? `${fixedWidth(line.time)} ` : "";
    atLineStart = line.text.length === 0 || line.text.at(-1) === NEWLINE;
    if (sinceMs !== undefined && Date.parse(line.time) < sinceMs) return { kind: "hidden" };
    const whole = prefix === "" ? line.text : Buffer.concat([Buffer.from(prefix), line.text]);
    const text = whole.length > bytesLeft ? whole.subarray(0, bytesLeft) : whole;
    bytesLeft -= text.length;
    return { kind: "shown", text, full: bytesLeft <= 0 };
  };
}

/** Returns `undefined` for a line that is in neither format. Accepts unknown tags, and ignores all tags except the first. */
function parseLogLine(raw: Buffer): LogLine | undefined {
  if (raw[0] === BRACE) return parseJsonLine(raw);
  const afterTime = raw.indexOf(SPACE);
  const afterStream = raw.indexOf(SPACE, afterTime + 1);
  const afterTags = raw.indexOf(SPACE, afterStream + 1);
  if (afterTime < 0 || afterStream < 0 || afterTags < 0) return undefined;
  const time = raw.toString("latin1", 0, afterTime);
  const stream = raw.toString("latin1", afterTime + 1, afterStream);
  if (!TIME.test(time) || (stream !== "stdout" && stream !== "stderr")) return undefined;
  const isPart = raw.toString("latin1", afterStream + 1, afterTags).split(":")[0] === "P";
  const end = isPart && raw.at(-1) === NEWLINE ? raw.length - 1 : raw.length;
  return { time, text: raw.subarray(afterTags + 1, end) };
}

/** Docker's `log` field includes the newline. Without a newline, the field is a part of a longer line. */
function parseJsonLine(raw: Buffer): LogLine | undefined {
  try {
    const { log, stream, time } = JSON.parse(raw.toString("utf8")) as Partial<Record<"log" | "stream" | "time", unknown>>;
    const isLine = typeof log === "string" && typeof time === "string" && TIME.test(time) && (stream === "stdout" || stream === "stderr");
    return isLine ? { time, text: Buffer.from(log, "utf8") } : undefined;
  } catch {
    return undefined;
  }
}

/** Pads the fraction to nanoseconds, so that the timestamps have equal width. */
function fixedWidth(time: string): string {
  const [, seconds, fraction = "", zone = ""] = TIME.exec(time) ?? [];
  const digits = fraction.slice(0, NANOSECOND_DIGITS).padEnd(NANOSECOND_DIGITS, "0");
  return `${seconds}.${digits}${zone === "+00:00" || zone === "-00:00" ? "Z" : zone}`;
}
