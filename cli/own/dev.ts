/**
 * `deltaloop dev FILE…`: runs user controllers on a cluster or an in-memory API server, and restarts them after each save.
 *
 * OD1 a saved file that does not load, or whose definitions cannot run, is reported, and the old code keeps running.
 * OD2 saved code with unchanged definitions restarts the function host alone (functions.ts); changed definitions also restart the watcher
 *     and the cache (system.ts). Then all keys are enqueued.
 */
import { resolve } from "node:path";
import type { Log } from "@deltaloop/base";
import { UsageError } from "@deltaloop/base";
import { consoleLog, printable } from "@deltaloop/base/output";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { unsupportedBy } from "@deltaloop/controllers/own";
import { CONTROLLERS, messageOf } from "@deltaloop/kube/objects";
import { startMessagingVerb, untilSignalled } from "@deltaloop/local/processes";
import { apiVersionOf, problemsOf } from "@deltaloop/sdk/definitions";
import type { Definition } from "@deltaloop/sdk/definitions";
import { managerOf } from "@deltaloop/sdk/writes";
import { ownHosts } from "./functions.ts";
import type { LoadedHost, OwnHosts } from "./functions.ts";
import { LoadError } from "./host.ts";
import { shown } from "./load-files.ts";
import { startOwnSystem } from "./system.ts";
import type { OwnSystem } from "./system.ts";
import type { OwnTarget } from "./target.ts";
import { lineOf, timeText } from "./triggers.ts";
import { watchFiles } from "./watch-files.ts";
import type { WatchedFiles } from "./watch-files.ts";

export interface OwnDevFlags {
  readonly verbose: boolean;
  readonly target: (log: Log) => Promise<OwnTarget>;
  /** Runs once they are ready; its end ends them. */
  readonly beside?: (ends: AbortSignal) => Promise<number>;
}

export async function runOwnDev(files: readonly string[], flags: OwnDevFlags): Promise<number> {
  const startedMs = Date.now();
  const signalled = untilSignalled();
  const log = consoleLog("deltaloop: ", flags.verbose ? "debug" : "info");
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const hosts = ownHosts({ start: () => startMessagingVerb("own-host", files), clock, log, keepsSpare: true });
  let target: OwnTarget | undefined;
  let system: OwnSystem | undefined;
  let reloader: Reloader | undefined;
  try {
    const loaded = await hosts.load();
    refuseProblems(loaded.definitions);
    target = await flags.target(log);
    const cluster = await target.prepare(loaded.definitions);
    for (const { name, primary, owns } of loaded.definitions) {
      const owned = owns.length === 0 ? "" : ` · owns ${owns.map(({ kind }) => kind.kind).join(", ")}`;
      log.info(`${name}: for ${primary.kind} (${apiVersionOf(primary)})${owned} · field manager ${managerOf(name)}`);
    }
    loaded.use();
    system = startOwnSystem(loaded.definitions, {
      ...{ clock, random, access: target.access, cluster, act: target.act, functions: hosts },
      log: flags.verbose ? log : quiet(log),
      report: (line, trigger) => say(lineOf(line, trigger, new Date())),
    });
    reloader = new Reloader({ files, hosts, target, system, loaded });
    await system.ready(signalled);
    if (!signalled.aborted) {
      const mode = target.act ? "act" : "shadow (prints writes, sends nothing)";
      say(`ready: ${seconds(Date.now() - startedMs)}, mode ${mode}`);
      if (flags.beside) return await flags.beside(signalled);
      await new Promise<void>((ended) => signalled.addEventListener("abort", () => ended(), { once: true }));
    }
  } finally {
    await reloader?.stop();
    await system?.stop();
    hosts.stop();
    await target?.stop();
  }
  return 0;
}

/** A log without the components' reports about single syncs, because `dev` prints one line per sync. */
function quiet(log: Log): Log {
  return {
    ...log,
    info: () => undefined,
    error: (message, fields) => void (message.startsWith("sync failed") || log.error(message, fields)),
  };
}

function refuseProblems(definitions: readonly Definition[]): void {
  const problems = [...problemsOf(definitions, CONTROLLERS), ...definitions.flatMap(unsupportedBy)];
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
}

interface Running {
  readonly files: readonly string[];
  readonly hosts: OwnHosts;
  readonly target: OwnTarget;
  readonly system: OwnSystem;
  readonly loaded: LoadedHost;
}

/** Runs saved files, one save at a time. */
class Reloader {
  readonly #running: Running;
  readonly #watched: WatchedFiles;
  #definitions: string;
  #saved: string | undefined;
  #reloading: Promise<void> | undefined;
  #isStopped = false;

  constructor(running: Running) {
    this.#running = running;
    this.#definitions = JSON.stringify(running.loaded.definitions);
    this.#watched = watchFiles((file) => {
      this.#saved = file;
      this.#reloading ??= this.#untilNoneSaved().finally(() => (this.#reloading = undefined));
    });
    this.#watched.set(running.loaded.files);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#watched.close();
    await this.#reloading;
  }

  async #untilNoneSaved(): Promise<void> {
    while (this.#saved !== undefined && !this.#isStopped) {
      const saved = shown(this.#saved);
      this.#saved = undefined;
      await this.#reload(saved).catch((error: unknown) => {
        if (error instanceof LoadError) this.#watched.set([...this.#running.files.map((file) => resolve(file)), ...error.files]);
        for (const problem of messageOf(error).split("\n")) say(`${timeText(new Date())} ${problem}; the old code keeps running`);
      });
    }
  }

  async #reload(saved: string): Promise<void> {
    const startedMs = Date.now();
    const { hosts, target, system } = this.#running;
    const loaded = await hosts.load();
    try {
      this.#watched.set(loaded.files);
      const definitions = JSON.stringify(loaded.definitions);
      const isChanged = definitions !== this.#definitions;
      if (isChanged) {
        refuseProblems(loaded.definitions);
        await target.prepare(loaded.definitions);
      }
      if (isChanged) await system.redefine(loaded.definitions, () => loaded.use());
      else loaded.use();
      this.#definitions = definitions;
      const what = isChanged ? "loaded with changed definitions" : "loaded";
      const why = `${saved} saved`;
      const count = await system.requeue(why);
      say(`${timeText(new Date())} ${why}: ${what} in ${Date.now() - startedMs} ms, ${count} ${count === 1 ? "key" : "keys"} requeued`);
    } catch (error) {
      loaded.discard();
      throw error;
    }
  }
}

function say(line: string): void {
  process.stdout.write(`${printable(line)}\n`);
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
