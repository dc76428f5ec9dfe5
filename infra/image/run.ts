/** `npm run image`: builds the image of the watcher, its layers and a Dockerfile in dist/image. */
import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { messageOf } from "@deltaloop/kube/objects";
import { currentPins, PinsMovedError, PINS_FILE, readPins, whyNoDebian } from "./debian.ts";
import type { DebianPins } from "./debian.ts";
import { dockerfile } from "./dockerfile.ts";
import { buildLabels, imageConfig, IMAGE_NAME, watcherImage } from "./image.ts";
import type { WatcherImage } from "./image.ts";
import { platformsArchive } from "./oci-archive.ts";
import type { Architecture } from "./oci-archive.ts";
import { scriptOptions } from "../build/script-options.ts";

const ROOT = join(import.meta.dirname, "..", "..");
const OUT = join(ROOT, "dist", "image");
const ARCHITECTURES = ["amd64", "arm64"] as const satisfies readonly Architecture[];
const MIB = 1024 ** 2;
const USAGE = `Builds the image of the watcher as dist/image/deltaloop.oci.tar, with its layers and a Dockerfile.

Usage: npm run image -- [options]

Options:
  --architecture NAME   amd64 or arm64; repeatable (default: both)
  --update              pin the package versions that apt offers now; build no image
  --help                print this text

Examples:
  npm run image
  npm run image -- --architecture arm64
`;

const { values } = scriptOptions("image", USAGE, {
  options: { architecture: { type: "string", multiple: true }, update: { type: "boolean" } },
});
try {
  const missing = await whyNoDebian();
  if (missing !== undefined) throw new Error(missing);
  if (values.update === true) await update(await readPins());
  else await build(values.architecture?.map(architectureOf) ?? ARCHITECTURES);
} catch (error) {
  process.stderr.write(`image: ${messageOf(error)}\n`);
  if (error instanceof PinsMovedError)
    process.stderr.write(
      "image: to pin the current versions, run npm run image -- --update where apt has that release; review and commit the change\n",
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
  if (found === undefined) throw new Error(`--architecture must be ${ARCHITECTURES.join(" or ")}`);
  return found;
}
