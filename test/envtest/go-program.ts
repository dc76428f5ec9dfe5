/** Programs built from Go modules, once per pinned version, and kept outside the checkout. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdir, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { cacheFolder } from "../../infra/build/cache-folder.ts";
import { holdingLock, waitAtMost } from "../../infra/build/lock-file.ts";

const run = promisify(execFile);

/** A build of the Go modules in `module`'s go.mod. */
export interface GoBuild {
  readonly name: string;
  /** Name of the source, for messages. Default: this release of Kubernetes. */
  readonly of?: string;
  /** Build time on 2 cores, for messages. */
  readonly takes: string;
  /** The folder of go.mod and go.sum. */
  readonly module: string;
  /** Source files in addition to the module's own; together with the flags they determine the folder's name. */
  readonly files: readonly string[];
  readonly flags: readonly string[];
  /** A program whose existence shows that the folder is complete. */
  readonly program: string;
  /** Builds into an empty folder. */
  readonly build: (folder: string) => Promise<void>;
}

/** The minor version of Go that upstream's go.mod requires (`go 1.26.0`). */
const GO_MINOR_MIN = 26;

/** The maximum wait for another process's build, after which this process builds by itself. */
const BUILD_WAIT_MAX_MS = 30 * 60_000;
const BUILD_POLL_MS = 500;

/** Returns the folder of the build, building it if necessary, or a one-line reason why it cannot be built. */
export async function builtOnce(what: GoBuild): Promise<{ readonly folder: string } | { readonly missing: string }> {
  // GOTOOLCHAIN=local: a test run builds with the installed Go and never downloads another one.
  const goVersion = await answerOf("go", ["version"], { GOTOOLCHAIN: "local" });
  const wanted = `the ${what.name} is built with Go ≥ 1.${GO_MINOR_MIN}`;
  if (goVersion === undefined) return { missing: `${wanted}, and there is no \`go\` on the PATH` };
  if (!isNewEnough(goVersion)) return { missing: `${wanted}, and this one is older: ${goVersion}` };

  const folder = join(cacheFolder(), `${what.name.replaceAll(" ", "-")}-${await fingerprint(what, goVersion)}`);
  const isWhole = async (): Promise<boolean> => await isExecutable(join(folder, what.program));
  if (await isWhole()) return { folder };

  await mkdir(dirname(folder), { recursive: true });
  const whenHeld = waitAtMost({ mostMs: BUILD_WAIT_MAX_MS, pollMs: BUILD_POLL_MS }, (owner) =>
    say(what, `waiting for process ${owner || "?"}, which is building it`),
  );
  return await holdingLock(`${folder}.lock`, whenHeld, async () => {
    if (await isWhole()) return { folder };
    try {
      await buildInto(folder, what);
    } catch (error) {
      return { missing: `the ${what.name} could not be built with \`go build\`: ${lastLine(error)}` };
    }
    return { folder };
  });
}

/** Runs `go` in a module's folder. @throws {Error} with its error output */
export async function go(module: string, parameters: readonly string[]): Promise<void> {
  await run("go", parameters, {
    cwd: module,
    env: { ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOWORK: "off" },
    maxBuffer: 64 * 1024 * 1024,
  });
}

/** Builds in a temporary folder and renames it, so that `folder` is complete whenever it exists. */
async function buildInto(folder: string, what: GoBuild): Promise<void> {
  const { of = `Kubernetes ${KUBERNETES_VERSION}` } = what;
  say(what, `building that of ${of} into ${folder}: ${what.takes}, once`);
  const startedAt = performance.now();
  const unfinished = `${folder}.building-${process.pid}`;
  try {
    await mkdir(unfinished, { recursive: true });
    await what.build(unfinished);
    await rename(unfinished, folder);
  } catch (error) {
    // Two processes may build at once after a lock was broken (see holdingLock); then the second rename fails because the folder exists.
    if (!(await isExecutable(join(folder, what.program)))) throw error;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  say(what, `built in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

/**
 * The flags of `go build`. The version is set as upstream's build does it: other programs report
 * v0.0.0-master, in `kubectl version` as in the User-Agent of every request.
 * Source: hack/lib/version.sh `kube::version::ldflags`.
 */
export function buildFlags(version = KUBERNETES_VERSION): readonly string[] {
  const [major = "", minor = ""] = version.slice(1).split(".");
  const stamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((pkg) => [
    `-X ${pkg}.gitVersion=${version}`,
    `-X ${pkg}.gitMajor=${major}`,
    `-X ${pkg}.gitMinor=${minor}`,
  ]);
  return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", ["-s", "-w", ...stamps].join(" ")];
}

/**
 * Returns a hash of everything that a build depends on, so that a new pin or Go version gets a new folder and the old folder remains
 * usable.
 */
async function fingerprint({ module, files, flags }: GoBuild, goVersion: string): Promise<string> {
  const hash = createHash("sha256");
  for (const file of [join(module, "go.mod"), join(module, "go.sum"), ...files]) hash.update(await readFile(file)).update("\0");
  return hash.update(goVersion).update("\0").update(flags.join(" ")).digest("hex").slice(0, 16);
}

/** `line` is the output of `go version`: "go version go1.26.8 linux/amd64". A development version ("devel") counts as new enough. */
function isNewEnough(line: string): boolean {
  const match = /\bgo1\.(\d+)/.exec(line);
  return match === null || Number(match[1]) >= GO_MINOR_MIN;
}

/** The output of a command, or undefined when it is missing or fails. */
export async function answerOf(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string | undefined> {
  try {
    return (await run(command, args, { env: { ...process.env, ...env } })).stdout.trim();
  } catch {
    return undefined;
  }
}

/** Returns false also if the file does not exist. */
export async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** Returns the last line of a failed command's output; for Go, this line states the reason. */
function lastLine(error: unknown): string {
  const text = error instanceof Error && "stderr" in error && String(error.stderr).trim() !== "" ? String(error.stderr) : String(error);
  return text.trim().split("\n").at(-1) ?? text;
}

function say({ name }: GoBuild, line: string): void {
  process.stderr.write(`${name}: ${line}\n`);
}
