/** The image store of the memory runtime. */
import { createHash } from "node:crypto";

import type { Clock } from "@deltaloop/base";
import { CriError } from "../../ports/cri-error.ts";
import type { Image, ImageSpec } from "../../ports/cri-types.ts";
import type { Cri, PullOptions } from "../../ports/cri.ts";
import type { ImageScript, RemoteImage } from "./cri-script.ts";

export interface CriImages extends Pick<Cri, "imageStatus" | "pullImage" | "removeImage" | "listImages" | "imageFsInfo"> {
  /** Finds an image by name or id. */
  find(image: string): { readonly name: string; readonly id: string; readonly script: ImageScript } | undefined;
}

const DEFAULT_SIZE_BYTES = 1_000_000;
/** Period in which a runtime measures its disk usage. Source: containerd pkg/cri/config StatsCollectPeriod. */
const COLLECT_MS = 10_000;

export function createCriImages(
  clock: Clock,
  present: Readonly<Record<string, ImageScript>>,
  remote: (image: string) => RemoteImage | undefined,
): CriImages {
  const store = new Map(Object.entries(present));

  const find: CriImages["find"] = (image) => {
    const name = store.has(image) ? image : [...store.keys()].find((each) => idOf(each) === image);
    const script = name === undefined ? undefined : store.get(name);
    return name === undefined || script === undefined ? undefined : { name, id: idOf(name), script };
  };
  const describe = (name: string, { sizeBytes = DEFAULT_SIZE_BYTES, uid }: ImageScript): Image => ({
    id: idOf(name),
    repoTags: [name],
    repoDigests: [],
    sizeBytes,
    ...(uid !== undefined && { uid }),
    username: "",
    pinned: false,
  });

  return {
    find,
    async imageStatus({ image }) {
      const found = find(image);
      return found && describe(found.name, found.script);
    },
    async pullImage({ image }: ImageSpec, { signal }: PullOptions = {}) {
      const script = remote(image);
      const { pullMs = 0, pullError } = script ?? { pullError: `failed to resolve reference "${image}": connection refused` };
      try {
        if (pullMs > 0) await clock.after(pullMs, signal);
        signal?.throwIfAborted();
      } catch (cause) {
        throw new CriError("Canceled", "aborted", { cause });
      }
      if (script === undefined || pullError !== undefined)
        throw new CriError("Unknown", `failed to pull and unpack image "${image}": ${pullError}`);
      store.set(image, script);
      return idOf(image);
    },
    async removeImage({ image }) {
      const found = find(image);
      if (found) store.delete(found.name);
    },
    listImages: async () => [...store].map(([name, script]) => describe(name, script)),
    async imageFsInfo() {
      const usedBytes = [...store.values()].reduce((sum, { sizeBytes = DEFAULT_SIZE_BYTES }) => sum + sizeBytes, 0);
      return [{ timestampMs: Math.floor(clock.now() / COLLECT_MS) * COLLECT_MS, mountpoint: "/memory", usedBytes, inodesUsed: store.size }];
    },
  };
}

function idOf(name: string): string {
  return `sha256:${createHash("sha256").update(name).digest("hex")}`;
}
