/** The images of test pods, built here from two C files and Debian's static busybox: no registry is ever contacted. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { ociArchive } from "../../infra/image/oci-archive.ts";

export const IMAGES = {
  pause: "localhost/pause:1",
  /** The program is images/server.c; v1 and v2 return different responses. */
  serverV1: "localhost/server:v1",
  serverV2: "localhost/server:v2",
  /** An image with `sh` and a few applets. */
  busybox: "localhost/busybox:1",
} as const;

const BUSYBOX = "/bin/busybox";
const APPLETS = ["cat", "echo", "false", "id", "kill", "ls", "nc", "ps", "sh", "sleep", "true", "wget"];
const EXECUTABLE = 0o755;

const run = promisify(execFile);
let archive: Promise<Buffer> | undefined;

/**
 * Returns one archive with all images, about 3 MB. It is built once per process, in about a second.
 * @param directory the caller's directory for compiler output
 */
export function imageArchive(directory: string): Promise<Buffer> {
  archive ??= build(directory);
  archive.catch(() => (archive = undefined)); // the caller sees the error; the next call tries again
  return archive;
}

async function build(directory: string): Promise<Buffer> {
  const compile = (name: string): Promise<Buffer> => compileStatic(name, join(directory, name));
  const [pause, server, busybox] = await Promise.all([compile("pause"), compile("server"), readFile(BUSYBOX)]);
  const serverEntries = [{ kind: "file", name: "server", content: server, mode: EXECUTABLE }] as const;
  return ociArchive([
    { name: IMAGES.pause, entries: [{ kind: "file", name: "pause", content: pause, mode: EXECUTABLE }], entrypoint: ["/pause"] },
    { name: IMAGES.serverV1, entries: serverEntries, entrypoint: ["/server"], env: ["VERSION=v1"] },
    { name: IMAGES.serverV2, entries: serverEntries, entrypoint: ["/server"], env: ["VERSION=v2"] },
    {
      name: IMAGES.busybox,
      entrypoint: ["/bin/sh"],
      entries: [
        { kind: "folder", name: "bin" },
        { kind: "folder", name: "tmp", mode: 0o1777 },
        { kind: "file", name: "bin/busybox", content: busybox, mode: EXECUTABLE },
        ...APPLETS.map((applet) => ({ kind: "link", name: `bin/${applet}`, target: "busybox" }) as const),
      ],
    },
  ]);
}

/** Compiles images/<name>.c as a static program, so that its image needs no other file. */
async function compileStatic(name: string, output: string): Promise<Buffer> {
  const source = join(import.meta.dirname, "images", `${name}.c`);
  const env = { ...process.env, TMPDIR: dirname(output) };
  await run("cc", ["-static", "-Os", "-s", "-Wall", "-Werror", "-o", output, source], { env });
  return await readFile(output);
}
