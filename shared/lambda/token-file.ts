import { readFile, stat } from "node:fs/promises";

/**
 * The token in a file that somebody else keeps fresh (a projected service-account token changes every hour). It is read again
 * when the file's modification time moves.
 */
export function tokenFrom(path: string): () => Promise<string> {
  let token = "";
  let readMs = Number.NaN;
  return async () => {
    const { mtimeMs } = await stat(path);
    if (mtimeMs !== readMs) {
      token = (await readFile(path, "utf8")).trim();
      readMs = mtimeMs;
    }
    return token;
  };
}
