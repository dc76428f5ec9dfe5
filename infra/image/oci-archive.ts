/**
 * Images as one deterministic OCI archive, for `ctr images import`, `docker load`, `podman load` and `skopeo copy oci-archive:`.
 * Source: OCI image-spec image-layout.md, image-index.md, manifest.md, config.md, annotations.md.
 */
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { gzip } from "node:zlib";

import { tar } from "./tar.ts";
import type { TarEntry } from "./tar.ts";

/** Architecture names of OCI, Go and Debian. */
export type Architecture = "amd64" | "arm64";

export interface ImageConfig {
  readonly entrypoint: readonly string[];
  /** Default: the machine's. */
  readonly architecture?: Architecture;
  readonly env?: readonly string[];
  readonly command?: readonly string[];
  /** The user, as in `USER` of a Dockerfile. */
  readonly user?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** RFC 3339. Default: none. */
  readonly created?: string;
}

export interface ImageContent extends ImageConfig {
  /** Full name, such as `localhost/server:v1`. */
  readonly name: string;
  readonly entries: readonly TarEntry[];
}

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

/** A layer as stored; `diffId` is the digest of the uncompressed tar. */
export interface Layer {
  readonly descriptor: Descriptor;
  readonly diffId: string;
  readonly blob: Buffer;
}

/** An image and its blobs by digest, including manifest and configuration. */
export interface OciImage {
  readonly architecture: string;
  readonly manifest: Descriptor;
  readonly config: Descriptor;
  readonly layers: readonly Descriptor[];
  readonly blobs: ReadonlyMap<string, Buffer>;
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = { x64: "amd64", arm64: "arm64" };
export const HOST_ARCHITECTURE = ARCHITECTURES[process.arch];
const LAYER = "layer.v1.tar";
/** Compression level, which takes a third of the time of level 9. */
const GZIP_LEVEL = 6;

export function plainLayer(entries: readonly TarEntry[]): Layer {
  const blob = tar(entries);
  const descriptor = describe(LAYER, blob);
  return { descriptor, diffId: descriptor.digest, blob };
}

export async function gzippedLayer(entries: readonly TarEntry[]): Promise<Layer> {
  const content = tar(entries);
  // The result is deterministic, since Node writes no time into the gzip header.
  const blob = await promisify(gzip)(content, { level: GZIP_LEVEL });
  return { descriptor: describe(`${LAYER}+gzip`, blob), diffId: digestOf(content), blob };
}

export function ociImage(
  { architecture, entrypoint, env = [], command, user, labels, created }: ImageConfig,
  layers: readonly Layer[],
): OciImage {
  const blobs = new Map(layers.map(({ descriptor, blob }) => [descriptor.digest, blob]));
  const add = (kind: string, content: Buffer): Descriptor => {
    const descriptor = describe(kind, content);
    blobs.set(descriptor.digest, content);
    return descriptor;
  };
  const machine = architecture ?? HOST_ARCHITECTURE ?? process.arch;
  const config = add(
    "config.v1+json",
    json({
      ...(created !== undefined && { created }),
      architecture: machine,
      os: "linux",
      config: {
        Entrypoint: entrypoint,
        Env: env.some((variable) => variable.startsWith("PATH=")) ? env : ["PATH=/bin", ...env],
        WorkingDir: "/",
        ...(command && { Cmd: command }),
        ...(user && { User: user }),
        ...(labels && { Labels: labels }),
      },
      rootfs: { type: "layers", diff_ids: layers.map(({ diffId }) => diffId) },
    }),
  );
  const descriptors = layers.map(({ descriptor }) => descriptor);
  const manifest = add(
    "manifest.v1+json",
    json({
      schemaVersion: 2,
      mediaType: mediaType("manifest.v1+json"),
      config,
      layers: descriptors,
      ...(labels && { annotations: labels }),
    }),
  );
  return { architecture: machine, manifest, config, layers: descriptors, blobs };
}

/** Returns an archive of several images. It also has the `manifest.json` that Docker Engines without OCI layout support read. */
export function ociArchive(images: readonly ImageContent[]): Buffer {
  const made = images.map(({ name, entries, ...config }) => ({ name, ...ociImage(config, [plainLayer(entries)]) }));
  return archiveOf(
    made.map(({ name, manifest }) => ({ ...manifest, annotations: named(name) })),
    new Map(made.flatMap(({ blobs }) => [...blobs])),
    made.map(({ name, config, layers }) => ({
      Config: pathOf(config.digest),
      RepoTags: [name],
      Layers: layers.map(({ digest }) => pathOf(digest)),
    })),
  );
}

/** Returns an archive of one multi-platform image, of which the runtime loads the matching platform. */
export function platformsArchive(
  name: string,
  images: readonly OciImage[],
  annotations: Readonly<Record<string, string>>,
): { readonly archive: Buffer; readonly digest: string } {
  const kind = "index.v1+json";
  const manifests = images.map(({ manifest, architecture }) => ({ ...manifest, platform: { architecture, os: "linux" } }));
  const content = json({ schemaVersion: 2, mediaType: mediaType(kind), manifests, annotations });
  const index = describe(kind, content);
  const blobs = new Map([...images.flatMap((image) => [...image.blobs]), [index.digest, content] as const]);
  return { archive: archiveOf([{ ...index, annotations: named(name) }], blobs), digest: index.digest };
}

/** Annotations of the image name: containerd and Docker read the first, podman and skopeo the second. */
function named(name: string): Readonly<Record<string, string>> {
  return { "io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.slice(name.lastIndexOf(":") + 1) };
}

function archiveOf(manifests: readonly object[], blobs: ReadonlyMap<string, Buffer>, saved: readonly object[] = []): Buffer {
  return tar([
    { kind: "file", name: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { kind: "file", name: "index.json", content: json({ schemaVersion: 2, manifests }) },
    ...(saved.length > 0 ? [{ kind: "file", name: "manifest.json", content: json(saved) } as const] : []),
    { kind: "folder", name: "blobs" },
    { kind: "folder", name: "blobs/sha256" },
    ...[...blobs].map(([digest, content]) => ({ kind: "file", name: pathOf(digest), content }) as const),
  ]);
}

function pathOf(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function describe(kind: string, content: Buffer): Descriptor {
  return { mediaType: mediaType(kind), digest: digestOf(content), size: content.length };
}

function mediaType(kind: string): string {
  return `application/vnd.oci.image.${kind}`;
}

function digestOf(content: Uint8Array): string {
  return `sha256:${createHash("sha256").update(content).digest("hex")}`;
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
