/**
 * Runs scripts under a guest Linux kernel (user-mode Linux) that has only cgroup v2, independent of the host's version. The guest's root
 * file system is the host's. The kernel is unpacked from a pinned Debian package into the cache folder, without installing it.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cacheFolder } from "../../infra/build/cache-folder.ts";

/** A Linux 6.1 kernel with the cgroup controllers cpu, io, memory and pids, but without cpuset and hugetlb. */
const PACKAGE = "user-mode-linux=6.1um4+b13";
const BRING_MS_MAX = 120_000;

/** @returns the kernel, or a one-line reason why it is unavailable */
export function ensureUml(): { readonly kernel: string } | { readonly missing: string } {
  if (process.platform !== "linux" || process.arch !== "x64") return { missing: "user-mode Linux needs Linux on x64" };
  if (process.getuid?.() !== 0) return { missing: "user-mode Linux on this machine's files needs root" };
  const cache = cacheFolder();
  const folder = join(cache, PACKAGE.replaceAll(/[=+]/gu, "-"));
  const kernel = join(folder, "usr/bin/linux.uml");
  if (existsSync(kernel)) return { kernel };
  process.stderr.write(`uml: fetching Debian's package ${PACKAGE} with apt-get, into the cache folder\n`);
  mkdirSync(cache, { recursive: true });
  const work = mkdtempSync(join(cache, "uml-"));
  try {
    const script = `apt-get download ${PACKAGE} && dpkg-deb -x user-mode-linux_*.deb unpacked`;
    const brought = spawnSync("sh", ["-c", script], { cwd: work, encoding: "utf8", timeout: BRING_MS_MAX });
    if (brought.status !== 0) return { missing: `${PACKAGE} could not be had: ${brought.stderr.trim().split("\n").at(-1) ?? "unknown"}` };
    renameSync(join(work, "unpacked"), folder);
    return { kernel };
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const SYSTEMD = "/lib/systemd/systemd";

/** @returns the reason why the guest cannot run systemd as PID 1; undefined if it can */
export function systemdMissing(): string | undefined {
  return existsSync(SYSTEMD) ? undefined : "there is no systemd on this machine";
}

export interface UmlOptions {
  readonly timeoutMs: number;
  /** Runs systemd as the guest's PID 1 and the script as its only service. Otherwise the script's shell is PID 1. */
  readonly systemd?: boolean;
}

/** Runs a shell script in the guest, with cgroup v2 on /sys/fs/cgroup, and returns its exit code and output. */
export async function runInUml(
  kernel: string,
  script: string,
  { timeoutMs, systemd = false }: UmlOptions,
): Promise<{ readonly code: number; readonly output: string }> {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-uml-"));
  const [init, work, output, code] = ["init", "work", "output", "code"].map((name) => join(folder, name)) as [
    string,
    string,
    string,
    string,
  ]; // the list has four names
  const path = process.env["PATH"] ?? "";
  // The guest writes its files to the host's /tmp through hostfs. It mounts its own /proc, /sys and /run.
  writeFileSync(
    init,
    `#!/bin/sh
export PATH='${path}' HOME=/root NO_COLOR=1
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t tmpfs tmpfs /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
${systemd ? bySystemd(work) : `exec '${work}'`}
`,
    { mode: 0o755 },
  );
  writeFileSync(
    work,
    `#!/bin/sh
export PATH='${path}' HOME=/root NO_COLOR=1
(${script}) >'${output}' 2>&1 </dev/null
echo $? >'${code}'
sync
echo o >/proc/sysrq-trigger
sleep 60
`,
    { mode: 0o755 },
  );
  const args = [
    "mem=1536M",
    "rootfstype=hostfs",
    "rootflags=/",
    "rw",
    `init=${init}`,
    "con=null",
    "con0=null,fd:1",
    `uml_dir=${folder}`,
    "quiet",
  ];
  const child = spawn(kernel, args, {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true, // a separate process group, because user-mode Linux runs as several processes
    env: { ...process.env, TMPDIR: folder },
  });
  let console = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (console += chunk.toString()));
  const timer = setTimeout(() => process.kill(-(child.pid ?? 0), "SIGKILL"), timeoutMs);
  await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  try {
    if (!existsSync(code)) throw new Error(`user-mode Linux exited before its script: ${console.slice(-2000)}`);
    return { code: Number(readFileSync(code, "utf8")), output: readFileSync(output, "utf8") };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Replaces the host's units and generators, so that the guest starts none of them and writes nothing outside /run. A test that needs D-Bus
 * starts dbus.socket.
 */
function bySystemd(work: string): string {
  return `mkdir -p /run/units /run/none
cat >/run/units/work.service <<'UNIT'
[Unit]
DefaultDependencies=no
[Service]
Type=oneshot
ExecStart='${work}'
UNIT
cat >/run/units/work.target <<'UNIT'
[Unit]
DefaultDependencies=no
Wants=work.service
UNIT
cat >/run/units/dbus.socket <<'UNIT'
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
UNIT
cat >/run/units/dbus.service <<'UNIT'
[Unit]
DefaultDependencies=no
Requires=dbus.socket
[Service]
Type=notify
ExecStart=dbus-daemon --system --address=systemd: --nofork --nopidfile
UNIT
export SYSTEMD_UNIT_PATH=/run/systemd/system.control:/run/systemd/transient:/run/units SYSTEMD_GENERATOR_PATH=/run/none
exec ${SYSTEMD} --unit=work.target`;
}
