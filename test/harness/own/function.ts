/** The bundled function of user controllers, without any controller: only the size of the bundle matters. */
import { createSyncFunction, deployed } from "../../../shared/controllers/lambda.ts";
import type { SqsHandler } from "../../../shared/controllers/lambda.ts";
import { ownControllers, ownKeySync, registryOf } from "../../../shared/controllers/own.ts";
import type { ControllerName } from "../../../shared/kube/objects.ts";
import { createContext } from "../../../shared/sdk/context.ts";
import type { Controller } from "../../../shared/sdk/index.ts";

const controllers = new Map<string, Controller>();
const [name] = process.argv;
const entries = ownControllers([...controllers.values()].map(({ definition }) => definition));
const report = (): void => undefined;

export const handler: SqsHandler = deployed("replicaset", (wiring) => {
  const functions = {
    sync: async ({ controller, snapshot, nowMs, live }: Parameters<Parameters<typeof ownKeySync>[1]["functions"]["sync"]>[0]) => {
      const found = controllers.get(controller);
      if (found === undefined) throw new Error(`no controller ${controller}`);
      const context = { now: new Date(nowMs), signal: new AbortController().signal, log: { info: report }, live };
      return await found.sync(createContext(found.definition, snapshot, context));
    },
  };
  const syncs = Object.fromEntries(entries.map((entry) => [entry.name, ownKeySync(entry, { functions, report })]));
  return createSyncFunction(wiring, registryOf(entries), name as ControllerName, syncs);
});
