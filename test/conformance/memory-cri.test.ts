/** The memory runtime: the port's suite, and its additional features: seeded faults, pulls, readiness, injected logs. */
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../shared/base/memory/clock.ts";
import { createMemoryCri } from "../../shared/node-agent/memory/cri/cri.ts";
import type { MemoryCriOptions } from "../../shared/node-agent/memory/cri/cri.ts";
import { createSeededRandom } from "../../shared/base/memory/random.ts";
import { isUnavailable, isUnimplemented } from "../../shared/node-agent/ports/cri-error.ts";
import type { PodSandboxConfig } from "../../shared/node-agent/ports/cri-types.ts";
import { criConformance } from "./cri.ts";

const START_MS = 1_800_000_000_000;
const EXIT = {
  exitAfterMs: 1_500,
  exitCode: 3,
  output: [
    { stream: "stdout", text: "ending with 3" },
    { stream: "stderr", text: "goodbye" },
  ],
} as const;
const LISTENING = [{ stream: "stdout", text: "v1 listening on 8080" }] as const;
const EXEC = ([_program, _mode, code, ms]: readonly string[]) => ({
  stdout: `ending with ${code}\n`,
  exitCode: Number(code),
  afterMs: Number(ms ?? 0),
});

criConformance("memory", async () => {
  const clock = createVirtualClock(START_MS);
  const commands = { stubborn: { stopAfterMs: "never", output: LISTENING }, "exit 3 1500": EXIT } as const;
  const image = { exec: EXEC, output: LISTENING, commands };
  const cri = createMemoryCri({ clock, random: createSeededRandom(1), images: { "server:v1": image }, unimplemented: ["runtimeConfig"] });
  const server = { image: { image: "server:v1" } };
  return {
    cri,
    programs: { serve: server, stubborn: { ...server, args: ["stubborn"] }, exit: { ...server, args: ["exit", "3", "1500"] } },
    failingCommand: ["/server", "exit", "3"],
    longCommand: ["/server", "exit", "0", "5000"],
    absentImage: "127.0.0.1:1/none:1",
    sandboxBase: () => ({ logDirectory: "/logs" }),
    readLog: async (path) => cri.log(path),
    async within(promise) {
      let settled = false;
      const done = promise.finally(() => (settled = true));
      done.catch(() => undefined); // rethrown to the caller below
      await clock.advance(0);
      while (!settled) await clock.advance(100);
      return await done;
    },
    elapse: (ms) => clock.advance(ms),
    nowMs: () => clock.now(),
    async restart() {
      cri.setRunning(false);
      expect(await cri.status().catch(isUnavailable)).toBe(true);
      cri.setRunning(true);
    },
    close: async () => {},
  };
});

describe("the memory runtime with injected faults", () => {
  const open = (options: Partial<MemoryCriOptions> = {}, seed = 7) => {
    const clock = createVirtualClock(START_MS);
    return { clock, cri: createMemoryCri({ clock, random: createSeededRandom(seed), images: { web: {} }, ...options }) };
  };
  const sandbox = (uid: string): PodSandboxConfig => ({ metadata: { name: "p", namespace: "n", uid, attempt: 0 }, logDirectory: "/logs" });
  const started = async (cri: ReturnType<typeof open>["cri"], image: string) => {
    const id = await cri.runPodSandbox(sandbox("u"));
    const container = await cri.createContainer(
      id,
      { metadata: { name: "c", attempt: 0 }, image: { image }, logPath: "c/0.log" },
      sandbox("u"),
    );
    await cri.startContainer(container);
    return { id, container };
  };

  it("loses responses of executed calls and rejects other calls, reproducibly", async () => {
    const run = async (seed: number) => {
      const faults = { unavailable: 0.3, lostAnswer: 0.3 };
      let current: MemoryCriOptions["faults"] = () => faults;
      const { cri } = open({ faults: () => current?.() ?? {} }, seed);
      const outcomes: boolean[] = [];
      for (let pod = 0; pod < 40; pod++)
        outcomes.push(
          await cri.runPodSandbox(sandbox(`${pod}`)).then(
            () => true,
            (error: unknown) => !isUnavailable(error),
          ),
        );
      current = undefined;
      return { answered: outcomes.filter(Boolean).length, made: (await cri.listPodSandbox()).length };
    };
    const { answered, made } = await run(7);
    expect(answered).toBeGreaterThan(10);
    expect(made).toBeGreaterThan(answered);
    expect(made).toBeLessThan(40);
    expect(await run(7)).toEqual({ answered, made });
    expect(await run(8)).not.toEqual({ answered, made });
  });

  it("delays calls", async () => {
    const { clock, cri } = open({ faults: () => ({ slow: 1, slowMsMax: 1_000 }) });
    let answered = false;
    void cri.version().then(() => (answered = true));
    await clock.advance(0);
    expect(answered).toBe(false);
    await clock.advance(1_000);
    expect(answered).toBe(true);
  });

  it("fails the calls in flight when it is killed", async () => {
    const { clock, cri } = open({ images: { web: { stopAfterMs: "never" } } });
    const { container } = await started(cri, "web");
    const stop = cri.stopContainer(container, 5).catch(isUnavailable);
    await clock.advance(1_000);
    cri.setRunning(false);
    await clock.advance(10_000);
    expect(await stop).toBe(true);
    cri.setRunning(true);
    expect(await cri.containerStatus(container)).toMatchObject({ exitCode: 137 });
  });

  it("returns Unimplemented for calls that are newer than its version", async () => {
    const { cri } = open({ unimplemented: ["listContainerStats"] });
    expect(await cri.listContainerStats().catch(isUnimplemented)).toBe(true);
  });

  it("completes a pull after its duration unless it was aborted", async () => {
    const { clock, cri } = open({ remoteImages: { late: { pullMs: 5_000 }, broken: { pullError: "no space left" } } });
    const abort = new AbortController();
    const aborted = cri.pullImage({ image: "late" }, { signal: abort.signal });
    abort.abort();
    await expect(aborted).rejects.toMatchObject({ code: "Canceled" });
    await expect(cri.pullImage({ image: "broken" }, { signal: abort.signal })).rejects.toMatchObject({ code: "Canceled" });
    const pull = cri.pullImage({ image: "late" });
    await clock.advance(4_999);
    expect(await cri.imageStatus({ image: "late" })).toBeUndefined();
    await clock.advance(1);
    expect((await cri.imageStatus({ image: "late" }))?.id).toBe(await pull);
    await expect(cri.pullImage({ image: "broken" })).rejects.toThrow("no space left");
  });

  it("serves on a pod's address while its container is ready", async () => {
    const { clock, cri } = open({ images: { web: { readyAfterMs: 500, exitAfterMs: 2_000 } } });
    const { id } = await started(cri, "web");
    const ip = (await cri.podSandboxStatus(id)).network?.ip ?? "";
    const seen: boolean[] = [];
    for (const ms of [499, 1, 1_499, 1]) {
      await clock.advance(ms);
      seen.push(cri.answers(ip));
    }
    expect(seen).toEqual([false, true, true, false]);
  });

  it("CR5 leaves a container EXITED with the reason when its start fails", async () => {
    const { cri } = open({ images: { web: { startError: "exec: no such file" } } });
    await expect(started(cri, "web")).rejects.toThrow("no such file");
    const [one] = await cri.listContainers();
    expect(await cri.containerStatus(one?.id ?? "")).toMatchObject({
      state: "CONTAINER_EXITED",
      reason: "StartError",
      message: "exec: no such file",
    });
  });

  it("CR9 writes log lines to the given writer", async () => {
    const written: string[] = [];
    const { cri } = open({
      images: { web: { output: [{ stream: "stdout", text: "hello" }] } },
      writeLog: (path, line) => void written.push(`${path} ${line}`),
    });
    await started(cri, "web");
    expect(written).toEqual(["/logs/c/0.log 2027-01-15T08:00:00.000000000Z stdout F hello\n"]);
  });

  it("reports an unready network, and an exhausted address range", async () => {
    const { cri } = open();
    cri.setNetworkReady(false);
    expect((await cri.status()).find(({ type }) => type === "NetworkReady")?.status).toBe(false);
    for (let pod = 0; pod < 253; pod++) await cri.runPodSandbox(sandbox(`${pod}`));
    await expect(cri.runPodSandbox(sandbox("one too many"))).rejects.toThrow("no IP addresses");
    expect(await cri.listPodSandbox()).toHaveLength(253);
  });
});
