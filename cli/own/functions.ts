/**
 * The function host of user controllers, seen from `dev`.
 *
 * FH1 a sync that has not ended after 60 s is killed with its host. Its key runs in a second host from then on until it ends in time, so a
 *     loop that never ends stops its own key only.
 * FH2 a host that ends is started again; the syncs that it ran have failed, and are retried with back-off.
 * FH3 at most `concurrency` keys of a controller run at a time.
 */
import { createSlots } from "@deltaloop/base";
import type { Clock, Log } from "@deltaloop/base";
import { messageOf } from "@deltaloop/kube/objects";
import type { OwnCall, OwnFunctions } from "@deltaloop/controllers/own";
import type { MessagingChild } from "@deltaloop/local/processes";
import type { Definition } from "@deltaloop/sdk/definitions";
import type { FromHost, ToHost } from "./messages.ts";

const SYNC_MS_MAX = 60_000;
const RESTART_MS = 1_000;
const READY_MS_MAX = 30_000;

export interface OwnHosts extends OwnFunctions {
  /** Resolves when the host can be called. @throws {Error} if it does not start */
  ready(): Promise<void>;
  stop(): void;
}

interface HostOptions {
  readonly start: () => MessagingChild;
  readonly clock: Clock;
  readonly log: Log;
}

export function ownHosts(definitions: readonly Definition[], options: HostOptions): OwnHosts {
  const usual = new Host("function host", options);
  let second: Host | undefined;
  const stopped = new AbortController();
  const endless = new Set<string>();
  const slots = new Map(definitions.map(({ name, concurrency }) => [name, createSlots(concurrency)]));
  return {
    ready: () => usual.ready(),
    stop() {
      stopped.abort(new Error("stopping"));
      usual.stop();
      second?.stop();
    },
    async sync(call) {
      const key = `${call.controller} ${call.key}`;
      const release = await slots.get(call.controller)?.acquire(stopped.signal);
      const host = endless.has(key) ? (second ??= new Host("second function host", options)) : usual;
      try {
        const result = await host.sync(call);
        endless.delete(key);
        return result;
      } catch (error) {
        if (error instanceof EndlessError) endless.add(key);
        throw error;
      } finally {
        release?.();
      }
    },
  };
}

class EndlessError extends Error {
  override readonly name = "EndlessError";
  constructor() {
    super(`sync did not end within ${SYNC_MS_MAX / 1_000} s: killed with its function host`);
  }
}

interface Waiting extends PromiseWithResolvers<unknown> {
  readonly call: OwnCall;
}

class Host {
  readonly #name: string;
  readonly #options: HostOptions;
  readonly #waiting = new Map<number, Waiting>();
  #child: MessagingChild | undefined;
  #ready: PromiseWithResolvers<void> = Promise.withResolvers();
  #calls = 0;
  /** The call whose code ran last. */
  #running: number | undefined;
  #isStopped = false;

  constructor(name: string, options: HostOptions) {
    this.#name = name;
    this.#options = options;
    this.#start();
  }

  async ready(): Promise<void> {
    await Promise.race([
      this.#ready.promise,
      this.#options.clock.after(READY_MS_MAX).then(() => Promise.reject(new Error(`the ${this.#name} does not start`))),
    ]);
  }

  stop(): void {
    this.#isStopped = true;
    this.#child?.kill();
  }

  async sync(call: OwnCall): Promise<unknown> {
    await this.ready();
    const id = ++this.#calls;
    const waiting: Waiting = { ...Promise.withResolvers<unknown>(), call };
    this.#waiting.set(id, waiting);
    const { controller, key, snapshot, nowMs } = call;
    this.#send({ kind: "sync", id, controller, key, snapshot, nowMs });
    const ended = new AbortController();
    void this.#options.clock.after(SYNC_MS_MAX, ended.signal).then(
      () => this.#end(id),
      () => undefined, // it has ended
    );
    try {
      return await waiting.promise;
    } finally {
      ended.abort();
      this.#waiting.delete(id);
    }
  }

  /** FH1. While one key's code never returns, the time of all others passes too. */
  #end(id: number): void {
    const blocking = this.#running !== undefined && this.#waiting.has(this.#running) ? this.#running : id;
    this.#waiting.get(blocking)?.reject(new EndlessError());
    this.#child?.kill();
  }

  #send(message: ToHost): void {
    this.#child?.send(message);
  }

  #start(): void {
    const { start, log, clock } = this.#options;
    const child = start();
    this.#child = child;
    log.info(`${this.#name} started`, { pid: child.pid });
    child.onMessage((message) => this.#hear(message as FromHost)); // cli/own-host.ts sends it
    void child.exited.then(async ({ code, signal }) => {
      const how = signal ?? `code ${code}`;
      this.#ready = Promise.withResolvers();
      this.#running = undefined;
      for (const { reject } of this.#waiting.values()) reject(new Error(`the function host ended (${how})`));
      this.#waiting.clear();
      if (this.#isStopped) return;
      log.warn(`${this.#name} ended, restarting it`, { pid: child.pid, how });
      await clock.after(RESTART_MS);
      if (!this.#isStopped) this.#start();
    });
  }

  #hear(message: FromHost): void {
    switch (message.kind) {
      case "ready":
        return this.#ready.resolve();
      case "runs":
        this.#running = message.id;
        return;
      case "returned":
        return this.#waiting.get(message.id)?.resolve(message.result);
      case "failed":
        return this.#waiting.get(message.id)?.reject(new Error(message.error));
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
