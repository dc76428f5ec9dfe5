/**
 * The Reflector's decisions: what to ask the API server next, given how the last request ended (informer §2). Pure: a state
 * and an input in, a state and the next request out. shared/kube/list-watch/list-watch.ts carries them out.
 *
 * RF1 a watch goes on from the last accepted resourceVersion; nothing but 410, a version too large for the server, lasting
 *    internal errors or an undecodable line leads to a new list.
 * RF2 a line that cannot be decoded is never skipped: the connection is dropped and resumed before it; the second time at
 *    the same resourceVersion, everything is listed again.
 * RF3 after a list or watch was refused as expired or too large, the next list asks for the most recent state, at once.
 * RF4 every other failure waits: 0.8 s doubling to 30 s, jittered, longer if the server says so.
 * RF5 a list is streamed (WatchList). One that the server refuses is read by pages at once, for good if it does not know such lists;
 *    one whose stream has ended twice before it was whole is read by pages, too: a reader that is too slow for a stream is not for pages.
 * RF6 no watch is resumed before the server has said that its newest version is not behind what is known already. One that is has
 *    another history: it would be silent up to there (kubernetes#107457), so everything is listed again.
 *
 * Differs from upstream: the first list is a quorum read (`0` may return a state older than one already applied), an unclean
 * watch end resumes instead of listing again, because a list costs us a generation, and upstream has no RF6.
 */
import { compareResourceVersions } from "../objects/resource-version.ts";
import { isGone, isInvalid, isTooLargeResourceVersion, isTooManyRequests, KubeApiError } from "../client/errors.ts";
import { FRESH_BACKOFF, stepBackoff } from "./reflector-backoff.ts";
import type { Backoff } from "./reflector-backoff.ts";

export interface ReflectorState {
  /** Last accepted resourceVersion; absent = nothing seen in this epoch. */
  readonly rv?: string;
  /** The greatest resourceVersion known from elsewhere (RF6). */
  readonly known?: string;
  /** The server refused the last version: list without one (RF3). */
  readonly unavailable: boolean;
  /** The server does not know WatchList (RF5). */
  readonly pagesOnly: boolean;
  /** WatchLists in a row that began and did not become whole. */
  readonly brokenOff: number;
  readonly backoff: Backoff;
  /** Since when the server has been answering ERROR 500 in streams. */
  readonly internalErrorsSinceMs?: number;
  /** A stream ended with an ERROR that is none of the known ones; the second in a row lists again. */
  readonly unknownError: boolean;
  /** Where an undecodable line was met: the version before it. */
  readonly undecodableAfter?: string;
}

export type ReflectorInput =
  /** A list ended whole at this version. */
  | { readonly kind: "listed"; readonly rv: string }
  | { readonly kind: "listFailed"; readonly error: unknown }
  /** A WatchList was refused or ended before it was whole; `error` absent: cleanly. `begun`: objects had come. */
  | { readonly kind: "watchListFailed"; readonly error?: unknown; readonly begun: boolean }
  /** The server's newest version, asked for before a watch is resumed. */
  | { readonly kind: "probed"; readonly rv: string }
  /** Somebody needs a list. */
  | { readonly kind: "relist"; readonly why: string }
  /** An event or bookmark was accepted. */
  | { readonly kind: "accepted"; readonly rv: string }
  | { readonly kind: "undecodable" }
  /** The stream ended, cleanly or by an error of the transport. */
  | { readonly kind: "closed"; readonly clean: boolean; readonly events: number; readonly openMs: number }
  /** Refused before the stream, or by an ERROR event inside it. */
  | { readonly kind: "refused"; readonly error: unknown; readonly inStream: boolean };

export type ReflectorStep =
  /** `probe`: ask for the server's newest version first (RF6). */
  | { readonly do: "watch"; readonly rv: string; readonly probe: boolean; readonly afterMs: number; readonly why: string }
  | ListStep
  | { readonly do: "continue" };

/** `rv` absent = most recent. Pages are asked for with it and `resourceVersionMatch=NotOlderThan`; a WatchList is always most recent. */
export interface ListStep {
  readonly do: "list";
  readonly by: "watchList" | "pages";
  readonly rv?: string;
  readonly afterMs: number;
  readonly why: string;
}

const FRESH_REFLECTOR: ReflectorState = {
  unavailable: false,
  pagesOnly: false,
  brokenOff: 0,
  backoff: FRESH_BACKOFF,
  unknownError: false,
};

/** Upstream's "very short watch": ended in under a second without an event. */
const SHORT_WATCH_MS = 1000;
/** How long in-stream ERROR 500 is answered by watching again. */
const INTERNAL_ERRORS_MAX_MS = 30_000;
/** So long without an internal error starts that window anew. */
const INTERNAL_ERRORS_QUIET_MS = 60_000;
/** WatchLists that may break off before pages are read. */
const BROKEN_OFF_MAX = 2;

/**
 * The first request of a stream: a list, or a watch from where the cache is known to be whole. `known`: the greatest version that
 * anything is cached in, if that is greater.
 */
export function startReflector(resumeFrom: string | undefined, known = resumeFrom): readonly [ReflectorState, ReflectorStep] {
  if (resumeFrom === undefined) return [FRESH_REFLECTOR, listFrom(FRESH_REFLECTOR, 0, "nothing is cached")];
  const state = { ...FRESH_REFLECTOR, rv: resumeFrom, ...(known !== undefined && { known }) };
  return [state, watchFrom(state, 0, "resumed")];
}

export function stepReflector(
  state: ReflectorState,
  input: ReflectorInput,
  nowMs: number,
  random: number,
): readonly [ReflectorState, ReflectorStep] {
  switch (input.kind) {
    case "listed":
      return [
        { ...FRESH_REFLECTOR, rv: input.rv, pagesOnly: state.pagesOnly, backoff: state.backoff },
        { do: "watch", rv: input.rv, probe: false, afterMs: 0, why: "listed" },
      ];
    case "accepted":
      return [{ ...withoutFaults(state), rv: input.rv, ...keepInternalErrors(state, nowMs) }, { do: "continue" }];
    case "undecodable":
      return undecodable(state, nowMs, random);
    case "listFailed":
      if (isGone(input.error) || isTooLargeResourceVersion(input.error))
        return listLatest(state, "the server no longer has that resourceVersion", nowMs, random);
      return wait(state, nowMs, random, input.error, (afterMs) => listFrom(state, afterMs, "list failed"));
    case "watchListFailed":
      return watchListFailed(state, input.error, input.begun, nowMs, random);
    case "probed":
      if ([state.rv, state.known].every((rv) => rv === undefined || compareResourceVersions(input.rv, rv) >= 0))
        return [state, { do: "continue" }];
      return listLatest(state, "the server's history went back", nowMs, random);
    case "relist":
      return [state, listFrom(state, 0, input.why)];
    case "closed":
      if (input.clean && (input.events > 0 || input.openMs >= SHORT_WATCH_MS)) return [state, watchFrom(state, 0, "watch ended")];
      return wait(state, nowMs, random, undefined, (afterMs) =>
        watchFrom(state, afterMs, input.clean ? "very short watch" : "connection lost"),
      );
    case "refused":
      return refused(state, input.error, input.inStream, nowMs, random);
  }
}

function refused(
  state: ReflectorState,
  error: unknown,
  inStream: boolean,
  nowMs: number,
  random: number,
): readonly [ReflectorState, ReflectorStep] {
  if (isGone(error)) return [state, listFrom(state, 0, "the watch's resourceVersion has expired")];
  if (isTooLargeResourceVersion(error)) return listLatest(state, "the server is behind that resourceVersion", nowMs, random);
  if (!inStream || isTooManyRequests(error))
    return wait(state, nowMs, random, error, (afterMs) => watchFrom(state, afterMs, "watch refused"));
  if (error instanceof KubeApiError && error.code === 500) {
    const since = state.internalErrorsSinceMs ?? nowMs;
    const next = { ...state, internalErrorsSinceMs: since };
    if (nowMs - since >= INTERNAL_ERRORS_MAX_MS) return [withoutFaults(next), listFrom(state, 0, "internal errors for 30 s")];
    return wait(next, nowMs, random, error, (afterMs) => watchFrom(state, afterMs, "internal error"));
  }
  if (state.unknownError) return [withoutFaults(state), listFrom(state, 0, "unknown error, twice")];
  return wait({ ...state, unknownError: true }, nowMs, random, error, (afterMs) => watchFrom(state, afterMs, "unknown error"));
}

function watchListFailed(
  state: ReflectorState,
  error: unknown,
  begun: boolean,
  nowMs: number,
  random: number,
): readonly [ReflectorState, ReflectorStep] {
  if (isGone(error) || isTooLargeResourceVersion(error))
    return listLatest(state, "the server no longer has that resourceVersion", nowMs, random);
  if (error instanceof KubeApiError && !isTooManyRequests(error)) {
    const next = { ...state, pagesOnly: state.pagesOnly || isInvalid(error), brokenOff: BROKEN_OFF_MAX };
    return [next, listFrom(next, 0, "no WatchList, so pages")];
  }
  const next = { ...state, brokenOff: state.brokenOff + (begun ? 1 : 0) };
  return wait(next, nowMs, random, error, (afterMs) => listFrom(next, afterMs, "WatchList failed"));
}

function undecodable(state: ReflectorState, nowMs: number, random: number): readonly [ReflectorState, ReflectorStep] {
  const place = state.rv ?? "";
  if (state.undecodableAfter === place) return [withoutFaults(state), listFrom(state, 0, "a line cannot be decoded, twice")];
  return wait({ ...state, undecodableAfter: place }, nowMs, random, undefined, (afterMs) =>
    watchFrom(state, afterMs, "a line cannot be decoded"),
  );
}

/** RF3: at once, except when even that was refused. */
function listLatest(state: ReflectorState, why: string, nowMs: number, random: number): readonly [ReflectorState, ReflectorStep] {
  const next = { ...state, unavailable: true };
  if (!state.unavailable) return [next, listFrom(next, 0, why)];
  return wait(next, nowMs, random, undefined, (afterMs) => listFrom(next, afterMs, why));
}

function wait(
  state: ReflectorState,
  nowMs: number,
  random: number,
  error: unknown,
  step: (afterMs: number) => ReflectorStep,
): readonly [ReflectorState, ReflectorStep] {
  const [backoff, delayMs] = stepBackoff(state.backoff, nowMs, random);
  const askedMs = error instanceof KubeApiError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
  return [{ ...state, backoff }, step(Math.max(delayMs, askedMs))];
}

function watchFrom(state: ReflectorState, afterMs: number, why: string): ReflectorStep {
  return state.rv === undefined ? listFrom(state, afterMs, why) : { do: "watch", rv: state.rv, probe: true, afterMs, why };
}

function listFrom(state: ReflectorState, afterMs: number, why: string): ListStep {
  const by = state.pagesOnly || state.brokenOff >= BROKEN_OFF_MAX ? "pages" : "watchList";
  return { do: "list", by, ...(state.rv !== undefined && !state.unavailable && { rv: state.rv }), afterMs, why };
}

function withoutFaults(state: ReflectorState): ReflectorState {
  const { internalErrorsSinceMs: _since, undecodableAfter: _place, ...rest } = state;
  return { ...rest, unknownError: false };
}

function keepInternalErrors(state: ReflectorState, nowMs: number): Pick<ReflectorState, "internalErrorsSinceMs"> {
  const since = state.internalErrorsSinceMs;
  return since !== undefined && nowMs - since < INTERNAL_ERRORS_QUIET_MS ? { internalErrorsSinceMs: since } : {};
}
