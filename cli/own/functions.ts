/**
 * The function hosts of user controllers, seen from `dev`.
 *
 * FH1 a sync that has not ended after 60 s is killed with its host. Its key runs in a second host from then on until it ends in time, so a
 *     loop that never ends stops its own key only.
 * FH2 a host that ends is started again; the syncs that it ran have failed, and are retried with back-off.
 * FH3 at most `concurrency` keys of a controller run at a time.
 * FH4 saved files are loaded by a new host, while the old one runs. Once it is used, all later calls go to it; the old one is killed after a
 *     short time, and what it still runs fails and is retried. A key runs once at a time, so the writes of two versions never alternate.
 * FH5 with `keepsSpare`, the next new host has already started, because that takes longer than to load a file.
 */
import { createSlots } from "@deltaloop/base";
import { SyncFailure } from "@deltaloop/controllers/own";
import type { OwnFunctions } from "@deltaloop/controllers/own";
import { EndlessError, Host } from "./host.ts";
import type { HostOptions, Loaded } from "./host.ts";

/** Time in which running syncs may end after their files were saved. */
const REPLACED_MS = 200;
/** Why a sync failed that would have run old code. */
export const REPLACED = "its files were saved while it ran";

export interface OwnHosts extends OwnFunctions {
  /** Loads the files in a new host. @throws {LoadError} if one does not load */
  load(): Promise<LoadedHost>;
  stop(): void;
}

export interface LoadedHost extends Loaded {
  /** Runs all later calls in this host. */
  use(): void;
  discard(): void;
}

export function ownHosts(options: HostOptions & { readonly keepsSpare?: boolean }): OwnHosts {
  let usual: Host | undefined;
  let second: Host | undefined;
  let slots = new Map<string, ReturnType<typeof createSlots>>();
  let spare: Host | undefined;
  const stopped = new AbortController();
  const endless = new Set<string>();
  const hosts = new Set<Host>();
  const start = (name: string): Host => {
    const host = new Host(name, options);
    hosts.add(host);
    return host;
  };
  const stop = (host: Host | undefined, why: string): void => {
    host?.stop(why);
    if (host) hosts.delete(host);
  };

  function use(host: Host, { definitions }: Loaded): void {
    const replaced = [usual, second];
    usual = host;
    second = undefined;
    endless.clear();
    slots = new Map(definitions.map(({ name, concurrency }) => [name, createSlots(concurrency)]));
    void options.clock.after(REPLACED_MS, stopped.signal).then(
      () => replaced.forEach((each) => stop(each, REPLACED)),
      () => undefined, // all are stopped
    );
  }

  return {
    async load() {
      const host = spare?.isStopped === false ? spare : start("function host");
      spare = undefined;
      try {
        const loaded = await host.loaded();
        return { ...loaded, use: () => use(host, loaded), discard: () => stop(host, "not used") };
      } catch (error) {
        stop(host, "does not load");
        throw error;
      } finally {
        if (options.keepsSpare && !stopped.signal.aborted) spare = start("function host");
      }
    },
    stop() {
      stopped.abort(new SyncFailure("stopping"));
      for (const host of hosts) stop(host, "stopping");
    },
    async sync(call) {
      const key = `${call.controller} ${call.key}`;
      const release = await slots.get(call.controller)?.acquire(stopped.signal);
      const host = endless.has(key) ? (second ??= start("second function host")) : usual;
      try {
        const result = await host?.sync(call);
        if (host === usual || host === second) endless.delete(key);
        return result;
      } catch (error) {
        if (error instanceof EndlessError && (host === usual || host === second)) endless.add(key);
        throw error;
      } finally {
        release?.();
      }
    },
  };
}
