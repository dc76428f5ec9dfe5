/** The directory of a volume, on disk or on tmpfs, and the mark that says it is complete (NF1, NF3). */
import { readFileSync } from "node:fs";
import { chmod, mkdir, stat, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import { NodeFilesError } from "../ports/node-files.ts";
import type { EmptyDirOptions, VolumeFile, VolumeOptions, VolumePlace } from "../ports/node-files.ts";
import { writePayload } from "./atomic-writer.ts";
import { ifThere, ifThereNow } from "./errors.ts";
import { isMountPoint, mountTmpfs } from "./mounts.ts";
import type { AtPlace } from "./one-at-a-time.ts";
import { giveToGroup } from "./ownership.ts";
import { PRIVATE_MODE } from "./paths.ts";
import type { PodPaths } from "./paths.ts";

/** Whatever user a container runs as may write to its emptyDir. */
const VOLUME_MODE = 0o777;

/**
 * What the mark holds. Containers use a volume from then on, so nothing is mounted over it any more: `plain` stays plain even if
 * mounts work later. A tmpfs that is gone went with all that used it (the machine was restarted), and is mounted again.
 */
type Made = "plain" | "tmpfs";

interface Medium {
  readonly tmpfs: boolean;
  /** A disk will not do. */
  readonly isSecret: boolean;
  readonly sizeBytes?: number;
}

export interface VolumeDirectories {
  writeVolume(place: VolumePlace, payload: readonly VolumeFile[], options?: VolumeOptions): Promise<string>;
  volumePath(place: VolumePlace): Promise<string | undefined>;
  makeEmptyDir(place: VolumePlace, options?: EmptyDirOptions): Promise<string>;
}

/**
 * @param onRefused called when a tmpfs is needed and the machine allows no mounts
 *
 * Source: pkg/volume/emptydir/empty_dir.go SetUpAt, on which upstream's other plugins stand; pkg/volume/util SetReady.
 * Differs from upstream: the mark of a volume with files is beside those of its own plugin, not of the emptyDir under it.
 */
export function volumeDirectories(paths: PodPaths, atPlace: AtPlace, onRefused: () => void): VolumeDirectories {
  return {
    async writeVolume(place, payload, { tmpfs = false, fsGroup } = {}) {
      const share = async (directory: string): Promise<void> => {
        if (fsGroup !== undefined) await giveToGroup(directory, fsGroup, "read");
      };
      return await atPlace(paths.volume(place), async () => {
        const directory = await ensureDirectory(place, { tmpfs, isSecret: tmpfs }, share);
        await writePayload(directory, payload, share);
        return directory;
      });
    },

    volumePath: async (place) => ((await isComplete(paths.volume(place), paths.ready(place))) ? paths.volume(place) : undefined),

    makeEmptyDir: (place, { medium, sizeLimitBytes, fsGroup } = {}) =>
      atPlace(paths.volume(place), () =>
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
    const isPlain = ifThereNow(() => readFileSync(mark, "utf8")) === "plain";
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

/** Also of one that an agent of other days left on the disk: what a pod has mounted stays, and nothing new is written to it. */
function refusal({ name }: VolumePlace): NodeFilesError {
  return new NodeFilesError(
    `volume "${name}" holds secrets, and no tmpfs can be mounted for it: they are not written to the disk; run the node agent as root with CAP_SYS_ADMIN, and "mount" in its PATH`,
  );
}

/** Something foreign may be mounted at an emptyDir, and may not answer; the mark is ours. */
async function isComplete(directory: string, mark: string): Promise<boolean> {
  const made = ifThereNow(() => readFileSync(mark, "utf8"));
  if (made === "tmpfs") return await isMountPoint(directory);
  return made === "plain" && (await ifThere(stat(directory))) !== undefined;
}
