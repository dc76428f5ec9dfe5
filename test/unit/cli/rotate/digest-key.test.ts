/**
 * `deltaloop rotate digest-key`. Catches: a key that is printed, weaker than docs/internals/threat-model.md requires, or written to another
 * secret; a "done" before the gates of the new epoch are open; a duration that includes earlier steps; and an abort because Redis was
 * briefly unavailable.
 */
import { afterEach, expect, it } from "vitest";

import { rotateDigestKey, untilRebuilt } from "../../../../cli/rotate/digest-key.ts";
import { CONTROLLERS, tableOf } from "../../../../shared/kube/objects/resources.ts";
import { environmentOf } from "../../../../shared/controllers/lambda/configuration.ts";
import type { Store } from "../../../../shared/store/ports/store.ts";
import { startSecretsStandIn } from "../../../support/secrets-stand-in.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

type EpochInfo = NonNullable<Awaited<ReturnType<Store["epoch"]>>>;
type GateState = Awaited<ReturnType<Store["gate"]>>;

const OLD = "the digest key of the tests";
const SECRET = "deltaloop/test/digest-key";
const NOBODY = "http://127.0.0.1:9/q";
const CONFIGURATION = {
  deployment: "test",
  cluster: "0123456789ab",
  mode: "act",
  digestKey: OLD,
  macKeys: ["the MAC key of the tests"],
  redis: { url: "redis://127.0.0.1:9", cluster: false },
  kube: { server: "https://127.0.0.1:9" },
  queues: { deltas: NOBODY, doorbells: tableOf(CONTROLLERS, () => NOBODY) },
  logLevel: "error",
  metrics: "none",
} as const;

/** A clock that only waits advance, and the recorded output. */
function scene() {
  const said: string[] = [];
  const ending = new AbortController();
  let nowMs = 0;
  const after = (ms: number): Promise<void> => {
    nowMs += ms;
    return Promise.resolve();
  };
  return {
    said,
    ending,
    waits: { waitMs: 300_000, say: (line: string) => void said.push(line), now: () => nowMs, after, signal: ending.signal },
  };
}

/** A Store that returns the next of `epochs` and of `gates` at each read; the last value repeats. */
function storeOf(epochs: readonly (string | Error | undefined)[], gates: readonly (GateState | Error)[]): Pick<Store, "epoch" | "gate"> {
  const next = <T>(list: readonly T[], at: number): T => list[Math.min(at, list.length - 1)] as T; // never empty
  const looks = { epoch: 0, gate: 0 };
  return {
    epoch: async () => {
      const prefix = next(epochs, looks.epoch++);
      if (prefix instanceof Error) throw prefix;
      return prefix === undefined ? undefined : ({ digestPrefix: prefix } as EpochInfo); // the verb reads only this field
    },
    gate: async (controller) => {
      const gate = next(gates, looks.gate);
      if (controller === CONTROLLERS.at(-1)) looks.gate++;
      if (gate instanceof Error) throw gate;
      return gate;
    },
  };
}

const OPEN: GateState = { open: true };
const SHUT: GateState = { open: false, reason: "pods are not synced" };

it.each<{
  name: string;
  epochs: readonly (string | Error | undefined)[];
  gates: readonly (GateState | Error)[];
  done: boolean;
  said: readonly string[];
}>([
  {
    name: "measures the time from the new epoch to open gates, not from the start of the command",
    epochs: ["old", "old", "old", undefined, "new"],
    gates: [SHUT, SHUT, SHUT, OPEN],
    done: true,
    said: ["the new epoch has begun, relisting everything", "gates were closed for 0.6 s"],
  },
  {
    name: "does not count open gates of the former epoch for the new one",
    epochs: ["old"],
    gates: [OPEN],
    done: false,
    said: ["no watcher has begun a new epoch: is one running?"],
  },
  {
    name: "reports gates that stay closed, with their reason",
    epochs: ["new"],
    gates: [SHUT],
    done: false,
    said: ["the new epoch has begun, relisting everything", "the gates are still closed: run deltaloop doctor to see why"],
  },
  {
    name: "reports an unavailable Redis once and retries",
    epochs: ["old", new Error("connect ECONNREFUSED"), new Error("connect ECONNREFUSED"), "new"],
    gates: [new Error("LOADING"), OPEN],
    done: true,
    said: [
      "Redis does not answer, retrying: connect ECONNREFUSED",
      "the new epoch has begun, relisting everything",
      "Redis does not answer, retrying: LOADING",
      "gates were closed for 0.2 s",
    ],
  },
])("$name", async ({ epochs, gates, done, said }) => {
  const { said: heard, waits } = scene();
  expect(await untilRebuilt(storeOf(epochs, gates), "new", waits)).toBe(done);
  expect(heard).toEqual(said);
});

it("[informer T116] ends immediately on a signal, without reporting on the watcher", async () => {
  const { said, ending, waits } = scene();
  ending.abort();
  expect(await untilRebuilt(storeOf(["old"], [SHUT]), "new", waits)).toBe(false);
  expect([said, waits.now()]).toEqual([["interrupted; the key is written, and the watcher uses it without this command"], 0]);
});

it("writes a new key of 256 bits once, only to its own secret, and prints no key", async () => {
  const server = await startSecretsStandIn({ [SECRET]: OLD, "deltaloop/test/mac-key": CONFIGURATION.macKeys[0] });
  ends.push(server.stop);
  const { said, ending, waits } = scene();
  const environment = {
    ...environmentOf(CONFIGURATION),
    DELTALOOP_DIGEST_KEY: undefined,
    DELTALOOP_DIGEST_KEY_SECRET: SECRET,
    DELTALOOP_MAC_KEY: undefined,
    DELTALOOP_MAC_KEY_SECRET: "deltaloop/test/mac-key",
    DELTALOOP_SECRETS_ENDPOINT: server.endpoint,
  };
  const say = (line: string): void => {
    waits.say(line);
    // Without a watcher, no epoch is opened.
    ending.abort();
  };
  expect(await rotateDigestKey({ ...waits, say, environment, finish: false })).toBe(false);
  const fresh = server.values.get(SECRET) ?? "";
  expect(fresh).toMatch(/^[0-9a-f]{64}$/);
  expect(server.values.get("deltaloop/test/mac-key")).toBe(CONFIGURATION.macKeys[0]);
  expect(server.asked.filter(({ action }) => action === "PutSecretValue")).toEqual([{ action: "PutSecretValue", names: [SECRET] }]);
  expect(said[0]).toBe("the new digest key is written; within 300 s the watcher reads it and begins a new epoch");
  expect(said.join("\n")).not.toContain(fresh);
  expect(said.join("\n")).not.toContain(OLD);
});

it.each([
  {
    name: "a key that the environment contains as plain text",
    variables: { DELTALOOP_DIGEST_KEY: OLD },
    says: "DELTALOOP_DIGEST_KEY_SECRET is not in the environment: to rotate a key that is not in a secret, set the new key and deploy again",
  },
  {
    name: "a secret that it has no permission to write",
    variables: { DELTALOOP_DIGEST_KEY: undefined, DELTALOOP_DIGEST_KEY_SECRET: SECRET },
    says: `${SECRET}: access is denied: allow secretsmanager:PutSecretValue on it`,
  },
])("rejects $name, and writes nothing", async ({ variables, says }) => {
  const server = await startSecretsStandIn({ [SECRET]: OLD });
  ends.push(server.stop);
  server.refused.set("PutSecretValue", "AccessDeniedException");
  const { waits } = scene();
  const environment = { ...environmentOf(CONFIGURATION), ...variables, DELTALOOP_SECRETS_ENDPOINT: server.endpoint };
  await expect(rotateDigestKey({ ...waits, environment, finish: false })).rejects.toThrow(says);
  expect(server.values.get(SECRET)).toBe(OLD);
});
