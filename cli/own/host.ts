/** One function host: a process that loads the files when it is asked to, and runs their `sync` functions. */
import type { Clock, Log } from "@deltaloop/base";
import { UsageError } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";
import { failureOfCode, SyncFailure } from "@deltaloop/controllers/own";
import type { OwnCall } from "@deltaloop/controllers/own";
import type { MessagingChild } from "@deltaloop/local/processes";
import type { Definition } from "@deltaloop/sdk/definitions";
import type { FromHost, ToHost } from "./messages.ts";

const SYNC_MS_MAX = 60_000;
const LOAD_MS_MAX = 5_000;
const START_MS_MAX = 30_000;
const RESTART_MS = 1_000;

export interface HostOptions {
  readonly start: () => MessagingChild;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Loaded {
  readonly definitions: readonly Definition[];
  /** Paths of the files and of their imports, except packages. */
  readonly files: readonly string[];
}

/** A file could not be loaded. The message is one line. */
export class LoadError extends UsageError {
  /** The files of `Loaded`, as far as they are known. */
  readonly files: readonly string[];

  constructor(problem: string, files: readonly string[] = []) {
    super(problem);
    this.files = files;
  }
}

export class EndlessError extends SyncFailure {
  constructor() {
    super(ENDLESS, ENDLESS);
  }
}
const ENDLESS = `sync did not end within ${SYNC_MS_MAX / 1_000} s: killed with its function host`;

interface Waiting extends PromiseWithResolvers<unknown> {
  readonly call: OwnCall;
}

export class Host {
  readonly #name: string;
  readonly #options: HostOptions;
  readonly #waiting = new Map<number, Waiting>();
  #child: MessagingChild | undefined;
  #loaded: PromiseWithResolvers<Loaded> = Promise.withResolvers();
  #loading = "";
  #isAsked = false;
  #isStarted = false;
  #loadTimer = new AbortController();
  #calls = 0;
  /** The call whose code ran last. */
  #running: number | undefined;
  /** Why the host does not start again. */
  #stopped: string | undefined;

  constructor(name: string, options: HostOptions) {
    this.#name = name;
    this.#options = options;
    this.#start();
  }

  /** Loads the files at the first call. @throws {LoadError} if a file does not load */
  async loaded(): Promise<Loaded> {
    if (!this.#isAsked) {
      this.#isAsked = true;
      this.#load();
    }
    return await this.#loaded.promise;
  }

  /** The time to load is limited; a process that waits for `load` may wait for long. */
  #load(): void {
    this.#limitLoad(START_MS_MAX, () => `the ${this.#name} does not start`);
    if (this.#isStarted) this.#send({ kind: "load" });
  }

  get isStopped(): boolean {
    return this.#stopped !== undefined;
  }

  /** Fails the running syncs with `why`. */
  stop(why: string): void {
    this.#stopped = why;
    this.#child?.kill();
  }

  async sync(call: OwnCall): Promise<unknown> {
    await this.loaded();
    const id = ++this.#calls;
    const waiting: Waiting = { ...Promise.withResolvers<unknown>(), call };
    this.#waiting.set(id, waiting);
    const { controller, key, snapshot, nowMs } = call;
    this.#send({ kind: "sync", id, controller, key, snapshot, nowMs });
    const ended = new AbortController();
    this.#after(SYNC_MS_MAX, ended.signal, () => this.#end(id));
    try {
      return await waiting.promise;
    } finally {
      ended.abort();
      this.#waiting.delete(id);
    }
  }

  /**
   * Kills the host because the sync `id` has timed out (FH1). If another key's code is still running, it has blocked this sync, so that
   * key's sync fails instead.
   */
  #end(id: number): void {
    const blocking = this.#running !== undefined && this.#waiting.has(this.#running) ? this.#running : id;
    this.#waiting.get(blocking)?.reject(new EndlessError());
    this.#child?.kill();
  }

  #send(message: ToHost): void {
    this.#child?.send(message);
  }

  #after(ms: number, signal: AbortSignal, act: () => void): void {
    void this.#options.clock.after(ms, signal).then(act, () => undefined); // it has ended in time
  }

  #start(): void {
    const child = this.#options.start();
    this.#child = child;
    this.#loaded.promise.catch(() => undefined); // it may have no awaiter
    this.#loading = "";
    this.#isStarted = false;
    if (this.#isAsked) this.#load();
    child.onMessage((message) => this.#hear(message as FromHost)); // cli/own-host.ts sends it
    void child.exited.then(({ code, signal }) => this.#exited(child.pid, signal ?? `code ${code}`));
  }

  async #exited(pid: number, how: string): Promise<void> {
    const { log, clock } = this.#options;
    this.#fail(
      `${this.#loading === "" ? `the ${this.#name}` : `${this.#loading}:`} exited the process while it loaded: remove the call of process.exit`,
    );
    const why = this.#stopped ?? `the function host exited (${how})`;
    for (const [id, { reject }] of this.#waiting)
      reject(new SyncFailure(why, this.#stopped === undefined && id === this.#running ? why : undefined));
    this.#waiting.clear();
    if (this.#stopped !== undefined) return;
    this.#loaded = Promise.withResolvers();
    this.#running = undefined;
    log.warn(`${this.#name} exited; restarting it`, { pid, how });
    await clock.after(RESTART_MS);
    if (this.#stopped === undefined) this.#start();
  }

  #limitLoad(ms: number, problem: () => string): void {
    this.#loadTimer.abort();
    this.#loadTimer = new AbortController();
    this.#after(ms, this.#loadTimer.signal, () => this.#fail(problem()));
  }

  /** Has no effect after loading has ended. A file that fails to load is not retried. */
  #fail(problem: string, files: readonly string[] = []): void {
    if (this.#loadTimer.signal.aborted) return;
    this.#loadTimer.abort();
    this.#loaded.reject(new LoadError(problem, files));
    this.stop(problem);
  }

  #hear(message: FromHost): void {
    switch (message.kind) {
      case "started":
        this.#isStarted = true;
        return this.#isAsked ? this.#send({ kind: "load" }) : undefined;
      case "loads":
        this.#loading = message.file;
        return this.#limitLoad(
          LOAD_MS_MAX,
          () => `${message.file}: does not load within ${LOAD_MS_MAX / 1_000} s: move slow work into \`sync\``,
        );
      case "loaded":
        this.#loadTimer.abort();
        this.#options.log.info(`${this.#name} started`, { pid: this.#child?.pid });
        return this.#loaded.resolve({ definitions: message.definitions, files: message.files });
      case "unloadable":
        return this.#fail(message.problem, message.files);
      case "runs":
        this.#running = message.id;
        return;
      case "returned":
        return this.#waiting.get(message.id)?.resolve(message.result);
      case "failed":
        return this.#waiting.get(message.id)?.reject(failureOf(message));
      case "live":
        return void this.#read(message);
    }
  }

  async #read({ id, read, of, name, namespace }: Extract<FromHost, { readonly kind: "live" }>): Promise<void> {
    try {
      const object = await this.#waiting.get(id)?.call.live(of, name, namespace);
      this.#send({ kind: "read", id, read, ...(object && { object }) });
    } catch (error) {
      this.#send({ kind: "read", id, read, error: messageOf(error) });
    }
  }
}

/** A failed read of `live` is no fault of the code. */
function failureOf({ error, name, place, isRead }: Extract<FromHost, { readonly kind: "failed" }>): SyncFailure {
  return isRead ? new SyncFailure(error) : failureOfCode(error, name, place);
}
