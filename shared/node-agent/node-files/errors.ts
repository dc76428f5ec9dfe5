/** File system failures, worded for the operator (NF5). */
import { NodeFilesError } from "../ports/node-files.ts";

const ADVICE: Readonly<Record<string, string>> = {
  EACCES: "run the node agent as root, or let its user write there",
  EPERM: "run the node agent as root, or let its user change it",
  ENOSPC: "free space on that file system",
  EDQUOT: "free space on that file system, or raise its quota",
  EROFS: "the file system is read-only: move the agent's directories (--root-dir, --pod-logs-dir), or remount it",
  ENOTDIR: "a file stands where a directory must be: move it away",
  EISDIR: "a directory stands where a file must be: move it away",
  EEXIST: "something else stands there: move it away",
  ELOOP: "a symbolic link stands where none may be: move it away",
  ENAMETOOLONG: "shorten the name",
  EBUSY: "something still uses it",
  ENOTEMPTY: "something still writes there",
  EMFILE: "raise the limit of open files",
};

/** The code of a system error, e.g. `ENOENT`; undefined for everything else. */
export function errorCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : undefined;
}

/** What `reading` answers, or undefined when the file or directory is not there. */
export async function ifThere<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** As `ifThere`, of what needs no thread: the kernel's own files, and a few small ones that this agent wrote. */
export function ifThereNow<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (errorCode(error) === "ENOENT" || errorCode(error) === "ENOTDIR") return undefined;
    throw error;
  }
}

/** Runs `work`; a system error becomes a NodeFilesError that names the path and says what to do. */
export async function explained<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const code = errorCode(error);
    if (error instanceof NodeFilesError || !(error instanceof Error) || code === undefined) throw error;
    throw new NodeFilesError(`${error.message}; ${ADVICE[code] ?? "look at what stands there"}`, { cause: error });
  }
}
