/** The directory of a volume, on disk or on tmpfs, and the marker file that shows that the volume is complete (NF1, NF3). */
import { readFileSync } from "node:fs";
import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import type { EmptyDirOptions, VolumeFile, VolumeOptions, VolumePlace } from "../ports/node-files.ts";
import { writePayload } from "./atomic-writer.ts";
import { ifExists, ifExistsSync } from "./errors.ts";
import { isMountPoint, mountTmpfs } from "./mounts.ts";
import type { WithPathLock } from "./path-lock.ts";
import { giveToGroup } from "./ownership.ts";
import { PRIVATE_MODE } from "./paths.ts";
import type { PodPaths } from "./paths.ts";

/** Mode of an emptyDir. A container may run as any user and must be able to write to the directory. */
const VOLUME_MODE = 0o777;

/**
 * Content of the marker file. Containers use the volume as soon as the marker exists, so a `plain` volume is not converted to tmpfs even
 * if mounts work later. A tmpfs is lost only in a reboot, together with all containers, and is then mounted again.
 */
type Made = "plain" | "tmpfs";

interface Medium {
  readonly tmpfs: boolean;
  /** Whether the content must never be written to disk. */
  readonly isSecret: boolean;
  readonly sizeBytes?: number;
}

export interface VolumeDirectories {
  writeVolume(place: VolumePlace, payload: readonly VolumeFile[], options?: VolumeOptions): Promise<string>;
  volumePath(place: VolumePlace): Promise<string | undefined>;
  makeEmptyDir(place: VolumePlace, options?: EmptyDirOptions): Promise<string>;
}

/**
 * @param onRefused called if a tmpfs is needed but the machine does not allow mounts
 *
 * Source: pkg/volume/emptydir/empty_dir.go SetUpAt, which upstream's other plugins use; pkg/volume/util SetReady.
 * Differs from upstream: the marker file of a volume with files is that of its own plugin, not that of the wrapped emptyDir.
 */
export function volumeDirectories(paths: PodPaths, withPathLock: WithPathLock, onRefused: () => void): VolumeDirectories {
  return {
    async writeVolume(place, payload, { tmpfs = false, fsGroup } = {}) {
      const share = async (directory: string): Promise<void> => {
        if (fsGroup !== undefined) await giveToGroup(directory, fsGroup, "read");
      };
      return await withPathLock(paths.volume(place), async () => {
        const directory = await ensureDirectory(place, { tmpfs, isSecret: tmpfs }, share);
        await writePayload(directory, payload, share);
        return directory;
      });
    },

    volumePath: async (place) => ((await isComplete(paths.volume(place), paths.ready(place))) ? paths.volume(place) : undefined),

    makeEmptyDir: (place, { medium, sizeLimitBytes, fsGroup } = {}) =>
      withPathLock(paths.volume(place), () =>
        ensureDirectory(
          place,
          { tmpfs: medium === "Memory", isSecret: false, ...(sizeLimitBytes !== undefined && { sizeBytes: sizeLimitBytes }) },
          async (directory) => {
            if (fsGroup !== undefined) await giveToGroup(directory, fsGroup, "readWrite");
          },
        ),
      ),
  };

  async function ensureDirectory(place: VolumePlace, medium: Medium, share: (directory: string) => Promise<void>): Promise<string> {
    const directory = paths.volume(place);
    const mark = paths.ready(place);
    const isPlain = ifExistsSync(() => readFileSync(mark, "utf8")) === "plain";
    if (medium.isSecret && isPlain) throw refusal(place);
    if (await isComplete(directory, mark)) return directory;
    const made = await makeDirectory(place, medium);
    await share(directory);
    await mkdir(dirname(mark), { recursive: true, mode: PRIVATE_MODE });
    await writeFile(mark, made);
    return directory;
  }

  async function makeDirectory(place: VolumePlace, { tmpfs, isSecret, sizeBytes }: Medium): Promise<Made> {
    const directory = paths.volume(place);
    await mkdir(dirname(directory), { recursive: true, mode: PRIVATE_MODE });
    await mkdir(directory, { recursive: true });
    if (await isMountPoint(directory)) return "tmpfs";
    await chmod(directory, VOLUME_MODE);
    if (!tmpfs) return "plain";
    if ((await mountTmpfs(directory, sizeBytes)) === "mounted") return "tmpfs";
    if (isSecret) throw refusal(place);
    onRefused();
    return "plain";
  }
}

/**
 * Returns the error for a volume that needs a tmpfs. Also used if an earlier agent created a plain directory: containers keep that
 * directory, but it is not updated.
 */
function refusal({ name }: VolumePlace): NodeFilesError {
  return new NodeFilesError(
    `cannot mount a tmpfs for volume "${name}", and its secrets are never written to disk: run the node agent as root with CAP_SYS_ADMIN and with "mount" in its PATH`,
  );
}

/** Reads the marker first, because another program's mount in an emptyDir may block. */
async function isComplete(directory: string, mark: string): Promise<boolean> {
  const made = ifExistsSync(() => readFileSync(mark, "utf8"));
  if (made === "tmpfs") return await isMountPoint(directory);
  return made === "plain" && (await ifExists(stat(directory))) !== undefined;
}
