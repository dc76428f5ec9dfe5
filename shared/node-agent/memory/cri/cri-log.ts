/** Container logs of the memory runtime: lines in CRI's format, by path. */
import type { Clock } from "@deltaloop/base";

/** Called with complete lines, including the newline. The default keeps them in memory. */
export type WriteLog = (path: string, line: string) => void;

/** Formats one line of a container's log (CR9). Source: containerd pkg/cri/io logger.go; cri-client pkg/logs/logs.go. */
function criLogLine(atMs: number, stream: "stdout" | "stderr", text: string): string {
  const whole = new Date(Math.floor(atMs)).toISOString();
  return `${whole.slice(0, -1)}000000Z ${stream} F ${text}\n`;
}

/** Log lines by path, instead of files. */
export interface MemoryLogs {
  readonly write: WriteLog;
  read(path: string): string;
}

export function createMemoryLogs(): MemoryLogs {
  const files = new Map<string, string>();
  return {
    write: (path, line) => void files.set(path, (files.get(path) ?? "") + line),
    read: (path) => files.get(path) ?? "",
  };
}

export interface LogTarget {
  readonly path: string;
  readonly clock: Clock;
  readonly write: WriteLog;
}

export function writeLines(
  { path, clock, write }: LogTarget,
  lines: readonly { readonly stream: "stdout" | "stderr"; readonly text: string }[],
): void {
  if (path === "") return; // without logDirectory or logPath, there is no log
  for (const { stream, text } of lines) write(path, criLogLine(clock.now(), stream, text));
}
