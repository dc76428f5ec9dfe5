/**
 * Talks to systemd-logind through systemd's own programs. `busctl` makes calls and monitors signals. `systemd-inhibit` holds the
 * inhibitor lock, which D-Bus passes as a file descriptor.
 *
 * Source: pkg/kubelet/nodeshutdown/systemd/inhibit_linux.go.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { InhibitLock, Logind } from "../ports/logind.ts";

const SERVICE = "org.freedesktop.login1";
const OBJECT = "/org/freedesktop/login1";
const MANAGER = "org.freedesktop.login1.Manager";
const SIGNAL = "PrepareForShutdown";
/** Also matches the sender, because any process on the system bus may send a signal with this name. */
const MATCH = `type='signal',sender='${SERVICE}',path='${OBJECT}',interface='${MANAGER}',member='${SIGNAL}'`;

const CALL_MS_MAX = 10_000;
/** The command that systemd-inhibit runs. It echoes `HELD` when the lock is held; when it ends, the lock is released. */
const HOLDER = "cat";
const HELD = "held";
const DROP_IN_FOLDER = "/etc/systemd/logind.conf.d";
/** The kubelet's file name, so that the agent overwrites the kubelet's file. */
const DROP_IN = "99-kubelet.conf";

export interface LogindOptions {
  /** Address of the D-Bus daemon, such as `unix:path=…`. Default: the system bus. */
  readonly busAddress?: string;
  readonly dropInFolder?: string;
}

export function createLogind({ busAddress, dropInFolder = DROP_IN_FOLDER }: LogindOptions = {}): Logind {
  const env = { ...process.env, ...(busAddress !== undefined && { DBUS_SYSTEM_BUS_ADDRESS: busAddress }) };
  const property = async (name: string): Promise<unknown> => {
    const answer = await output("busctl", ["--json=short", "get-property", SERVICE, OBJECT, MANAGER, name], env);
    return (JSON.parse(answer) as { readonly data?: unknown }).data; // in the format of busctl --json
  };
  return {
    async inhibitDelayMs() {
      const microseconds = await property("InhibitDelayMaxUSec");
      if (typeof microseconds !== "number") throw new Error("logind did not report InhibitDelayMaxUSec");
      return microseconds / 1_000;
    },

    async overrideInhibitDelay(ms) {
      await mkdir(dropInFolder, { recursive: true, mode: 0o755 });
      const content = `# Written by the node agent: time for pods to terminate during a shutdown.\n[Login]\nInhibitDelayMaxSec=${Math.ceil(ms / 1_000)}\n`;
      await writeFile(join(dropInFolder, DROP_IN), content, { mode: 0o644 });
      const kill = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "KillUnit"];
      await output("busctl", ["call", ...kill, "ssi", "systemd-logind.service", "all", "1"], env); // SIGHUP makes logind reload its configuration
    },

    inhibitShutdown: async () => await holdLock(env),

    async watchShutdown(onChange, signal) {
      // With setpriv, busctl ends when this process ends, even after SIGKILL.
      const child = spawn("setpriv", ["--pdeathsig", "TERM", "busctl", "--json=short", "--match", MATCH, "monitor"], {
        env,
        stdio: ["ignore", "pipe", "pipe"],
      });
      const ended = endOf(child);
      const end = (): boolean => child.kill();
      signal.addEventListener("abort", end, { once: true });
      let changes = 0;
      createInterface({ input: child.stdout }).on("line", (line) => {
        const value = valueOf(line);
        if (value === undefined || signal.aborted) return;
        changes++;
        onChange(value);
      });
      try {
        if (signal.aborted) return;
        // busctl writes to stderr as soon as it listens. Reading the property after that misses no change.
        await Promise.race([once(child.stderr, "data"), ended.then(failed("busctl"))]);
        const now = await property("PreparingForShutdown");
        if (changes === 0 && !signal.aborted) onChange(now === true);
        const why = await ended;
        if (!signal.aborted) failed("busctl")(why);
      } catch (error) {
        if (!signal.aborted) throw error;
      } finally {
        signal.removeEventListener("abort", end);
        child.kill();
      }
    },
  };
}

type Signal = { readonly member?: string; readonly payload?: { readonly data?: readonly unknown[] } | null } | null;

/** Parses `{"type":"signal",…,"member":"PrepareForShutdown","payload":{"type":"b","data":[true]}}`; the last line may be incomplete. */
function valueOf(line: string): boolean | undefined {
  let message: Signal;
  try {
    message = JSON.parse(line) as Signal; // in the format of busctl --json
  } catch {
    return undefined;
  }
  const value = message?.member === SIGNAL ? message.payload?.data?.[0] : undefined;
  return typeof value === "boolean" ? value : undefined;
}

/** `cat` ends when its input closes, at the latest when this process ends. The lock is then released. */
async function holdLock(env: NodeJS.ProcessEnv): Promise<InhibitLock> {
  const why = "--why=The node agent needs time to terminate its pods";
  const child = spawn("systemd-inhibit", ["--what=shutdown", "--mode=delay", "--who=deltaloop node", why, HOLDER], {
    env,
    stdio: ["pipe", "pipe", "pipe"],
    detached: true, // Ctrl-C must not end this process before the agent releases the lock
  });
  const ended = endOf(child);
  child.stdin.on("error", () => undefined); // `ended` rejects with the reason
  child.stdin.write(`${HELD}\n`);
  await Promise.race([once(child.stdout, "data"), ended.then(failed("systemd-inhibit"))]);
  return {
    lost: ended.then(() => undefined),
    release: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

interface Child {
  readonly stderr: NodeJS.ReadableStream;
  once(event: "error", listener: (error: Error) => void): unknown;
  once(event: "close", listener: (code: number | null, signal: string | null) => void): unknown;
}

interface End {
  readonly code: number | null;
  readonly words: string;
}

/** Returns the last line of stderr, or the reason why the program did not start. */
async function endOf(child: Child): Promise<End> {
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => (words = `${words}${chunk.toString()}`.slice(-1_000)));
  return await new Promise((resolve) => {
    child.once("error", (error) => resolve({ code: null, words: error.message }));
    child.once("close", (code, signal) => resolve({ code, words: words.trim().split("\n").at(-1) || `exited with ${code ?? signal}` }));
  });
}

function failed(program: string): (end: End) => never {
  return ({ words }) => {
    throw new Error(`${program}: ${words}`);
  };
}

async function output(program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "pipe"], timeout: CALL_MS_MAX, killSignal: "SIGKILL" });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
  const end = await endOf(child);
  if (end.code !== 0) failed(program)(end);
  return text;
}
