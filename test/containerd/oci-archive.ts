/** Images as one OCI archive: what `ctr images import` takes. Source: OCI image-spec image-layout.md, manifest.md, config.md. */
import { createHash } from "node:crypto";

import { tar } from "./tar.ts";
import type { TarEntry } from "./tar.ts";

export interface ImageContent {
  /** Whole, as in `localhost/server:v1`. */
  readonly name: string;
  readonly entries: readonly TarEntry[];
  readonly entrypoint: readonly string[];
  readonly env?: readonly string[];
  readonly command?: readonly string[];
  /** As `USER` of a Dockerfile. */
  readonly user?: string;
}

export interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

/** What an image is made of, by digest; its manifest is one of them. */
export interface OciImage {
  readonly manifest: Descriptor;
  readonly layer: Descriptor;
  readonly blobs: ReadonlyMap<string, Buffer>;
}

export function ociImage({ entries, entrypoint, env = [], command, user }: Omit<ImageContent, "name">): OciImage {
  const blobs = new Map<string, Buffer>();
  const add = (kind: string, content: Buffer): Descriptor => {
    const digest = `sha256:${createHash("sha256").update(content).digest("hex")}`;
    blobs.set(digest, content);
    return { mediaType: `application/vnd.oci.image.${kind}`, digest, size: content.length };
  };
  const layer = add("layer.v1.tar", tar(entries));
  const config = add(
    "config.v1+json",
    json({
      architecture: ARCHITECTURES[process.arch] ?? process.arch,
      os: "linux",
      config: {
        Entrypoint: entrypoint,
        Env: ["PATH=/bin", ...env],
        WorkingDir: "/",
        ...(command && { Cmd: command }),
        ...(user && { User: user }),
      },
      rootfs: { type: "layers", diff_ids: [layer.digest] },
    }),
  );
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const manifest = add("manifest.v1+json", json({ schemaVersion: 2, mediaType, config, layers: [layer] }));
  return { manifest, layer, blobs };
}

export function ociArchive(images: readonly ImageContent[]): Buffer {
  const made = images.map(({ name, ...content }) => ({ name, ...ociImage(content) }));
  const manifests = made.map(({ name, manifest }) => ({ ...manifest, annotations: { "io.containerd.image.name": name } }));
  const blobs = new Map(made.flatMap((image) => [...image.blobs]));
  return tar([
    { kind: "file", name: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { kind: "file", name: "index.json", content: json({ schemaVersion: 2, manifests }) },
    { kind: "folder", name: "blobs" },
    { kind: "folder", name: "blobs/sha256" },
    ...[...blobs].map(([digest, content]) => ({ kind: "file", name: `blobs/${digest.replace(":", "/")}`, content }) as const),
  ]);
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
