/**
 * A random history: after each step of its script, ours and upstream's controller each run one sync on the same state, and the results are
 * compared.
 */
import type { Controller } from "../../shared/kube/objects/resources.ts";
import type { Release } from "../../shared/kube/releases.ts";
import { SharedApiServer, Door, type Fault, type Write } from "./shared-api-server.ts";
import { diceOf } from "./dice.ts";
import type { Judge, Question } from "./judge.ts";
import { verdictOn, type Verdict } from "./known.ts";
import { syncOurs } from "./ours.ts";
import { outcomeOf, type Outcome, type Sync } from "./outcome.ts";
import { scriptOf } from "./scripts.ts";

const SYNCS = 8;
/**
 * Maximum number of repetitions. Four items in random order match ours with a probability of 1/24, so that 100 repetitions miss a match in
 * one of 70 cases.
 */
const TRIES_MAX = 100;

export interface Judged {
  /** The number of the sync, from 1. */
  readonly nth: number;
  readonly faults: readonly Fault[];
  readonly ours: Outcome;
  readonly upstream: Outcome;
  readonly verdict: Verdict;
}

/** Returns upstream's result, on repetition possibly in another order. Undefined: there is no other result. */
type Upstream = (shared: SharedApiServer, asked: Asked, nth: number, tries: number) => Promise<Outcome | undefined>;

interface Asked extends Omit<Question, "nowMs"> {
  readonly faults: readonly Fault[];
}

/**
 * Upstream runs on the state in which ours ran; the history continues with our result.
 *
 * @param release the release whose rules our controller applies; default: the compared release
 */
export async function* playLife(controller: Controller, seed: number, upstream: Upstream, release?: Release): AsyncGenerator<Judged> {
  const dice = diceOf(seed);
  const shared = await SharedApiServer.create(release);
  const script = scriptOf(shared, dice, controller);
  await script.begin();
  for (let nth = 1; nth <= SYNCS; nth++) {
    if (nth > 1) await script.step();
    const observed = await shared.state();
    const asked = { controller, key: script.key, observed, faults: script.faults() };
    const before = shared.mark();
    const ours = outcomeOf(await syncOurs(shared, asked));
    const after = shared.mark();
    let judged: Judged | undefined;
    for (let tries = 0; tries < TRIES_MAX && (judged === undefined || judged.verdict.kind === "differs"); tries++) {
      before();
      const outcome = await upstream(shared, asked, nth, tries);
      if (outcome === undefined) break;
      const verdict = verdictOn(outcome, ours, observed);
      if (judged === undefined || verdict.kind !== "differs") judged = { nth, faults: asked.faults, ours, upstream: outcome, verdict };
    }
    after();
    if (judged === undefined) break;
    yield judged;
  }
  shared.server.close();
}

/** Runs upstream's controllers. */
export function asking(judge: Judge): Upstream {
  return async (shared, asked) => outcomeOf(await syncUpstream(shared, judge, asked));
}

/** Replays upstream's recorded result. */
export function recalling(outcomes: readonly Outcome[]): Upstream {
  return (_cluster, _asked, nth, tries) => Promise.resolve(tries === 0 ? outcomes[nth - 1] : undefined);
}

/**
 * Runs a sync of upstream and, if necessary, its follow-up: when a write is rejected because of an earlier write of the same sync
 * (deployment Q11), the sync runs again.
 */
async function syncUpstream(shared: SharedApiServer, judge: Judge, { faults, ...asked }: Asked): Promise<Sync> {
  const nowMs = shared.clock.now();
  const again = async (door: Door) => judge.sync(door, { ...asked, nowMs, observed: await shared.state() });
  const door = new Door(shared.server, faults);
  let { events, ending } = await judge.sync(door, { ...asked, nowMs });
  for (let seen = 0; door.writes.slice(seen).some(isStale);) {
    seen = door.writes.length;
    const next = await again(door);
    events = [...events, ...next.events];
    ending = next.ending;
  }
  const first = door.writes.findIndex(isStale);
  const writes = door.writes.filter((write) => !isStale(write));
  const isStatusAlone = writes.length > 0 && writes.every(({ resource, status }) => resource === "deployments/status" && status < 400);
  if (ending.kind === "done" && isStatusAlone) {
    // The event of upstream's own status write starts another sync; ours enqueues no key for it and requeues its own key.
    const follows = new Door(shared.server, []);
    const next = await again(follows);
    ending = follows.writes.length > 0 ? { kind: "again", afterMs: 0 } : next.ending;
  }
  return { writes, events, ending, ...(first >= 0 && { begunAnewAfter: first }) };
}

function isStale({ verb, status, refused }: Write): boolean {
  return verb === "change" && status === 409 && !refused;
}
