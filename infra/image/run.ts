/**
 * `npm run image`: the watcher's image as dist/image/deltaloop.oci.tar, for amd64 and arm64, and beside it its layers and a Dockerfile.
 *
 *     npm run image -- --architecture arm64    that one alone; may be given twice
 *     npm run image -- --update                pins what apt offers now, to be looked at and committed; makes nothing
 */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { messageOf } from "@deltaloop/kube/objects";
import { currentPins, PinsMovedError, PINS_FILE, readPins, whyNoDebian } from "./debian.ts";
import type { DebianPins } from "./debian.ts";
import { dockerfile } from "./dockerfile.ts";
import { buildLabels, imageConfig, IMAGE_NAME, watcherImage } from "./image.ts";
import type { WatcherImage } from "./image.ts";
import { platformsArchive } from "./oci-archive.ts";
import type { Architecture } from "./oci-archive.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const OUT = join(ROOT, "dist", "image");
const ARCHITECTURES = ["amd64", "arm64"] as const satisfies readonly Architecture[];
const MIB = 1024 ** 2;

try {
  const { values } = parseArgs({ options: { architecture: { type: "string", multiple: true }, update: { type: "boolean" } } });
  const missing = await whyNoDebian();
  if (missing !== undefined) throw new Error(missing);
  if (values.update === true) await update(await readPins());
  else await build(values.architecture?.map(architectureOf) ?? ARCHITECTURES);
} catch (error) {
  process.stderr.write(`image: ${messageOf(error)}\n`);
  if (error instanceof PinsMovedError)
    process.stderr.write(
      "image: on a machine whose apt has that release, npm run image -- --update pins what Debian offers now; look at it and commit it\n",
    );
  process.exitCode = 1;
}

async function build(architectures: readonly Architecture[]): Promise<void> {
  const pins = await readPins();
  const labels = await buildLabels(ROOT, process.env);
  const images: WatcherImage[] = [];
  await rm(OUT, { recursive: true, force: true });
  await mkdir(OUT, { recursive: true });
  for (const architecture of architectures) {
    const made = await watcherImage({ root: ROOT, architecture, pins, labels });
    await writeFile(join(OUT, `debian-${architecture}.tar.gz`), made.layers.debian.blob);
    await writeFile(join(OUT, `node-${architecture}.tar.gz`), made.layers.node.blob);
    await writeFile(join(OUT, "deltaloop.tar.gz"), made.layers.deltaloop.blob);
    say(
      `${architecture}: ${Object.entries(made.layers)
        .map(([name, { blob }]) => `${name} ${(blob.length / MIB).toFixed(1)} MiB`)
        .join(", ")}`,
    );
    images.push(made);
  }
  const { archive, digest } = platformsArchive(
    IMAGE_NAME,
    images.map(({ image }) => image),
    labels,
  );
  await writeFile(join(OUT, "deltaloop.oci.tar"), archive);
  await writeFile(join(OUT, "Dockerfile"), dockerfile(imageConfig(architectures[0] ?? "amd64", labels)));
  say(`dist/image/deltaloop.oci.tar: ${IMAGE_NAME}, ${digest}`);
}

async function update(before: DebianPins): Promise<void> {
  const after = await currentPins(before);
  for (const [name, { version }] of Object.entries(after.packages)) {
    const old = before.packages[name]?.version;
    say(old === version ? `${name} ${version}` : `${name} ${old} → ${version}`);
  }
  await writeFile(PINS_FILE, `${JSON.stringify(after, undefined, 2)}\n`);
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

function architectureOf(text: string): Architecture {
  const found = ARCHITECTURES.find((architecture) => architecture === text);
  if (found === undefined) throw new Error(`--architecture is ${ARCHITECTURES.join(" or ")}`);
  return found;
}
