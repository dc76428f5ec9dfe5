import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface OwnFolder {
  readonly path: string;
  remove(): void;
}

/** Creates a temporary folder with mode 0700, since it may hold keys. It is removed when the process exits, except by SIGKILL. */
export function createOwnFolder(name: string): OwnFolder {
  const path = mkdtempSync(join(tmpdir(), `deltaloop-${name}-`));
  const remove = (): void => {
    process.off("exit", remove);
    rmSync(path, { recursive: true, force: true });
  };
  process.on("exit", remove);
  return { path, remove };
}
