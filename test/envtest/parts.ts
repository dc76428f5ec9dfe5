import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { startReaper } from "../../infra/local/process-reaper.ts";
import { type Component, startComponent } from "./component.ts";

/** Time between SIGTERM and SIGKILL. */
const STOP_GRACE_MS = 4000;

/** A guard script: each line of its input lists the pids to kill if this process ends; the guard then also removes the folder. */
const GUARD = 'trap "" INT TERM HUP; while read -r line; do pids=$line; done; [ -z "$pids" ] || kill -KILL $pids; rm -rf -- "$1"';

/** The running components and their guard process; keeps the list of processes to end. */
export interface Parts {
  makeLogFolder(): Promise<void>;
  start(name: string, command: string, args: readonly string[]): Promise<Component>;
  end(name: string): Promise<void>;
  /** Ends all components, etcd last, because an API server without etcd uses its whole grace period to exit. Then ends the guard. */
  endAll(): Promise<void>;
  /** From now on, reports an unexpected exit of a component on stderr. Before this call, such an exit makes the start fail. */
  reportEnds(): void;
  pids(): Readonly<Record<string, number>>;
}

/** Starts without components, but the guard is already active and removes `directory` if this process ends. */
export function createParts(directory: string, logFolder: string): Parts {
  const guard = startReaper({
    name: "control-plane-guard",
    script: GUARD,
    parameters: [directory],
    onGone: ({ message }) =>
      process.stderr.write(
        `control plane: the guard process has exited (${message}); the control plane keeps running if this process is killed\n`,
      ),
  });
  const running = new Map<string, Component>();
  const startedOnce = new Set<string>();
  const stopping = new Set<Component>();
  let reporting = false;
  const tellGuard = (): void => guard.tell([...running.values()].map((component) => component.pid).join(" "));

  async function end(name: string): Promise<void> {
    const component = running.get(name);
    if (component === undefined) return;
    stopping.add(component);
    await component.stop(STOP_GRACE_MS);
  }

  return {
    async makeLogFolder() {
      await mkdir(logFolder, { recursive: true });
    },
    async start(name, command, args) {
      const logFile = join(logFolder, `${name}.log`);
      // removes the log of an earlier control plane; a restart appends to its own log
      if (!startedOnce.has(name)) await rm(logFile, { force: true });
      startedOnce.add(name);
      const component = await startComponent(command, args, { name, logFile });
      running.set(name, component);
      tellGuard();
      void component.ended.then((how) => {
        running.delete(name);
        tellGuard();
        if (reporting && !stopping.has(component)) process.stderr.write(`control plane: ${name} exited with ${how}, see ${logFile}\n`);
      });
      return component;
    },
    end,
    async endAll() {
      const names = [...running.keys()].filter((name) => name !== "etcd");
      await Promise.all(names.map(end));
      await end("etcd");
      await guard.dismiss();
    },
    reportEnds() {
      reporting = true;
    },
    pids: () => Object.fromEntries([...running].map(([name, component]) => [name, component.pid])),
  };
}
