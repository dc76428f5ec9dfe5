// systemd's jobs over D-Bus: outcomes, time-outs and reconnection.
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { decodeMessage, encodeMessage } from "../../../../shared/node-agent/systemd/dbus-message.ts";
import type { DBusMessage, DBusValue } from "../../../../shared/node-agent/systemd/dbus-message.ts";
import { createSystemd } from "../../../../shared/node-agent/systemd/systemd.ts";

type Reply = { readonly job: string } | { readonly error: string } | { readonly body: readonly DBusValue[] } | "close";

let folder = "";
let server: Server | undefined;
const sockets = new Set<Socket>();

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-dbus-"));
});
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await new Promise((resolve) => server?.close(resolve) ?? resolve(undefined));
  await rm(folder, { recursive: true });
});

/**
 * A peer with D-Bus authentication that responds to calls in order.
 * @returns its socket and the calls
 */
async function answering(
  replies: readonly Reply[],
  { greeting = "OK 0\r\n" } = {},
): Promise<{ readonly file: string; readonly asked: string[] }> {
  const asked: string[] = [];
  const left = [...replies];
  let job = 0;
  server = createServer((socket) => {
    sockets.add(socket);
    let [unread, isGreeted] = [Buffer.alloc(0), false];
    const say = (message: Partial<DBusMessage>): void =>
      void socket.write(encodeMessage({ kind: "return", serial: 1, signature: "", body: [], ...message }));
    const answer = ({ member = "", serial, body }: DBusMessage): void => {
      if (member === "Ping" || member === "Hello" || member === "AddMatch") return say({ replySerial: serial });
      asked.push(`${member} ${String(body[0])}`);
      const reply = left.shift() ?? "close";
      if (reply === "close") return void socket.destroy();
      if ("error" in reply)
        return say({
          kind: "error",
          errorName: `org.freedesktop.systemd1.${reply.error}`,
          replySerial: serial,
          signature: "s",
          body: [reply.error],
        });
      if ("body" in reply) return say({ replySerial: serial, body: reply.body });
      const path = `/job/${(job += 1)}`;
      // The job's end precedes the response to the call, which systemd permits.
      say({
        kind: "signal",
        path: "/",
        interface: "i",
        member: "JobRemoved",
        signature: "uoss",
        body: [job, path, String(body[0]), reply.job],
      });
      say({ replySerial: serial, signature: "o", body: [path] });
    };
    socket
      .on("error", () => undefined)
      .on("data", (chunk: Buffer) => {
        unread = Buffer.concat([unread, chunk]);
        if (!isGreeted) {
          const end = unread.indexOf("BEGIN\r\n");
          if (end === -1) return void socket.write(greeting);
          unread = unread.subarray(end + 7);
          isGreeted = true;
        }
        for (let next = decodeMessage(unread); next !== undefined; next = decodeMessage(unread)) {
          unread = unread.subarray(next.size);
          answer(next.message);
        }
      });
  });
  const file = join(folder, "socket");
  await new Promise<void>((resolve) => server?.listen(file, resolve));
  return { file, asked };
}

it("[node-agent 283] waits for a job's end, and returns its result", async () => {
  const { file, asked } = await answering([{ job: "done" }, { job: "failed" }, { job: "canceled" }]);
  const systemd = createSystemd([{ file }]);
  await systemd.startTransient("a.slice", []);
  await expect(systemd.startTransient("b.slice", [])).rejects.toThrow("systemd failed to start b.slice: the job ended with result failed");
  await expect(systemd.stop("a.slice")).rejects.toThrow("systemd failed to stop a.slice: the job ended with result canceled");
  expect(asked).toEqual(["StartTransientUnit a.slice", "StartTransientUnit b.slice", "StopUnit a.slice"]);
});

it("[node-agent 283] treats a unit that already runs as started and a missing unit as stopped, and otherwise fails with systemd's message", async () => {
  const { file, asked } = await answering([{ error: "UnitExists" }, { job: "done" }, { error: "NoSuchUnit" }, { error: "BadUnitSetting" }]);
  const systemd = createSystemd([{ file }]);
  await systemd.startTransient("a.slice", []);
  await systemd.stop("a.slice");
  expect(asked).toEqual(["StartTransientUnit a.slice", "StartUnit a.slice", "StopUnit a.slice"]);
  await expect(systemd.startTransient("a.slice", [])).rejects.toThrow("systemd failed to start a.slice: BadUnitSetting");
});

it("[node-agent 283] retries once when the connection closes during the call", async () => {
  const { file, asked } = await answering(["close", { body: [] }, "close", "close"]);
  const systemd = createSystemd([{ file }]);
  await systemd.setProperties("a.slice", []);
  expect(asked).toHaveLength(2);
  await expect(systemd.setProperties("a.slice", [])).rejects.toThrow("connection closed");
  expect(asked).toHaveLength(4);
});

it("[node-agent 283] tries the next socket if one is missing or refuses the connection, and reports every failure", async () => {
  const { file } = await answering([{ body: [] }]);
  await createSystemd([{ file: join(folder, "none"), match: "m" }, { file }]).setProperties("a.slice", []);
  await expect(createSystemd([{ file: join(folder, "none"), match: "m" }]).stop("a.slice")).rejects.toThrow(
    /failed to connect to systemd: .*none: .*ENOENT/u,
  );
});

it("[node-agent 283] reports a failed authentication", async () => {
  const { file } = await answering([], { greeting: "REJECTED EXTERNAL\r\n" });
  await expect(createSystemd([{ file }]).stop("a.slice")).rejects.toThrow("authentication failed: REJECTED EXTERNAL");
});
