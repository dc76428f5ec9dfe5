/**
 * Lines of a container's log as `kubectl logs` shows them: CRI's, `<RFC3339Nano> <stdout|stderr> <F|P> <text>` (node-agent §7.8), and
 * those of Docker's json-file driver, `{"log":"text\n","stream":"stdout","time":"<RFC3339Nano>"}`.
 *
 * Source: cri-client pkg/logs/logs.go parseCRILog, parseDockerJSONLog, logWriter.
 */
import type { ContainerLogRequest } from "../kubelet/logs/container-log-request.ts";

interface LogLine {
  /** As it was written. */
  readonly time: string;
  /** With the newline at its end, unless this is a part of a longer line, or the file ends in it. */
  readonly text: Buffer;
}

/** What becomes of one line. `text`: what is shown of it. `full`: no byte more may be shown. */
export type ShownLine =
  | { readonly kind: "shown"; readonly text: Buffer; readonly full: boolean }
  | { readonly kind: "hidden" }
  | { readonly kind: "unreadable" };

/** Looks at raw lines in their order, each with its newline. */
export type ShowLine = (line: Buffer) => ShownLine;

const SPACE = 0x20;
const BRACE = 0x7b;
const NEWLINE = 0x0a;
/** `<seconds>[.<fraction>]<zone>`. */
const TIME = /^(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.(\d+))?(Z|[+-]\d{2}:\d{2})$/u;
const NANOSECOND_DIGITS = 9;

/**
 * Parts (P) lose their newlines, so that with what follows they are one line again; only the first of them gets its time in front.
 * Bytes are counted as shown, times included, and the line that passes the limit is cut.
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

/** `undefined`: in neither format. Tags other than the first, and first ones newer than us, are let through. */
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

/** Docker's text has its newline in it; without one it is a part of a line that goes on. */
function parseJsonLine(raw: Buffer): LogLine | undefined {
  try {
    const { log, stream, time } = JSON.parse(raw.toString("utf8")) as Partial<Record<"log" | "stream" | "time", unknown>>;
    const isLine = typeof log === "string" && typeof time === "string" && TIME.test(time) && (stream === "stdout" || stream === "stderr");
    return isLine ? { time, text: Buffer.from(log, "utf8") } : undefined;
  } catch {
    return undefined;
  }
}

/** Nanoseconds with all their digits, so that columns line up. */
function fixedWidth(time: string): string {
  const [, seconds, fraction = "", zone = ""] = TIME.exec(time) ?? [];
  const digits = fraction.slice(0, NANOSECOND_DIGITS).padEnd(NANOSECOND_DIGITS, "0");
  return `${seconds}.${digits}${zone === "+00:00" || zone === "-00:00" ? "Z" : zone}`;
}
