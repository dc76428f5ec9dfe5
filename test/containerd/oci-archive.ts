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

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };

export function ociArchive(images: readonly ImageContent[]): Buffer {
  const blobs = new Map<string, Buffer>();
  const add = (kind: string, content: Buffer): Descriptor => {
    const hash = createHash("sha256").update(content).digest("hex");
    blobs.set(hash, content);
    return { mediaType: `application/vnd.oci.image.${kind}`, digest: `sha256:${hash}`, size: content.length };
  };
  const manifests = images.map(({ name, entries, entrypoint, env = [], command, user }) => {
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
    const manifest = add("manifest.v1+json", json({ schemaVersion: 2, config, layers: [layer] }));
    return { ...manifest, annotations: { "io.containerd.image.name": name } };
  });
  return tar([
    { kind: "file", name: "oci-layout", content: json({ imageLayoutVersion: "1.0.0" }) },
    { kind: "file", name: "index.json", content: json({ schemaVersion: 2, manifests }) },
    { kind: "folder", name: "blobs" },
    { kind: "folder", name: "blobs/sha256" },
    ...[...blobs].map(([hash, content]) => ({ kind: "file", name: `blobs/sha256/${hash}`, content }) as const),
  ]);
}

function json(value: object): Buffer {
  return Buffer.from(JSON.stringify(value));
}
