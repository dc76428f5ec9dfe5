/**
 * One agent per root directory.
 *
 * Catches: two agents that remove each other's pods, and a lock that a killed agent leaves behind forever or that another process with the
 * agent's old pid appears to hold.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { lockRoot, RootInUseError } from "../../../../shared/node-agent/host/root-lock.ts";

describe("the lock on an agent's root directory", () => {
  let root = "";
  beforeEach(async () => {
    root = join(await mkdtemp(join(tmpdir(), "deltaloop-root-")), "kubelet");
  });
  afterEach(() => rm(join(root, ".."), { recursive: true }));

  it("only one agent at a time holds the lock, and another one can take it after its release", async () => {
    const unlock = await lockRoot(root);
    const refusal = lockRoot(root);
    await expect(refusal).rejects.toBeInstanceOf(RootInUseError);
    await expect(refusal).rejects.toThrow(
      `${root} is used by another node agent (pid ${process.pid}): stop it, or choose another --root-dir`,
    );
    await unlock();
    expect(await readdir(root)).toEqual([]);
    await (
      await lockRoot(root)
    )();
  });

  it("a lock of a killed process can be taken", async () => {
    const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"]);
    await once(child, "spawn");
    await lockRoot(root);
    const lock = join(root, "deltaloop-node.lock");
    const [, start] = (await readFile(lock, "utf8")).split(" ");
    // The pid belongs to another process now, with another start time.
    await writeFile(lock, `${child.pid} ${start}`);
    const unlock = await lockRoot(root);
    expect((await readFile(lock, "utf8")).split(" ")[0]).toBe(String(process.pid));
    await unlock();
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  });

  it("a lock with unreadable content can be taken", async () => {
    const unlock = await lockRoot(root);
    await unlock();
    await writeFile(join(root, "deltaloop-node.lock"), "");
    const unlockAgain = await lockRoot(root);
    await expect(unlockAgain()).resolves.toBeUndefined();
  });
});
