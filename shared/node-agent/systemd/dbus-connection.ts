/** A D-Bus connection over a Unix socket: method calls and signals. */
import { connect } from "node:net";
import { decodeMessage, encodeMessage } from "./dbus-message.ts";
import type { DBusMessage, DBusValue } from "./dbus-message.ts";

export interface DBusCall {
  readonly destination: string;
  readonly path: string;
  readonly interface: string;
  readonly member: string;
  readonly signature?: string;
  readonly body?: readonly DBusValue[];
}

export interface DBusConnection {
  readonly isClosed: boolean;
  /** Returns the reply. @throws {DBusError} for an error reply @throws {DBusClosedError} if the connection closes first */
  call(call: DBusCall): Promise<readonly DBusValue[]>;
  /** Adds a listener for signals. @returns a function that removes it */
  listen(listener: (signal: DBusMessage) => void): () => void;
  close(): void;
}

/** An error reply. `code` is its D-Bus error name, such as `org.freedesktop.systemd1.NoSuchUnit`. */
export class DBusError extends Error {
  override readonly name = "DBusError";
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** The connection failed, was closed or timed out, which is normal while systemd re-executes. The caller must reconnect. */
export class DBusClosedError extends Error {
  override readonly name = "DBusClosedError";
}

/** Source: sd_bus_call(3). */
const ANSWER_MS_MAX = 25_000;
/** Interval between pings until the first reply arrives. */
const PING_MS = 100;
const BUS = { destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" };

/**
 * Connects with the user id of this process.
 *
 * @param match rule for the signals of a bus; absent for a direct connection, which delivers all signals
 */
export async function connectDBus(socketFile: string, match?: string): Promise<DBusConnection> {
  const socket = connect(socketFile);
  socket.unref(); // an idle connection must not keep the process running
  const waiting = new Map<number, { resolve(body: readonly DBusValue[]): void; reject(error: Error): void }>();
  const listeners = new Set<(signal: DBusMessage) => void>();
  let serial = 0;
  let closed: DBusClosedError | undefined;
  const end = (error?: Error): void => {
    closed ??= new DBusClosedError(`${socketFile}: ${error?.message ?? "connection closed"}`, { cause: error });
    socket.destroy();
    for (const { reject } of waiting.values()) reject(closed);
    waiting.clear();
  };
  const take = (message: DBusMessage): void => {
    if (message.kind === "signal") for (const listener of listeners) listener(message);
    const pending = waiting.get(message.replySerial ?? 0);
    if (message.kind === "return") pending?.resolve(message.body);
    if (message.kind === "error") pending?.reject(new DBusError(message.errorName ?? "", String(message.body[0] ?? message.errorName)));
  };
  socket.on("close", () => end()).on("error", end);

  const connection: DBusConnection = {
    get isClosed() {
      return closed !== undefined;
    },
    async call({ signature = "", body = [], ...call }) {
      if (closed !== undefined) throw closed;
      const own = (serial += 1);
      let timer: NodeJS.Timeout | undefined;
      try {
        return await new Promise((resolve, reject) => {
          waiting.set(own, { resolve, reject });
          const late = new DBusClosedError(`${socketFile}: no reply to ${call.member} within ${ANSWER_MS_MAX / 1000} s`);
          timer = setTimeout(() => reject(late), ANSWER_MS_MAX);
          socket.write(encodeMessage({ kind: "call", serial: own, ...call, signature, body }));
        });
      } finally {
        clearTimeout(timer);
        waiting.delete(own);
      }
    },
    listen(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
    close: () => end(),
  };

  const rest = await authenticate(socket, socketFile).catch((error: unknown) => {
    end();
    throw error;
  });
  let unread = rest;
  const read = (chunk: Buffer): void => {
    unread = Buffer.concat([unread, chunk]);
    try {
      for (let next = decodeMessage(unread); next !== undefined; next = decodeMessage(unread)) {
        unread = unread.subarray(next.size);
        take(next.message);
      }
    } catch (error) {
      end(error as Error); // the decoder throws only Errors
    }
  };
  socket.on("data", read);
  if (match === undefined) await pingUntilReply(connection);
  else {
    await connection.call({ ...BUS, member: "Hello" });
    await connection.call({ ...BUS, member: "AddMatch", signature: "s", body: [match] });
  }
  return connection;
}

/** If bytes arrive together with BEGIN, systemd reads them only when more bytes arrive. A single ping could therefore remain unanswered. */
async function pingUntilReply(connection: DBusConnection): Promise<void> {
  const ping = { destination: "", path: "/", interface: "org.freedesktop.DBus.Peer", member: "Ping" };
  const timer = setInterval(() => void connection.call(ping).catch(() => undefined), PING_MS);
  try {
    await connection.call(ping);
  } finally {
    clearInterval(timer);
  }
}

/**
 * Authenticates with the peer credentials of the socket. @returns the bytes after the reply See "Authentication Protocol" in the D-Bus
 * specification.
 */
async function authenticate(socket: ReturnType<typeof connect>, socketFile: string): Promise<Buffer> {
  const uid = Buffer.from(String(process.getuid?.() ?? 0)).toString("hex");
  return await new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const settle = (settled: () => void): void => {
      clearTimeout(timer);
      socket.removeListener("data", onData).removeListener("error", fail).removeListener("close", close);
      settled();
    };
    const fail = (error: Error): void => settle(() => reject(new DBusClosedError(`${socketFile}: ${error.message}`, { cause: error })));
    const close = (): void => fail(new Error("connection closed"));
    const onData = (chunk: Buffer): void => {
      received = Buffer.concat([received, chunk]);
      const end = received.indexOf("\r\n");
      if (end === -1) return;
      const line = received.toString("latin1", 0, end);
      if (!line.startsWith("OK ")) return fail(new Error(`authentication failed: ${line}`));
      socket.write("BEGIN\r\n");
      settle(() => resolve(received.subarray(end + 2)));
    };
    const timer = setTimeout(() => fail(new Error("no reply to the authentication")), ANSWER_MS_MAX);
    socket.on("data", onData).on("error", fail).on("close", close);
    socket.write(`\0AUTH EXTERNAL ${uid}\r\n`);
  });
}
