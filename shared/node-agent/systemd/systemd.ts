/** systemd's manager on this machine, as far as slices are concerned. */
import { messageOf } from "@deltaloop/kube/objects";
import { connectDBus, DBusClosedError, DBusError } from "./dbus-connection.ts";
import type { DBusConnection } from "./dbus-connection.ts";
import type { DBusValue } from "./dbus-message.ts";
import type { UnitProperty } from "./unit-properties.ts";

/** Units by name, `kubepods-burstable.slice`. Every call may be repeated. */
export interface Systemd {
  /** Makes a unit that no file describes, and starts it. One that is there already stays as it is. */
  startTransient(unit: string, properties: readonly UnitProperty[]): Promise<void>;
  /** Until the machine ends, or the unit does. */
  setProperties(unit: string, properties: readonly UnitProperty[]): Promise<void>;
  /** With what is in it. One that is not there is stopped already. */
  stop(unit: string): Promise<void>;
}

const MANAGER = {
  destination: "org.freedesktop.systemd1",
  path: "/org/freedesktop/systemd1",
  interface: "org.freedesktop.systemd1.Manager",
};
const MATCH = "type='signal',interface='org.freedesktop.systemd1.Manager',member='JobRemoved'";
/** The bus first, then systemd itself, whom root alone may ask. Source: github.com/coreos/go-systemd dbus/dbus.go NewWithContext. */
const SOCKETS: readonly SystemdSocket[] = [{ file: "/run/dbus/system_bus_socket", match: MATCH }, { file: "/run/systemd/private" }];
/** Source: github.com/opencontainers/cgroups systemd/common.go startUnit, stopUnit. */
const JOB_MS_MAX = 30_000;
/** In the place of a job of the same unit that waits, whatever it is for. */
const REPLACE = "replace";

export interface SystemdSocket {
  readonly file: string;
  /** Where it is a bus: what is to be heard of it. */
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
  /** systemd ends its connections when it starts itself anew: asked once more, as all of this may be repeated. */
  const ask = async <T>(what: (connection: DBusConnection) => Promise<T>): Promise<T> => {
    const connection = await connected();
    try {
      return await what(connection);
    } catch (error) {
      if (!(error instanceof DBusClosedError)) throw error;
      connection.close();
      return await what(await connected());
    }
  };
  const done = async (member: string, signature: string, body: readonly DBusValue[]): Promise<void> => {
    const result = await ask((connection) => job(connection, member, signature, body));
    if (result !== "done") throw new Error(`its job ended as ${result}`);
  };
  return {
    async startTransient(unit, properties) {
      try {
        await done("StartTransientUnit", "ssa(sv)a(sa(sv))", [unit, REPLACE, properties, []]);
      } catch (error) {
        if (!isCalled(error, "UnitExists")) throw new Error(`systemd did not start ${unit}: ${messageOf(error)}`, { cause: error });
        await done("StartUnit", "ss", [unit, REPLACE]); // one that was stopped a moment ago is still known
      }
    },
    async setProperties(unit, properties) {
      const call = { ...MANAGER, member: "SetUnitProperties", signature: "sba(sv)", body: [unit, true, properties] };
      await ask((connection) => connection.call(call));
    },
    async stop(unit) {
      await done("StopUnit", "ss", [unit, REPLACE]).catch((error: unknown) => {
        if (!isCalled(error, "NoSuchUnit")) throw new Error(`systemd did not stop ${unit}: ${messageOf(error)}`, { cause: error });
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
  throw new DBusClosedError(`systemd cannot be asked: ${failures.join("; ")}`);
}

/** A call whose answer is a job, until that has ended. @returns as what: `done`, `failed`, `canceled`, … */
async function job(connection: DBusConnection, member: string, signature: string, body: readonly DBusValue[]): Promise<string> {
  const ended = new Map<string, string>(); // a job may end before its name is read here
  let look = (): void => undefined;
  const hush = connection.listen((signal) => {
    if (signal.member !== "JobRemoved") return;
    const [, path, , result] = signal.body;
    ended.set(String(path), String(result));
    look();
  });
  let timer: NodeJS.Timeout | undefined;
  try {
    const [path] = await connection.call({ ...MANAGER, member, signature, body });
    return await new Promise((resolve, reject) => {
      look = () => {
        const result = ended.get(String(path));
        if (result !== undefined) resolve(result);
      };
      timer = setTimeout(() => reject(new Error(`its job went on for ${JOB_MS_MAX / 1000} s`)), JOB_MS_MAX);
      look();
    });
  } finally {
    clearTimeout(timer);
    hush();
  }
}

function isCalled(error: unknown, name: string): boolean {
  return error instanceof DBusError && error.code === `org.freedesktop.systemd1.${name}`;
}
