/** A connection to who speaks D-Bus at a socket of this machine: calls, and the signals that come meanwhile. */
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
  /** Returns the reply. @throws {DBusError} an error reply; {DBusClosedError} when the connection closes first */
  call(call: DBusCall): Promise<readonly DBusValue[]>;
  /** @returns ends it */
  listen(listener: (signal: DBusMessage) => void): () => void;
  close(): void;
}

/** The other side refused, in its own words. `code` is D-Bus' own name for why: `org.freedesktop.systemd1.NoSuchUnit`. */
export class DBusError extends Error {
  override readonly name = "DBusError";
  readonly code: string;
  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** Nobody is there, or went away before it answered: normal while systemd starts itself anew. The caller connects again. */
export class DBusClosedError extends Error {
  override readonly name = "DBusClosedError";
}

/** Source: sd_bus_call(3). */
const ANSWER_MS_MAX = 25_000;
/** So often one that has not answered yet is spoken to again. */
const WAKE_MS = 100;
const BUS = { destination: "org.freedesktop.DBus", path: "/org/freedesktop/DBus", interface: "org.freedesktop.DBus" };

/**
 * As the user that this process runs as.
 *
 * @param match rule for the signals of a bus; absent for a direct connection, which delivers all signals
 */
export async function connectDBus(socketFile: string, match?: string): Promise<DBusConnection> {
  const socket = connect(socketFile);
  socket.unref(); // an idle connection keeps no process alive
  const waiting = new Map<number, { resolve(body: readonly DBusValue[]): void; reject(error: Error): void }>();
  const listeners = new Set<(signal: DBusMessage) => void>();
  let serial = 0;
  let closed: DBusClosedError | undefined;
  const end = (error?: Error): void => {
    closed ??= new DBusClosedError(`${socketFile}: ${error?.message ?? "the connection ended"}`, { cause: error });
    socket.destroy();
    for (const { reject } of waiting.values()) reject(closed);
    waiting.clear();
  };
  const take = (message: DBusMessage): void => {
    if (message.kind === "signal") for (const listener of listeners) listener(message);
    const asked = waiting.get(message.replySerial ?? 0);
    if (message.kind === "return") asked?.resolve(message.body);
    if (message.kind === "error") asked?.reject(new DBusError(message.errorName ?? "", String(message.body[0] ?? message.errorName)));
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
          const late = new DBusClosedError(`${socketFile}: ${call.member} was not answered within ${ANSWER_MS_MAX / 1000} s`);
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
      end(error as Error); // decoding throws nothing else
    }
  };
  socket.on("data", read);
  if (match === undefined) await wake(connection);
  else {
    await connection.call({ ...BUS, member: "Hello" });
    await connection.call({ ...BUS, member: "AddMatch", signature: "s", body: [match] });
  }
  return connection;
}

/** What systemd reads together with the last word of the greeting it looks at only when something else comes. */
async function wake(connection: DBusConnection): Promise<void> {
  const ping = { destination: "", path: "/", interface: "org.freedesktop.DBus.Peer", member: "Ping" };
  const timer = setInterval(() => void connection.call(ping).catch(() => undefined), WAKE_MS);
  try {
    await connection.call(ping);
  } finally {
    clearInterval(timer);
  }
}

/** Authenticates by the peer credentials of the socket. Returns the bytes after the last line. See "Authentication Protocol" in the D-Bus specification. */
async function authenticate(socket: ReturnType<typeof connect>, socketFile: string): Promise<Buffer> {
  const uid = Buffer.from(String(process.getuid?.() ?? 0)).toString("hex");
  return await new Promise((resolve, reject) => {
    let said = Buffer.alloc(0);
    const settle = (settled: () => void): void => {
      clearTimeout(timer);
      socket.removeListener("data", hear).removeListener("error", fail).removeListener("close", close);
      settled();
    };
    const fail = (error: Error): void => settle(() => reject(new DBusClosedError(`${socketFile}: ${error.message}`, { cause: error })));
    const close = (): void => fail(new Error("the connection ended"));
    const hear = (chunk: Buffer): void => {
      said = Buffer.concat([said, chunk]);
      const end = said.indexOf("\r\n");
      if (end === -1) return;
      const word = said.toString("latin1", 0, end);
      if (!word.startsWith("OK ")) return fail(new Error(`it does not take this process: ${word}`));
      socket.write("BEGIN\r\n");
      settle(() => resolve(said.subarray(end + 2)));
    };
    const timer = setTimeout(() => fail(new Error("it says nothing")), ANSWER_MS_MAX);
    socket.on("data", hear).on("error", fail).on("close", close);
    socket.write(`\0AUTH EXTERNAL ${uid}\r\n`);
  });
}
