/** systemd's own programs on the test's private bus, with a replacement for logind that hands out real locks. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";

import { createLogind } from "../../shared/node-agent/logind/logind.ts";
import { eventually } from "../support/eventually.ts";
import { ensureDbusMock, startPrivateBus } from "../support/private-bus.ts";
import type { PrivateBus } from "../support/private-bus.ts";
import { logindConformance } from "./logind.ts";

const missing = ensureDbusMock();
if (missing === undefined) {
  logindConformance("systemd's programs", async () => {
    const bus = await startPrivateBus();
    const { address: busAddress, dropInFolder } = bus;
    return {
      logind: createLogind({ busAddress, dropInFolder }),
      prepareForShutdown: async (isShuttingDown) => bus.prepareForShutdown(isShuttingDown),
      locks: async () => bus.locks().length,
      restart: () => bus.end(),
      close: () => bus.end(),
    };
  });
} else it.skip(`Logind (needs systemd's programs; ${missing})`);

async function withBus(act: (bus: PrivateBus) => Promise<void>): Promise<void> {
  const bus = await startPrivateBus();
  try {
    await act(bus);
  } finally {
    await bus.end();
  }
}

it.skipIf(missing !== undefined)("[node-agent 455] reports the holder of a lock, and releases the lock when the holder dies", () =>
  withBus(async (bus) => {
    const source = new URL("../../shared/node-agent/logind/logind.ts", import.meta.url).href;
    const holder = `import { createLogind } from ${JSON.stringify(source)};
      const logind = createLogind();
      const lock = await logind.inhibitShutdown();
      await logind.watchShutdown((told) => console.log("told", told), AbortSignal.timeout(60_000));`;
    const env = { ...process.env, DBUS_SYSTEM_BUS_ADDRESS: bus.address };
    const child = spawn(process.execPath, ["--input-type=module", "-e", holder], { env, stdio: ["ignore", "pipe", "inherit"] });
    const [word] = (await once(child.stdout, "data")) as [Buffer];
    expect(word.toString()).toBe("told false\n");
    expect(bus.locks()).toEqual(["deltaloop node shutdown delay"]);
    const listening = (): boolean => spawnSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" }).stdout !== "";
    expect(listening()).toBe(true);
    const children = spawnSync("pgrep", ["-P", String(child.pid)], { encoding: "utf8" })
      .stdout.trim()
      .split("\n");
    child.kill("SIGKILL");
    await once(child, "exit");
    await eventually("the lock is gone", () => bus.locks().length === 0, 5_000);
    const alive = (pid: string): boolean => spawnSync("kill", ["-0", pid]).status === 0;
    await eventually("nobody of it lives on", () => !children.some(alive), 5_000);
  }),
);

it.skipIf(missing !== undefined)("[node-agent 455] reports a lock as lost when its holder exits", () =>
  withBus(async ({ address }) => {
    const lock = await createLogind({ busAddress: address }).inhibitShutdown();
    const [pid = ""] = spawnSync("pgrep", ["-P", String(process.pid), "-x", "systemd-inhibit"], { encoding: "utf8" })
      .stdout.trim()
      .split("\n");
    spawnSync("kill", ["-KILL", pid]);
    expect(await Promise.race([lock.lost.then(() => "lost"), sleep(5_000, "held")])).toBe("lost");
    await lock.release();
  }),
);

it.skipIf(missing !== undefined)(
  "[node-agent 455] accepts signals only from logind, even if another process sends one with the same name",
  () =>
    withBus(async (bus) => {
      const told: boolean[] = [];
      const over = new AbortController();
      const watching = createLogind({ busAddress: bus.address }).watchShutdown((now) => told.push(now), over.signal);
      await eventually("the present state is reported", () => told.length === 1);
      const [path, name] = ["/org/freedesktop/login1", "org.freedesktop.login1.Manager"];
      bus.busctl("emit", path, name, "PrepareForShutdown", "b", "true");
      bus.prepareForShutdown(true);
      bus.busctl("emit", path, name, "PrepareForShutdown", "b", "false");
      bus.prepareForShutdown(false);
      await eventually("logind is heard", () => told.length === 3);
      expect(told).toEqual([false, true, false]);
      over.abort("over");
      await watching;
    }),
);

it.skipIf(missing !== undefined)("[node-agent 455] writes the shutdown delay to a world-readable file that logind reads", () =>
  withBus(async ({ address, dropInFolder }) => {
    await createLogind({ busAddress: address, dropInFolder }).overrideInhibitDelay(30_500);
    const file = join(dropInFolder, "99-kubelet.conf");
    expect(await readFile(file, "utf8")).toMatch(/^\[Login\]\nInhibitDelayMaxSec=31$/mu);
    expect((await stat(file)).mode & 0o777).toBe(0o644);
  }),
);

it("[node-agent 455] reports why there is no lock on a machine without logind", async () => {
  const logind = createLogind({ busAddress: "unix:path=/nowhere/socket" });
  for (const ask of [
    () => logind.inhibitDelayMs(),
    () => logind.inhibitShutdown(),
    () => logind.watchShutdown(() => undefined, AbortSignal.timeout(20_000)),
  ])
    await expect(ask()).rejects.toThrow(/No such file or directory/u);
});
