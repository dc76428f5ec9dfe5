import { readFile, stat } from "node:fs/promises";

/**
 * The token in a file that another process refreshes (a projected service-account token changes every hour). It is read again when the
 * file's modification time changes, and after the server rejected it.
 */
export function tokenFrom(path: string): (refused?: string) => Promise<string> {
  let token = "";
  let readMs = Number.NaN;
  return async (refused) => {
    const { mtimeMs } = await stat(path);
    if (mtimeMs !== readMs || token === refused) {
      token = (await readFile(path, "utf8")).trim();
      readMs = mtimeMs;
    }
    return token;
  };
}
