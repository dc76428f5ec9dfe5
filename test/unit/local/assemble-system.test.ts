import { expect, it } from "vitest";

import { functionHandlers } from "../../../cli/functions/functions.ts";
import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { syncFunction } from "../../../shared/controllers/registry/names.ts";
import type { MessageSource } from "../../../shared/store/ports/delta-queue.ts";
import { CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import { createDigester } from "../../../shared/kube/pod-template/digest.ts";
import { assembleSystem, memoryBackend } from "../../../shared/local/assemble-system.ts";
import { createSigner } from "../../../shared/store/signer.ts";

it("gives each function its own queue, so that failed records are redelivered after seconds (BA4)", async () => {
  const [clock, random, digester] = [createVirtualClock(0), createSeededRandom(1), createDigester("a key of this test alone")];
  const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };
  const backend = memoryBackend({ clock, random, digester, deployment: "test", cluster: "c" });
  const given = new Map<string, unknown>();
  const system = assembleSystem(
    {
      ...{ clock, random, digester, log, ...backend, signer: createSigner(["key"], "c"), kube: (): never => ({}) as never },
      functions: (wiring, onChanges) =>
        functionHandlers((name) => {
          given.set(name, wiring(name).source);
          return wiring(name);
        }, onChanges),
    },
    { cluster: "c", clusterUid: "uid", watchers: 0 },
  );
  const { deltas, doorbells } = backend.sources;
  const expected: [string, MessageSource | undefined][] = CONTROLLERS.map((name) => [syncFunction(name), doorbells[name]]);
  expect(given).toEqual(new Map([["apply-deltas", deltas], ["dead-deltas", undefined], ...expected]));
  const stopped = system.stop();
  await clock.advance(10_000);
  await stopped;
});
