/** Checks of the work queue and the intents: whether due keys are processed. */
import { EXPECTATION_MS } from "@deltaloop/base";
import { syncFunction } from "@deltaloop/controllers/registry";
import type { CacheFacts, ControllerFacts, Facts } from "./facts.ts";
import { failure, notChecked, ok, warning } from "./finding.ts";
import type { Finding } from "./finding.ts";
import { redisNowMs } from "./judge-cache.ts";
import { listOf, spanOf } from "./words.ts";

/** The sweeper rings keys that are overdue by 5 s, and a dead run's key is free within 30 s. */
const [DUE_WARNING_MS, DUE_FAILURE_MS] = [10_000, 45_000];
/** Number of failures from which a conflict or a restart no longer explains the retry delay. */
const FAILURES_MIN = 5;
/** A take reads the objects of an overdue intent live, so no overdue intent remains for a minute. */
const OVERDUE_MS = 60_000;

export function judgeWork(facts: Facts): readonly Finding[] {
  const nowMs = redisNowMs(facts);
  const { cache } = facts;
  const { controllers, intents } = cache;
  return [
    ...controllers.flatMap((controller) => judgeQueued(controller, nowMs)),
    ...controllers.map((controller) => judgeParked(controller, nowMs)),
    judgeIntents(intents, nowMs),
  ];
}

function judgeQueued({ controller, queued, gate }: ControllerFacts, nowMs: number | undefined): readonly Finding[] {
  const of = { of: controller };
  if (queued.kind === "unseen" || nowMs === undefined) {
    const why = queued.kind === "unseen" ? queued.why : "Redis' time is not known";
    return [notChecked("work.due", why, of), notChecked("work.failing", why, of)];
  }
  const free = queued.value.filter(({ leaseUntilMs = 0 }) => leaseUntilMs <= nowMs);
  const running = queued.value.length - free.length;
  // After a crashed run, its lease remains, and the key is due when the lease ends.
  const due = free
    .map(({ key, readyAtMs, leaseUntilMs = nowMs }) => ({ key, ageMs: nowMs - (readyAtMs ?? leaseUntilMs) }))
    .filter(({ ageMs }) => ageMs >= 0)
    .toSorted((a, b) => b.ageMs - a.ageMs);
  const [oldest] = due;
  const ageMs = oldest?.ageMs ?? 0;
  const seen = `${due.length} due${oldest === undefined ? "" : `, ${oldest.key} for ${spanOf(ageMs)}`}, ${running} running`;
  const more = { ...of, number: Math.round(ageMs / 1000) };
  const isShut = gate.kind === "seen" && !gate.value.open;
  const remedy = isShut
    ? "Open the gate first (cache.gate): keys wait for it."
    : `Check whether ${syncFunction(controller)} runs (its event source mapping, its errors, its token), and whether the sweeper, which resends lost doorbells, runs.`;
  const failing = queued.value.filter(({ failures }) => failures >= FAILURES_MIN).toSorted((a, b) => b.failures - a.failures);
  return [
    ageMs < DUE_WARNING_MS ? ok("work.due", seen, more) : (ageMs < DUE_FAILURE_MS ? warning : failure)("work.due", seen, remedy, more),
    failing.length === 0
      ? ok("work.failing", "no key fails", { ...of, number: 0 })
      : warning(
          "work.failing",
          listOf(failing.map(({ key, failures }) => `${key} ${failures} times`)),
          `Check the log of ${syncFunction(controller)} for the cause; each is retried with a delay of up to 1000 s.`,
          { ...of, number: failing.length },
        ),
  ];
}

function judgeParked({ controller, parked }: ControllerFacts, nowMs: number | undefined): Finding {
  const of = { of: controller };
  if (parked.kind === "unseen") return notChecked("work.parked", parked.why, of);
  const more = { ...of, number: parked.value.length };
  if (parked.value.length === 0) return ok("work.parked", "no parked key", more);
  const seen = listOf(
    parked.value.map(({ key, sinceMs, failures }) => `${key} after ${failures} failures, ${spanOf((nowMs ?? parked.atMs) - sinceMs)} ago`),
  );
  const remedy = `Check the log of ${syncFunction(controller)} for the cause and fix it; then change the object (kubectl annotate), which enqueues it again.`;
  return failure("work.parked", seen, remedy, more);
}

function judgeIntents(intents: CacheFacts["intents"], nowMs: number | undefined): Finding {
  if (intents.kind === "unseen") return notChecked("work.intents", intents.why);
  if (nowMs === undefined) return notChecked("work.intents", "Redis' time is not known");
  const pending = intents.value.found.flatMap(({ controller, key, intents: all }) =>
    all
      .filter(({ state }) => state === "pending")
      .map(({ verb, name, deadlineMs }) => ({ what: `${controller} ${key}: ${verb} ${name}`, deadlineMs })),
  );
  const endless = pending.filter(({ deadlineMs }) => deadlineMs > nowMs + EXPECTATION_MS + OVERDUE_MS);
  const overdue = pending.filter(({ deadlineMs }) => deadlineMs < nowMs - OVERDUE_MS);
  const stuck = [...endless, ...overdue];
  if (stuck.length === 0) return ok("work.intents", `calls in flight: ${pending.length}`, { number: 0 });
  const seen = listOf(
    stuck.map(({ what, deadlineMs }) => `${what}, ${deadlineMs > nowMs ? "unbounded" : `overdue by ${spanOf(nowMs - deadlineMs)}`}`),
  );
  const remedy =
    endless.length > 0
      ? "Delete the owner's Redis key i, or delete ep to start a new epoch: deltaloop never writes such a deadline (docs/internals/threat-model.md)."
      : "Check whether the owner's sync function runs: its next run resolves such calls.";
  return failure("work.intents", seen, remedy, { number: stuck.length });
}
