/**
 * systemd-logind by systemd's own programs: `busctl` asks it and hears its signals, `systemd-inhibit` holds the lock, which D-Bus hands
 * out as an open file. They are there wherever logind is.
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
/** With the sender: on the system's bus anybody may send a signal of that name. */
const MATCH = `type='signal',sender='${SERVICE}',path='${OBJECT}',interface='${MANAGER}',member='${SIGNAL}'`;

const CALL_MS_MAX = 10_000;
/** Whose end is the end of what it holds; a word comes back once it holds it. */
const HOLDER = "cat";
const HELD = "held";
const DROP_IN_FOLDER = "/etc/systemd/logind.conf.d";
/** The kubelet's has this name too: who takes a machine over replaces it. */
const DROP_IN = "99-kubelet.conf";

export interface LogindOptions {
  /** Of the D-Bus daemon, `unix:path=…`. Default: the system's. */
  readonly busAddress?: string;
  readonly dropInFolder?: string;
}

export function createLogind({ busAddress, dropInFolder = DROP_IN_FOLDER }: LogindOptions = {}): Logind {
  const env = { ...process.env, ...(busAddress !== undefined && { DBUS_SYSTEM_BUS_ADDRESS: busAddress }) };
  const property = async (name: string): Promise<unknown> => {
    const answer = await output("busctl", ["--json=short", "get-property", SERVICE, OBJECT, MANAGER, name], env);
    return (JSON.parse(answer) as { readonly data?: unknown }).data; // so busctl writes a value
  };
  return {
    async inhibitDelayMs() {
      const microseconds = await property("InhibitDelayMaxUSec");
      if (typeof microseconds !== "number") throw new Error("logind does not say how long a shutdown waits");
      return microseconds / 1_000;
    },

    async overrideInhibitDelay(ms) {
      await mkdir(dropInFolder, { recursive: true, mode: 0o755 });
      const content = `# Written by the node agent, for the time that pods have in a shutdown.\n[Login]\nInhibitDelayMaxSec=${Math.ceil(ms / 1_000)}\n`;
      await writeFile(join(dropInFolder, DROP_IN), content, { mode: 0o644 });
      const kill = ["org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager", "KillUnit"];
      await output("busctl", ["call", ...kill, "ssi", "systemd-logind.service", "all", "1"], env); // SIGHUP: it reads its files again
    },

    inhibitShutdown: async () => await holdLock(env),

    async watchShutdown(tell, signal) {
      // It must not outlive this process, which cannot end it when it is killed.
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
        tell(value);
      });
      try {
        if (signal.aborted) return;
        // It says so once it listens; what changes after that is heard, and what was before can be asked for.
        await Promise.race([once(child.stderr, "data"), ended.then(failed("busctl"))]);
        const now = await property("PreparingForShutdown");
        if (changes === 0 && !signal.aborted) tell(now === true);
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

/**
 * `{"type":"signal",…,"member":"PrepareForShutdown","payload":{"type":"b","data":[true]}}`. The last line of a busctl that was ended may be a
 * part of one.
 */
function valueOf(line: string): boolean | undefined {
  let message: Signal;
  try {
    message = JSON.parse(line) as Signal; // so busctl writes one
  } catch {
    return undefined;
  }
  const value = message?.member === SIGNAL ? message.payload?.data?.[0] : undefined;
  return typeof value === "boolean" ? value : undefined;
}

/** `cat` ends with its input, which ends with this process; and with it the lock. */
async function holdLock(env: NodeJS.ProcessEnv): Promise<InhibitLock> {
  const why = "--why=The node agent needs time to end its pods";
  const child = spawn("systemd-inhibit", ["--what=shutdown", "--mode=delay", "--who=deltaloop node", why, HOLDER], {
    env,
    stdio: ["pipe", "pipe", "pipe"],
    detached: true, // a Ctrl-C is for the agent, which lets go by itself
  });
  const ended = endOf(child);
  child.stdin.on("error", () => undefined); // it says how it ended
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

/** Its last words, or why it could not begin. */
async function endOf(child: Child): Promise<End> {
  let words = "";
  child.stderr.on("data", (chunk: Buffer) => (words = `${words}${chunk.toString()}`.slice(-1_000)));
  return await new Promise((resolve) => {
    child.once("error", (error) => resolve({ code: null, words: error.message }));
    child.once("close", (code, signal) => resolve({ code, words: words.trim().split("\n").at(-1) || `ended with ${code ?? signal}` }));
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
