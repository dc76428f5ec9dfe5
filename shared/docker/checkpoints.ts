/**
 * What must be known of a sandbox's network when its container is gone, one file each, as dockershim kept them.
 *
 * DK1 the file is there before the network is asked for, and goes after the network has gone: a crash between leaves a sandbox that
 *     is listed, not ready, and taken away as any other.
 *
 * Source: pkg/kubelet/dockershim/docker_checkpoint.go (Kubernetes v1.23).
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import type { Attachment } from "./cni.ts";
import type { KeptSandbox } from "./kept.ts";

export interface Checkpoint {
  readonly kept: KeptSandbox;
  /** Absent: on the node's network, or it has none yet, or no longer. */
  readonly attachment?: Attachment;
}

export interface Checkpoints {
  all(): Promise<ReadonlyMap<string, Checkpoint>>;
  save(id: string, checkpoint: Checkpoint): Promise<void>;
  remove(id: string): Promise<void>;
}

const SUFFIX = ".json";

/** @param directory made when it is needed */
export function createCheckpoints(directory: string): Checkpoints {
  let read: Promise<Map<string, Checkpoint>> | undefined;
  const known = async (): Promise<Map<string, Checkpoint>> => {
    read ??= readAll(directory);
    read.catch(() => (read = undefined)); // the caller gets the error; the next caller retries
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

/** A file that cannot be read as ours says nothing: the network of that sandbox is its plugin's to find. */
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
    const checkpoint = JSON.parse(text) as Checkpoint; // written by `save`
    return checkpoint.kept?.metadata === undefined ? undefined : checkpoint;
  } catch {
    return undefined;
  }
}
