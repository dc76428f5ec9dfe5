// Closed replays: the actions of users and nodes are repeated, and deltaloop's controllers must reach the same result as upstream's.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { functionHandlers } from "../../cli/functions/functions.ts";
import { createDigester } from "../../shared/kube/pod-template/digest.ts";
import { closedReplay, type ClosedEnd } from "../../shared/replay/closed/closed.ts";
import { releaseOfCapture } from "../captures/releases.ts";
import { shareOf } from "../support/share.ts";
import { silentLog } from "../support/silent-log.ts";
import { changesOf, lifeOf, readCapture } from "../support/held-capture.ts";

const CAPTURES = join(import.meta.dirname, "../captures");
const names = readdirSync(CAPTURES).flatMap((file) => (file.endsWith(".watch.jsonl.gz") ? [file.replace(".watch.jsonl.gz", "")] : []));
const digester = createDigester("a key of this test alone");

async function lived(name: string, seed: number): Promise<{ readonly end: ClosedEnd; readonly errors: readonly string[] }> {
  const release = releaseOfCapture(name);
  const changes = changesOf(readCapture(join(CAPTURES, `${name}.watch.jsonl.gz`)), { name, digester, malformed: () => undefined });
  const errors: string[] = [];
  const end = await closedReplay(lifeOf(changes), {
    ...{ digester, seed, release: () => release, log: silentLog, functions: functionHandlers, onPerson: () => undefined },
    onSync: ({ key, error }) => void (error !== undefined && errors.push(`${key}: ${error}`)),
  });
  return { end, errors };
}

/** Recordings in which users changed pods with random names, so that these actions cannot be repeated exactly and the results differ. */
const NAMED_PODS = [
  {
    name: "replica-set-deleted",
    left: /^delete Pod replica-set-deleted\/web-/,
    differs: "Pod replica-set-deleted/web-*****: count: recorded 2, replayed 3",
  },
  { name: "tied-deletions", left: /^labels of Pod default\/c-/, differs: "Pod default/c-***** exists only in the recording" },
];

describe("replays of each recording with our controllers end in the recorded state", () => {
  it.each(
    names
      .filter((name) => !NAMED_PODS.some((each) => each.name === name))
      .flatMap((name) => shareOf([1, 2, 3], 1).map((seed) => ({ name, seed }))),
  )("$name ends in the recorded state with seed $seed", async ({ name, seed }) => {
    const { end, errors } = await lived(name, seed);
    expect(end.disagreements).toEqual([]);
    expect(errors).toEqual([]);
  });
});

it.each(NAMED_PODS)(
  "reports user actions on a pod with a random name, and that the result differs only in that pod: $name",
  async (named) => {
    const { end } = await lived(named.name, 1);
    expect(end.left).toEqual([expect.stringMatching(named.left)]);
    expect(end.disagreements).toEqual([named.differs]);
  },
);
