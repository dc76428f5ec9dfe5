import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { access, constants, mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Paths of the six programs, all executable. */
export interface ControlPlaneBinaries {
  readonly etcd: string;
  /** Restores a snapshot of etcd. */
  readonly etcdutl: string;
  readonly kubeApiserver: string;
  readonly kubectl: string;
  readonly kubeControllerManager: string;
  readonly kubeScheduler: string;
}

/** The Kubernetes release of `control-plane/go.mod`; `kubectl version` of a control plane built here prints it. */
export const KUBERNETES_VERSION = "v1.36.3";

const PROGRAMS = {
  etcd: "etcd",
  etcdutl: "etcdutl",
  kubeApiserver: "kube-apiserver",
  kubectl: "kubectl",
  kubeControllerManager: "kube-controller-manager",
  kubeScheduler: "kube-scheduler",
} as const satisfies Record<keyof ControlPlaneBinaries, string>;

/** Upstream's go.mod says `go 1.26.0`. */
const GO_MINOR_MIN = 26;
const MODULE_FOLDER = join(import.meta.dirname, "control-plane");

/** After this we stop waiting for another process's build and do it ourselves; it takes 5 minutes on 2 cores. */
const BUILD_WAIT_MAX_MS = 30 * 60_000;
const BUILD_POLL_MS = 500;

/**
 * The programs of a control plane: those in `KUBEBUILDER_ASSETS` if that is set (the convention of controller-runtime's
 * envtest), else our own build of `control-plane/`, made once and kept in the user's cache folder.
 *
 * Returns `{ missing }`, one line for people, where this machine can neither show nor build them; a suite prints it and
 * skips. `openssl`, which makes the certificates, counts as one of the parts.
 */
export async function controlPlaneBinaries(): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  if ((await answerOf("openssl", ["version"])) === undefined) {
    return { missing: "the control plane needs the `openssl` command for its certificates (Debian: apt-get install openssl)" };
  }
  const assets = process.env["KUBEBUILDER_ASSETS"];
  return assets === undefined || assets === "" ? await builtBinaries() : await givenBinaries(assets);
}

async function givenBinaries(folder: string): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  const absent: string[] = [];
  for (const program of Object.values(PROGRAMS)) {
    if (!(await isExecutable(join(folder, program)))) absent.push(program);
  }
  if (absent.length === 0) return binariesIn(folder);
  const hint = "envtest's own archives hold only etcd, kube-apiserver and kubectl; unset the variable to have all six built";
  return { missing: `KUBEBUILDER_ASSETS=${folder} has no ${absent.join(", no ")} (${hint})` };
}

async function builtBinaries(): Promise<ControlPlaneBinaries | { readonly missing: string }> {
  // GOTOOLCHAIN=local: a test run builds with the Go that is here and never downloads another one.
  const goVersion = await answerOf("go", ["version"], { GOTOOLCHAIN: "local" });
  const wanted = `the control plane is built with Go ≥ 1.${GO_MINOR_MIN}`;
  if (goVersion === undefined) return { missing: `${wanted}, and there is no \`go\` on the PATH` };
  if (!isNewEnough(goVersion)) return { missing: `${wanted}, and this one is older: ${goVersion}` };

  const folder = join(cacheFolder(), `control-plane-${await fingerprint(goVersion)}`);
  if (await isExecutable(join(folder, PROGRAMS.kubectl))) return binariesIn(folder);

  await mkdir(dirname(folder), { recursive: true });
  return await holdingLock(`${folder}.lock`, async () => {
    if (await isExecutable(join(folder, PROGRAMS.kubectl))) return binariesIn(folder);
    try {
      await build(folder);
    } catch (error) {
      return { missing: `the control plane could not be built with \`go build\`: ${lastLine(error)}` };
    }
    return binariesIn(folder);
  });
}

/** Builds beside `folder` and renames, so that `folder` is complete whenever it exists. */
async function build(folder: string): Promise<void> {
  say(`building Kubernetes ${KUBERNETES_VERSION}'s control plane into ${folder}: about 5 minutes, once`);
  const startedAt = performance.now();
  const unfinished = `${folder}.building-${process.pid}`;
  try {
    await mkdir(unfinished, { recursive: true });
    await run("go", ["build", ...buildFlags(), "-o", join(unfinished, "control-plane"), "."], {
      cwd: MODULE_FOLDER,
      env: { ...process.env, CGO_ENABLED: "0", GOTOOLCHAIN: "local", GOWORK: "off" },
      maxBuffer: 64 * 1024 * 1024,
    });
    for (const program of Object.values(PROGRAMS)) await symlink("control-plane", join(unfinished, program));
    await rename(unfinished, folder);
  } catch (error) {
    // Two processes may build at once when a lock was broken (see holdingLock); the second rename finds the first's work.
    if (!(await isExecutable(join(folder, PROGRAMS.kubectl)))) throw error;
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
  say(`built in ${Math.round((performance.now() - startedAt) / 1000)} s`);
}

/**
 * The flags of the one build command. The version is stamped in as upstream's build does: unstamped programs call
 * themselves v0.0.0-master, in `kubectl version` as in the User-Agent of every request.
 * Source: hack/lib/version.sh `kube::version::ldflags`.
 */
function buildFlags(): readonly string[] {
  const [major, minor] = KUBERNETES_VERSION.slice(1).split(".");
  const stamps = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].flatMap((pkg) => [
    `-X ${pkg}.gitVersion=${KUBERNETES_VERSION}`,
    `-X ${pkg}.gitMajor=${major}`,
    `-X ${pkg}.gitMinor=${minor}`,
  ]);
  return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", ["-s", "-w", ...stamps].join(" ")];
}

/** Names everything a build depends on, so a new pin or a new Go is a new folder and an old one stays usable. */
async function fingerprint(goVersion: string): Promise<string> {
  const hash = createHash("sha256");
  for (const file of ["go.mod", "go.sum", "main.go"]) hash.update(await readFile(join(MODULE_FOLDER, file))).update("\0");
  return hash.update(goVersion).update("\0").update(buildFlags().join(" ")).digest("hex").slice(0, 16);
}

/**
 * Runs `work` while no other live process runs it under the same lock file. The file holds its owner's pid; a dead
 * owner's lock is broken. Two processes may break it at the same moment and then both work: that costs time, never
 * a wrong result, because the work ends in a rename.
 */
async function holdingLock<T>(lockFile: string, work: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + BUILD_WAIT_MAX_MS;
  let told = false;
  for (;;) {
    try {
      await writeFile(lockFile, String(process.pid), { flag: "wx" });
      break;
    } catch (error) {
      if (!isErrno(error, "EEXIST")) throw error;
    }
    const owner = Number(await readFile(lockFile, "utf8").catch(() => ""));
    // 0: the owner has made the file and not yet written its pid, or has just removed it.
    if ((owner !== 0 && !isAlive(owner)) || performance.now() > giveUpAt) {
      await rm(lockFile, { force: true });
      continue;
    }
    if (!told) say(`waiting for process ${owner || "?"}, which is building the control plane`);
    told = true;
    await sleep(BUILD_POLL_MS);
  }
  try {
    return await work();
  } finally {
    await rm(lockFile, { force: true });
  }
}

function binariesIn(folder: string): ControlPlaneBinaries {
  return {
    etcd: join(folder, PROGRAMS.etcd),
    etcdutl: join(folder, PROGRAMS.etcdutl),
    kubeApiserver: join(folder, PROGRAMS.kubeApiserver),
    kubectl: join(folder, PROGRAMS.kubectl),
    kubeControllerManager: join(folder, PROGRAMS.kubeControllerManager),
    kubeScheduler: join(folder, PROGRAMS.kubeScheduler),
  };
}

/** `$XDG_CACHE_HOME/deltaloop`, else `~/.cache/deltaloop`: outside the checkout, shared by all of the user's clones. */
function cacheFolder(): string {
  const base = process.env["XDG_CACHE_HOME"];
  return join(base === undefined || base === "" ? join(homedir(), ".cache") : base, "deltaloop");
}

/** `line` is what `go version` prints: "go version go1.26.8 linux/amd64". A development Go ("devel") counts as new. */
function isNewEnough(line: string): boolean {
  const match = /\bgo1\.(\d+)/.exec(line);
  return match === null || Number(match[1]) >= GO_MINOR_MIN;
}

/** What a command printed, or undefined when it is not there or fails. */
async function answerOf(command: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string | undefined> {
  try {
    return (await run(command, args, { env: { ...process.env, ...env } })).stdout.trim();
  } catch {
    return undefined;
  }
}

async function isExecutable(path: string): Promise<boolean> {
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return isErrno(error, "EPERM");
  }
}

function isErrno(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}

/** The last line a failed command printed, which in Go's case is the one that says why. */
function lastLine(error: unknown): string {
  const text = error instanceof Error && "stderr" in error && String(error.stderr).trim() !== "" ? String(error.stderr) : String(error);
  return text.trim().split("\n").at(-1) ?? text;
}

function say(line: string): void {
  process.stderr.write(`control plane: ${line}\n`);
}
