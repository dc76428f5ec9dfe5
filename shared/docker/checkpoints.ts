/**
 * Checkpoints of sandboxes, one file per sandbox, as in dockershim. They hold the data that the network teardown needs after the
 * container is removed.
 *
 * DK1 the file is written before the network is attached, and removed after it is detached. A crash in between leaves a sandbox that is
 *     listed as NotReady and removed like any other.
 *
 * Source: pkg/kubelet/dockershim/docker_checkpoint.go (Kubernetes v1.23).
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Attachment } from "./cni.ts";
import type { SandboxRecord } from "./records.ts";

export interface Checkpoint {
  readonly kept: SandboxRecord;
  /** Absent with host networking, and while the sandbox is not attached to a network. */
  readonly attachment?: Attachment;
}

export interface Checkpoints {
  all(): Promise<ReadonlyMap<string, Checkpoint>>;
  save(id: string, checkpoint: Checkpoint): Promise<void>;
  remove(id: string): Promise<void>;
}

const SUFFIX = ".json";

/** @param directory is created when the first checkpoint is saved */
export function createCheckpoints(directory: string): Checkpoints {
  let read: Promise<Map<string, Checkpoint>> | undefined;
  const known = async (): Promise<Map<string, Checkpoint>> => {
    read ??= readAll(directory);
    read.catch(() => (read = undefined)); // the caller receives the error, and the next caller retries
    return await read;
  };
  const pathOf = (id: string): string => join(directory, `${id}${SUFFIX}`);
  return {
    all: known,
    async save(id, checkpoint) {
      const checkpoints = await known();
      await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFile(`${pathOf(id)}.tmp`, JSON.stringify(checkpoint), { mode: 0o600 });
      await rename(`${pathOf(id)}.tmp`, pathOf(id));
      checkpoints.set(id, checkpoint);
    },
    async remove(id) {
      const checkpoints = await known();
      await rm(pathOf(id), { force: true });
      checkpoints.delete(id);
    },
  };
}

/** Ignores invalid files. Without a checkpoint, the CNI plugin must find the network by the sandbox's id. */
async function readAll(directory: string): Promise<Map<string, Checkpoint>> {
  const names = await readdir(directory).catch(() => []);
  const found = new Map<string, Checkpoint>();
  for (const name of names.filter((one) => one.endsWith(SUFFIX))) {
    const checkpoint = parse(await readFile(join(directory, name), "utf8"));
    if (checkpoint !== undefined) found.set(name.slice(0, -SUFFIX.length), checkpoint);
  }
  return found;
}

function parse(text: string): Checkpoint | undefined {
  try {
    const checkpoint = JSON.parse(text) as Checkpoint; // the file was written by `save`
    return checkpoint.kept?.metadata === undefined ? undefined : checkpoint;
  } catch {
    return undefined;
  }
}
