/**
 * logind on a private D-Bus daemon: python3-dbusmock's template, which hands out real locks, and a systemd that can be
 * reloaded.
 */
import { execFileSync, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { aptInstall } from "./apt.ts";
import { eventually } from "./eventually.ts";

/** The packages and what they are used for. */
const NEEDED: Readonly<Record<string, string>> = {
  "python3-dbusmock": "/usr/lib/python3/dist-packages/dbusmock/templates/logind.py",
  "dbus-daemon": "/usr/bin/dbus-daemon",
  systemd: "/usr/bin/systemd-inhibit",
};
/** Debian's Python, which has the module. */
const PYTHON = "/usr/bin/python3";
const LOGIND = ["org.freedesktop.login1", "/org/freedesktop/login1"] as const;
const MANAGER = "org.freedesktop.login1.Manager";
const SYSTEMD = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"] as const;
const MOCK = "org.freedesktop.DBus.Mock";

/** @returns undefined, or the reason why it is unavailable, with which tests are skipped */
export function ensureDbusMock(): string | undefined {
  const missing = (): readonly string[] => Object.keys(NEEDED).filter((name) => !existsSync(NEEDED[name] ?? ""));
  if (missing().length === 0) return undefined;
  if (process.platform !== "linux" || process.getuid?.() !== 0) return `${missing().join(", ")} can be installed by root alone`;
  process.stderr.write(`logind: installing Debian's packages ${missing().join(", ")} with apt-get\n`);
  const why = aptInstall(missing(), () => missing().length === 0);
  return why === undefined ? undefined : `apt-get install ${missing().join(" ")} failed: ${why}`;
}

/** Allows every client to call and listen. */
const configuration = (socket: string): string => `<busconfig>
<type>system</type><listen>unix:path=${socket}</listen><auth>EXTERNAL</auth>
<policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow send_type="*"/><allow receive_type="*"/><allow own="*"/><allow user="*"/>
</policy></busconfig>`;

export interface PrivateBus {
  /** The address, in the format of `DBUS_SYSTEM_BUS_ADDRESS`. */
  readonly address: string;
  /** The directory of logind's drop-ins, read on reload. */
  readonly dropInFolder: string;
  prepareForShutdown(isShuttingDown: boolean): void;
  setInhibitDelay(ms: number): void;
  /** The process name, subject and mode of each lock: `deltaloop node shutdown delay`. */
  locks(): readonly string[];
  /** Calls busctl; values are in its notation. */
  busctl(...args: readonly string[]): string;
  /** Ends the bus and all connections. */
  end(): Promise<void>;
}

export async function startPrivateBus(inhibitDelayMs = 5_000): Promise<PrivateBus> {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-bus-"));
  const socket = join(folder, "socket");
  const address = `unix:path=${socket}`;
  const env = { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: address };
  const children: ChildProcess[] = [];
  const start = (program: string, ...args: readonly string[]): ChildProcess => {
    const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "ignore"] });
    children.push(child);
    return child;
  };
  const busctl = (...args: readonly string[]): string => execFileSync("busctl", args, { env, encoding: "utf8" });
  const end = async (): Promise<void> => {
    const running = children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    await Promise.all(running.map(async (child) => [child.kill("SIGKILL"), await once(child, "exit")]));
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await writeFile(join(folder, "bus.conf"), configuration(socket));
    start("dbus-daemon", `--config-file=${join(folder, "bus.conf")}`, "--nofork");
    await eventually("the bus listens", () => existsSync(socket), 10_000);
    start(PYTHON, "-m", "dbusmock", "--system", "--template", "logind").stdout?.resume();
    const systemd = start(PYTHON, "-m", "dbusmock", "--system", ...SYSTEMD);
    const listed = (name: string): boolean => busctl("list", "--no-legend").includes(name);
    await eventually("both are on it", () => listed(LOGIND[0]) && listed(SYSTEMD[0]), 10_000);
    const mock = (of: readonly [string, string], ...args: readonly string[]): string => busctl("call", of[0], of[1], MOCK, ...args);
    const setInhibitDelay = (ms: number): void =>
      void mock(LOGIND, "UpdateProperties", "sa{sv}", MANAGER, "1", "InhibitDelayMaxUSec", "t", String(ms * 1_000));
    mock(LOGIND, "AddProperty", "ssv", MANAGER, "InhibitDelayMaxUSec", "t", String(inhibitDelayMs * 1_000));
    mock([SYSTEMD[0], SYSTEMD[1]], "AddMethod", "sssss", SYSTEMD[2], "KillUnit", "ssi", "", "");
    systemd.stdout?.on("data", (chunk: Buffer) => {
      if (!/KillUnit "systemd-logind\.service" "all" 1$/mu.test(chunk.toString())) return;
      void readFile(join(folder, "99-kubelet.conf"), "utf8").then((text) =>
        setInhibitDelay(Number(/^\[Login\]\nInhibitDelayMaxSec=(\d+)$/mu.exec(text)?.[1]) * 1_000),
      );
    });
    return {
      address,
      dropInFolder: folder,
      prepareForShutdown(isShuttingDown) {
        mock(LOGIND, "UpdateProperties", "sa{sv}", MANAGER, "1", "PreparingForShutdown", "b", String(isShuttingDown));
        mock(LOGIND, "EmitSignal", "sssav", MANAGER, "PrepareForShutdown", "b", "1", "b", String(isShuttingDown));
      },
      setInhibitDelay,
      locks: () => {
        const { data } = JSON.parse(busctl("--json=short", "call", ...LOGIND, MANAGER, "ListInhibitors")) as { data: string[][][] }; // the output format of busctl
        return (data[0] ?? []).map(([what, who, , mode]) => `${who} ${what} ${mode}`);
      },
      busctl,
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
}
