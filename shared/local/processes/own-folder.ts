import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface OwnFolder {
  readonly path: string;
  remove(): void;
}

/**
 * A folder of this process alone among the temporary ones, which nobody else may read. It goes with the process, however that is ended but
 * by SIGKILL: what stands in it may be keys.
 */
export function createOwnFolder(name: string): OwnFolder {
  const path = mkdtempSync(join(tmpdir(), `deltaloop-${name}-`));
  const remove = (): void => {
    process.off("exit", remove);
    rmSync(path, { recursive: true, force: true });
  };
  process.on("exit", remove);
  return { path, remove };
}
