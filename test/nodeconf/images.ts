/**
 * The images that upstream's node tests use, under upstream's names but built here: agnhost from its own Go module, the others from
 * Debian's static busybox and bash and a few lines of C. The node never pulls from a registry, because every image that a test uses is
 * already present.
 *
 * Source: test/utils/image/manifest.go; test/images/nonewprivs; test/e2e/kubectl/kubectl.go getUDData.
 */
import { execFile } from "node:child_process";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import type { ContainerdNode } from "../containerd/containerd.ts";
import { ociArchive } from "../../infra/image/oci-archive.ts";
import type { ImageContent } from "../../infra/image/oci-archive.ts";
import { CTR } from "../containerd/programs.ts";
import type { TarEntry } from "../../infra/image/tar.ts";
import { createPki } from "../envtest/pki.ts";
import type { UpstreamTests } from "../upstream/program.ts";

/** Names of the images that are built here. Tags differ between releases, and one release may use two tags of an image. */
const IMAGE = /^registry\.k8s\.io\/(?:e2e-test-images\/)?([\w-]+):[^/]+$/u;

const BUSYBOX = "/bin/busybox";
/**
 * Debian's ash drops environment variables whose names contain a hyphen, and tests run `sh -c env` to see those, so the `sh` found through
 * PATH is bash. `/bin/sh` stays ash, because another test expects ash's error message ("can't create /file: Read-only file system").
 */
const BASH = "/bin/bash-static";
const EXECUTABLE = 0o755;
const PATH = ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"];
const run = promisify(execFile);

export async function importUpstreamImages({ directory }: ContainerdNode, { programs, images }: UpstreamTests): Promise<void> {
  const file = join(directory, "upstream-images.tar");
  const [busybox, program, nnp, pause, localhost] = await Promise.all([
    rootOf(BUSYBOX),
    readFile(programs.agnhost),
    compiled(directory, join(import.meta.dirname, "images", "nnp.c")),
    compiled(directory, join(import.meta.dirname, "..", "containerd", "images", "pause.c")),
    createPki(join(directory, "upstream-images-pki")).then(async (pki) => await pki.serverCertificate()),
  ]);
  const agnhostImage = {
    entries: [
      ...busybox,
      { kind: "folder", name: "uploads" },
      { kind: "file", name: "agnhost", content: program, mode: EXECUTABLE },
      { kind: "link", name: "agnhost-2", target: "agnhost" },
      // Certificate of the agnhost webhook's HTTPS server; its clients do not verify it.
      { kind: "file", name: "localhost.crt", content: Buffer.from(localhost.certificate) },
      { kind: "file", name: "localhost.key", content: Buffer.from(localhost.key) },
      // Data file that the nautilus image contains in addition to the web server.
      { kind: "file", name: "data.json", content: Buffer.from('{"image": "nautilus.jpg"}\n') },
    ] satisfies readonly TarEntry[],
    entrypoint: ["/agnhost"],
    command: ["pause"],
    env: PATH,
  };
  const shell = { entrypoint: [], command: ["sh"], env: PATH };
  const made: Readonly<Record<string, Omit<ImageContent, "name">>> = {
    agnhost: agnhostImage,
    nautilus: { ...agnhostImage, command: ["test-webserver"] },
    busybox: { entries: busybox, ...shell },
    // Debian's busybox is linked with glibc, and this image's tests need nothing else.
    "glibc-dns-testing": { entries: busybox, ...shell },
    nonroot: { entries: busybox, ...shell, user: "1234" },
    nonewprivs: { entries: [{ kind: "file", name: "nnp", content: nnp, mode: 0o4755 }], entrypoint: ["/nnp"], env: PATH },
    // Tests only need the nginx container to run; they send no requests to it.
    nginx: { entries: busybox, entrypoint: ["sleep", "1000000"], env: PATH },
    pause: { entries: [{ kind: "file", name: "pause", content: pause, mode: EXECUTABLE }], entrypoint: ["/pause"] },
  };
  const named = (await images()).flatMap((name): readonly ImageContent[] => {
    const content = made[IMAGE.exec(name)?.[1] ?? ""];
    return content === undefined ? [] : [{ name, ...content }];
  });
  const absent = Object.keys(made).filter((image) => !named.some(({ name }) => IMAGE.exec(name)?.[1] === image));
  // Fails early: a pod with a missing image would retry the pull until its test times out.
  if (absent.length > 0) throw new Error(`upstream's tests have no image named ${absent.join(", ")}`);
  await writeFile(file, ociArchive(named));
  await run(CTR, ["--address", join(directory, "containerd.sock"), "--namespace", "k8s.io", "images", "import", "--no-unpack", file]);
  await rm(file);
}

/**
 * Returns the files that tests expect in agnhost: a shell under two names, curl for a plain GET, all busybox applets, and agnhost's users
 * and groups.
 */
async function rootOf(busybox: string): Promise<readonly TarEntry[]> {
  const { stdout } = await run(busybox, ["--list"]);
  const applets = stdout.trim().split("\n");
  const text = (name: string, lines: readonly string[]): TarEntry => ({
    kind: "file",
    name,
    content: Buffer.from(`${lines.join("\n")}\n`),
  });
  return [
    ...["bin", "dev", "etc", "proc", "root", "sys", "usr", "usr/bin", "usr/sbin", "home", "var"].map(
      (name) => ({ kind: "folder", name }) as const,
    ),
    { kind: "folder", name: "tmp", mode: 0o1777 },
    { kind: "file", name: "bin/busybox", content: await readFile(busybox), mode: EXECUTABLE },
    { kind: "file", name: "bin/bash", content: await readFile(BASH), mode: EXECUTABLE },
    { kind: "link", name: "usr/bin/sh", target: "../../bin/bash" },
    { kind: "file", name: "bin/curl", content: Buffer.from('#!/bin/sh\nexec wget -q -O - "$@"\n'), mode: EXECUTABLE },
    ...applets
      .filter((name) => name !== "busybox" && name !== "bash")
      .map((name) => ({ kind: "link", name: `bin/${name}`, target: "busybox" }) as const),
    text("etc/passwd", [
      "root:x:0:0:root:/root:/bin/sh",
      "user-defined-in-image:x:1000:1000::/home:/bin/sh",
      "nobody:x:65534:65534::/:/bin/sh",
    ]),
    text("etc/group", [
      "root:x:0:",
      "user-defined-in-image:x:1000:",
      "group-defined-in-image:x:50000:user-defined-in-image",
      "nogroup:x:65534:",
    ]),
  ];
}

async function compiled(directory: string, source: string): Promise<Buffer> {
  const output = join(directory, `upstream-${source.split("/").at(-1)?.replace(".c", "")}`);
  await run("cc", ["-static", "-Os", "-s", "-Wall", "-Werror", "-o", output, source], { env: { ...process.env, TMPDIR: directory } });
  return await readFile(output);
}
