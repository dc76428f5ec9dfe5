/**
 * The watcher's image: Debian libraries, Node, and a bundle of the command, built without a container engine.
 * IM1 The same checkout produces the same bytes: no times, no host names, a fixed order.
 */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { LEAN_HEAP, WATCHER_ENVIRONMENT } from "@deltaloop/local/processes";
import { VERSION } from "@deltaloop/base";
import { bundleImageCommand } from "../build/bundle.ts";
import { licensesOf } from "../build/licenses.ts";
import { debianPackages } from "./debian.ts";
import type { DebianPins } from "./debian.ts";
import { nodeProgram } from "./node-program.ts";
import { gzippedLayer, ociImage, plainLayer } from "./oci-archive.ts";
import type { Architecture, ImageConfig, Layer, OciImage } from "./oci-archive.ts";
import { COMMAND_PATH, debianLayer, NODE_PATH, nodeLayer, ownLayer, USER_ID } from "./rootfs.ts";

/** Name without a registry, so that no registry is contacted by mistake. An overlay sets the name to push. */
export const IMAGE_NAME = `localhost/deltaloop:${VERSION}`;

export interface WatcherImage {
  readonly image: OciImage;
  readonly layers: { readonly [name in "debian" | "node" | "deltaloop"]: Layer };
}

/** Returns the image's configuration: command, user and labels. @param labels labels of the build: revision, created */
export function imageConfig(architecture: Architecture, labels: Readonly<Record<string, string>> = {}): ImageConfig {
  const created = labels["org.opencontainers.image.created"];
  return {
    architecture,
    entrypoint: [NODE_PATH, ...LEAN_HEAP, COMMAND_PATH],
    command: ["watch"],
    // Makes Node trust the certificate authorities in /etc/ssl, such as a mounted bundle, in addition to its compiled-in list.
    env: ["PATH=/usr/bin", "NODE_USE_SYSTEM_CA=1", ...Object.entries(WATCHER_ENVIRONMENT).map((pair) => pair.join("="))],
    user: `${USER_ID}:${USER_ID}`,
    labels: {
      "org.opencontainers.image.title": "deltaloop",
      "org.opencontainers.image.description": "The watcher of deltaloop: streams a cluster's changes into its queue",
      "org.opencontainers.image.version": VERSION,
      "org.opencontainers.image.licenses": "Apache-2.0",
      ...labels,
    },
    ...(created !== undefined && { created }),
  };
}

/** Returns the labels of a build: the git commit, if known, and the time in SOURCE_DATE_EPOCH. Source: reproducible-builds.org, SOURCE_DATE_EPOCH. */
export async function buildLabels(root: string, environment: NodeJS.ProcessEnv): Promise<Readonly<Record<string, string>>> {
  const described = await promisify(execFile)("git", ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], { cwd: root }).then(
    ({ stdout }) => stdout.trim(),
    () => "",
  );
  const epoch = environment["SOURCE_DATE_EPOCH"] ?? "";
  if (epoch !== "" && !/^\d{1,10}$/.test(epoch)) throw new Error("SOURCE_DATE_EPOCH must be a number of seconds since 1970");
  return {
    ...(described !== "" && { "org.opencontainers.image.revision": described }),
    ...(epoch !== "" && { "org.opencontainers.image.created": new Date(Number(epoch) * 1000).toISOString() }),
  };
}

export interface ImageOptions {
  readonly root: string;
  readonly architecture: Architecture;
  readonly pins: DebianPins;
  readonly labels?: Readonly<Record<string, string>>;
  /** Whether to compress the layers. Default true. */
  readonly compress?: boolean;
}

export async function watcherImage({ root, architecture, pins, labels, compress = true }: ImageOptions): Promise<WatcherImage> {
  const layerOf = compress ? gzippedLayer : plainLayer;
  const [debian, node, deltaloop] = await Promise.all([
    debianPackages(architecture, pins).then(async (packages) => await layerOf(debianLayer(packages))),
    nodeProgram(root, architecture).then(async (program) => await layerOf(nodeLayer(program))),
    commandLayer(root, layerOf),
  ]);
  const image = ociImage(imageConfig(architecture, labels), [debian, node, deltaloop]);
  return { image, layers: { debian, node, deltaloop } };
}

async function commandLayer(root: string, layerOf: typeof gzippedLayer | typeof plainLayer): Promise<Layer> {
  const [{ content, metafile }, license] = await Promise.all([bundleImageCommand(root), readFile(join(root, "LICENSE"))]);
  return await layerOf(ownLayer(content, license, await licensesOf(root, metafile)));
}
