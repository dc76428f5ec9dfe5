/** The servers that tests start. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createConnection } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { ensureRedisServer, startRedis } from "../../support/redis.ts";

const reason = ensureRedisServer();

describe.skipIf(reason)(`redis-server for tests${reason === undefined ? "" : `, skipped: ${reason}`}`, () => {
  it("exits with its parent, even when that is killed", async () => {
    const support = new URL("../../support/redis.ts", import.meta.url).href;
    const program = `const { startRedis } = await import(${JSON.stringify(support)}); const s = await startRedis(); console.log(s.port); setInterval(() => {}, 1000);`;
    const parent = spawn(process.execPath, ["--input-type=module", "--eval", program], { stdio: ["ignore", "pipe", "inherit"] });
    const [chunk] = (await once(parent.stdout, "data")) as [Buffer]; // a stream of bytes
    const port = Number(chunk.toString());
    expect(await listens(port)).toBe(true);
    parent.kill("SIGKILL");
    for (let tries = 0; tries < 100 && (await listens(port)); tries++) await after(50);
    expect(await listens(port)).toBe(false);
  });

  it("stores nothing on disk, listens on loopback only, and can be stopped, killed and suspended", async () => {
    const [one, two] = await Promise.all([startRedis(), startRedis()]);
    expect(one.port).not.toBe(two.port);
    const client = new Redis(one.url);
    expect(await client.config("GET", "bind")).toContain("127.0.0.1");
    expect(await client.config("GET", "save")).toEqual(["save", ""]);
    one.pause();
    const answer = await Promise.race([client.ping(), after(100, "still")]);
    one.resume();
    expect(answer).toBe("still");
    expect(await client.ping()).toBe("PONG");
    client.disconnect();
    await one.stop();
    await two.kill();
    await two.stop();
    expect(await Promise.all([listens(one.port), listens(two.port)])).toEqual([false, false]);
  });
});

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createConnection({ port, host: "127.0.0.1" });
    socket.once("connect", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => socket.destroy());
    socket.once("connect", () => socket.destroy());
  });
}
