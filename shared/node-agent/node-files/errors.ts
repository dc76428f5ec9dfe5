/** File system errors, with advice for the operator (NF5). */
import { NodeFilesError } from "../ports/node-files.ts";

const ADVICE: Readonly<Record<string, string>> = {
  EACCES: "run the node agent as root, or let its user write there",
  EPERM: "run the node agent as root, or let its user change it",
  ENOSPC: "free space on that file system",
  EDQUOT: "free space on that file system, or raise its quota",
  EROFS: "the file system is read-only: move the agent's directories (--root-dir, --pod-logs-dir), or remount it",
  ENOTDIR: "a file exists where a directory is needed: move it away",
  EISDIR: "a directory exists where a file is needed: move it away",
  EEXIST: "another file exists at this path: move it away",
  ELOOP: "a symbolic link exists at this path: move it away",
  ENAMETOOLONG: "shorten the name",
  EBUSY: "a process still uses it",
  ENOTEMPTY: "a process still writes to it",
  EMFILE: "raise the limit of open files",
};

/** Returns the code of a system error, such as `ENOENT`. */
export function errorCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** Returns undefined if the file or directory does not exist. */
export async function ifExists<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Same as `ifExists`, for reads that cannot block: files of the kernel, and small files of this agent. */
export function ifExistsSync<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Runs `work`. Converts a system error to a NodeFilesError that contains advice. */
export async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof NodeFilesError || !(error instanceof Error) || code === undefined) throw error;
    throw new NodeFilesError(`${error.message}; ${ADVICE[code] ?? "inspect this path"}`, { cause: error });
  }
}
