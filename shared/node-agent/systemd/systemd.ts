/** Manages slices through systemd's manager. */
import { messageOf } from "@deltaloop/kube/objects";
import { connectDBus, DBusClosedError, DBusError } from "./dbus-connection.ts";
import type { DBusConnection } from "./dbus-connection.ts";
import type { DBusValue } from "./dbus-message.ts";
import type { UnitProperty } from "./unit-properties.ts";

/** Takes unit names such as `kubepods-burstable.slice`. Every call may be repeated. */
export interface Systemd {
  /** Creates and starts a transient unit. An existing unit stays unchanged. */
  startTransient(unit: string, properties: readonly UnitProperty[]): Promise<void>;
  /** Sets properties. They remain until the unit stops or the machine shuts down. */
  setProperties(unit: string, properties: readonly UnitProperty[]): Promise<void>;
  /** Stops the unit and its processes. A missing unit counts as stopped. */
  stop(unit: string): Promise<void>;
}

const MANAGER = {
  destination: "org.freedesktop.systemd1",
  path: "/org/freedesktop/systemd1",
  interface: "org.freedesktop.systemd1.Manager",
};
const MATCH = "type='signal',interface='org.freedesktop.systemd1.Manager',member='JobRemoved'";
/**
 * The system bus first, then systemd's private socket, which only root may use. Source: github.com/coreos/go-systemd dbus/dbus.go
 * NewWithContext.
 */
const SOCKETS: readonly SystemdSocket[] = [{ file: "/run/dbus/system_bus_socket", match: MATCH }, { file: "/run/systemd/private" }];
/** Source: github.com/opencontainers/cgroups systemd/common.go startUnit, stopUnit. */
const JOB_MS_MAX = 30_000;
/** Job mode that replaces a pending job of the same unit. */
const REPLACE = "replace";

export interface SystemdSocket {
  readonly file: string;
  /** Match rule for the signals on a bus; absent for the private socket. */
  readonly match?: string;
}

export function createSystemd(sockets: readonly SystemdSocket[] = SOCKETS): Systemd {
  let connecting: Promise<DBusConnection> | undefined;
  const connected = async (): Promise<DBusConnection> => {
    connecting ??= firstOf(sockets);
    try {
      const connection = await connecting;
      if (!connection.isClosed) return connection;
      connecting = firstOf(sockets);
      return await connecting;
    } catch (error) {
      connecting = undefined;
      throw error;
    }
  };
  /** Retries once, because systemd closes its connections when it re-executes, and because every call may be repeated. */
  const retrying = async <T>(act: (connection: DBusConnection) => Promise<T>): Promise<T> => {
    const connection = await connected();
    try {
      return await act(connection);
    } catch (error) {
      if (!(error instanceof DBusClosedError)) throw error;
      connection.close();
      return await act(await connected());
    }
  };
  const runJob = async (member: string, signature: string, body: readonly DBusValue[]): Promise<void> => {
    const result = await retrying((connection) => jobResult(connection, member, signature, body));
    if (result !== "done") throw new Error(`the job ended with result ${result}`);
  };
  return {
    async startTransient(unit, properties) {
      try {
        await runJob("StartTransientUnit", "ssa(sv)a(sa(sv))", [unit, REPLACE, properties, []]);
      } catch (error) {
        if (!isDBusError(error, "UnitExists")) throw new Error(`systemd failed to start ${unit}: ${messageOf(error)}`, { cause: error });
        await runJob("StartUnit", "ss", [unit, REPLACE]); // a recently stopped unit may still exist, and must then be started
      }
    },
    async setProperties(unit, properties) {
      const call = { ...MANAGER, member: "SetUnitProperties", signature: "sba(sv)", body: [unit, true, properties] };
      await retrying((connection) => connection.call(call));
    },
    async stop(unit) {
      await runJob("StopUnit", "ss", [unit, REPLACE]).catch((error: unknown) => {
        if (!isDBusError(error, "NoSuchUnit")) throw new Error(`systemd failed to stop ${unit}: ${messageOf(error)}`, { cause: error });
      });
    },
  };
}

async function firstOf(sockets: readonly SystemdSocket[]): Promise<DBusConnection> {
  const failures: string[] = [];
  for (const { file, match } of sockets)
    try {
      return await connectDBus(file, match);
    } catch (error) {
      failures.push(messageOf(error));
    }
  throw new DBusClosedError(`failed to connect to systemd: ${failures.join("; ")}`);
}

/** Calls a method that starts a job, and waits for it. @returns `done`, `failed`, `canceled`, … */
async function jobResult(connection: DBusConnection, member: string, signature: string, body: readonly DBusValue[]): Promise<string> {
  const ended = new Map<string, string>(); // a job may end before the call returns its path
  let check = (): void => undefined;
  const unlisten = connection.listen((signal) => {
    if (signal.member !== "JobRemoved") return;
    const [, path, , result] = signal.body;
    ended.set(String(path), String(result));
    check();
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    const [path] = await connection.call({ ...MANAGER, member, signature, body });
    return await new Promise((resolve, reject) => {
      check = () => {
        const result = ended.get(String(path));
        if (result !== undefined) resolve(result);
      };
      timer = setTimeout(() => reject(new Error(`job not finished within ${JOB_MS_MAX / 1000} s`)), JOB_MS_MAX);
      check();
    });
  } finally {
    clearTimeout(timer);
    unlisten();
  }
}

function isDBusError(error: unknown, name: string): boolean {
  return error instanceof DBusError && error.code === `org.freedesktop.systemd1.${name}`;
}
