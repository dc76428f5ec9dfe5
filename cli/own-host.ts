/**
 * `deltaloop own-host`: runs the `sync` functions of user controllers, started by `dev`. It has no credentials and no keys: it gets
 * snapshots, requests live reads from its parent, and returns results. If it exits, only the running sync fails.
 */
import { basename } from "node:path";
import type { Command } from "commander";
import { messageOf } from "@deltaloop/kube/objects";
import { printable } from "@deltaloop/base/output";
import { createContext } from "@deltaloop/sdk/context";
import type { VisibleObject } from "@deltaloop/sdk/context";
import { loadFiles, placeOf } from "./own/load-files.ts";
import type { FromHost, ToHost } from "./own/messages.ts";

export function registerOwnHost(program: Command): void {
  program
    .command("own-host", { hidden: true })
    .description("Runs the functions of user controllers; a component of `dev`.")
    .argument("<file...>", "files that export controllers")
    .action(runOwnHost);
}

/** A read by `live` failed. */
class ReadError extends Error {}

/** Time between the abort of `signal` and the kill of the process. */
const ABORT_MS = 50_000;

async function runOwnHost(named: readonly string[]): Promise<void> {
  process.on("disconnect", () => process.exit());
  // Ignores signals, because the parent decides when this process ends.
  for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"] as const) process.on(signal, () => undefined);
  const say = (message: FromHost): void => void process.send?.(message);
  const load = new Promise<void>((resolve) => {
    process.on("message", (message: ToHost) => message.kind === "load" && resolve());
  });
  say({ kind: "started" });
  await load;
  const loaded = await loadFiles(named, (file) => say({ kind: "loads", file }));
  const { files, problem } = loaded;
  if (problem !== undefined) return say({ kind: "unloadable", problem, files }); // the parent ends this process
  const controllers = new Map(loaded.controllers.map((controller) => [controller.name, controller]));
  const reads = new Map<number, (answer: Extract<ToHost, { readonly kind: "read" }>) => void>();
  let lastRead = 0;

  async function sync({ id, controller, key, snapshot, nowMs }: Extract<ToHost, { readonly kind: "sync" }>): Promise<unknown> {
    const found = controllers.get(controller);
    if (found === undefined) throw new Error(`no controller ${controller}`);
    const live = async (of: Parameters<Parameters<typeof createContext>[2]["live"]>[0], name: string, namespace: string) => {
      const read = ++lastRead;
      const answer = Promise.withResolvers<VisibleObject | undefined>();
      reads.set(read, ({ object, error }) => (error === undefined ? answer.resolve(object) : answer.reject(new ReadError(error))));
      const { group, version, kind, plural, scope } = of;
      say({ kind: "live", id, read, of: { group, version, kind, plural, scope }, name, namespace });
      const object = await answer.promise;
      say({ kind: "runs", id });
      return object;
    };
    const log = {
      info: (message: string, fields: Readonly<Record<string, string | number | boolean>> = {}): void => {
        const shown = Object.entries(fields).map(([name, value]) => ` ${name}=${value}`);
        process.stderr.write(`${printable(`${controller} ${key}: ${message}${shown.join("")}`)}\n`);
      },
    };
    say({ kind: "runs", id });
    const signal = AbortSignal.timeout(ABORT_MS);
    return await found.sync(createContext(found.definition, snapshot, { now: new Date(nowMs), signal, log, live }));
  }

  const placeIn = (error: unknown): string | undefined => placeOf(error, [...named, ...files]);
  /** `TypeError: … at website.ts:14:31`. */
  const textOf = (error: unknown): string => {
    if (!(error instanceof Error)) return messageOf(error);
    const place = placeIn(error);
    return `${error.name === "Error" ? "" : `${error.name}: `}${error.message}${place === undefined ? "" : ` at ${place}`}`;
  };
  const failureOf = (id: number, error: unknown): FromHost => {
    const place = placeIn(error);
    return {
      ...{ kind: "failed", id, error: textOf(error), name: error instanceof Error ? error.name : "Error" },
      ...(place !== undefined && { place: basename(place) }),
      isRead: error instanceof ReadError,
    };
  };

  process.on("message", (message: ToHost) => {
    if (message.kind === "read") {
      reads.get(message.read)?.(message);
      reads.delete(message.read);
      return;
    }
    if (message.kind === "load") return;
    const { id } = message;
    sync(message)
      .then((result) => say({ kind: "returned", id, result }))
      .catch((error: unknown) => say(failureOf(id, error)));
  });
  // A promise that the developer's code does not await must not end the other keys' syncs.
  process.on("unhandledRejection", (error) => process.stderr.write(`${printable(`unhandled rejection: ${textOf(error)}`)}\n`));
  say({ kind: "loaded", definitions: loaded.controllers.map(({ definition }) => definition), files });
}
