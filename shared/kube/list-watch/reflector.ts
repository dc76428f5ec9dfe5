/**
 * The Reflector's decisions: the next request, given how the last one ended (informer §2). Pure: state and input in, state and
 * next request out. shared/kube/list-watch/list-watch.ts executes them.
 *
 * RF1 a watch continues from the last accepted resourceVersion; only 410, a version too large for the server, persistent
 *    internal errors or an undecodable line cause a new list.
 * RF2 an undecodable line is never skipped: the connection is dropped and resumed before it; the second time at
 *    the same resourceVersion, everything is listed again.
 * RF3 after the server rejects the version of a list or watch as expired or too large, the next list requests the most recent state,
 *     without delay.
 * RF4 every other failure is followed by a delay: 0.8 s doubling to 30 s, jittered, longer if the server requests it.
 * RF5 a list is streamed (WatchList). If the server rejects that, the list is read by pages at once, and so are all later ones if the
 *     server does not support WatchList. If two streams in a row break before they are complete, pages are read, too: the reader may be too
 *     slow for a stream. A list as protobuf is always read by pages: the server encodes events faster than it produces them, and then
 *     writes each to the socket on its own (20,000 pods: 1.2 s of the server's CPU instead of 0.4 s).
 * RF6 a watch is resumed only after the server's newest version was found not to be older than the known one. An older one means another
 *    history, in which the watch would be silent (kubernetes#107457), so everything is listed again.
 *
 * Differs from upstream: the first list is a quorum read (`0` may return a state older than one already applied), an unclean
 * watch end resumes instead of listing again, because a list costs a manifest of all objects, and upstream has no RF6.
 */
import { compareResourceVersions } from "../objects/resource-version.ts";
import { isGone, isInvalid, isTooLargeResourceVersion, isTooManyRequests, KubeApiError } from "../client/errors.ts";
import { FRESH_BACKOFF, stepBackoff } from "./reflector-backoff.ts";
import type { Backoff } from "./reflector-backoff.ts";

export interface ReflectorState {
  /** Last accepted resourceVersion; absent if there is none in this epoch. */
  readonly rv?: string;
  /** The greatest resourceVersion known from another source (RF6). */
  readonly known?: string;
  /** Whether the server rejected the last resourceVersion, so that the next list has none (RF3). */
  readonly unavailable: boolean;
  /** Whether the server does not support WatchList, or lists are requested as protobuf (RF5). */
  readonly pagesOnly: boolean;
  /** Number of consecutive WatchLists that began and did not complete. */
  readonly brokenOff: number;
  readonly backoff: Backoff;
  /** Start of the current series of ERROR 500 in streams. */
  readonly internalErrorsSinceMs?: number;
  /** Whether the last stream ended with an unknown ERROR; the second consecutive one causes a list. */
  readonly unknownError: boolean;
  /** The version before an undecodable line. */
  readonly undecodableAfter?: string;
}

export type ReflectorInput =
  /** A list is complete at this version. */
  | { readonly kind: "listed"; readonly rv: string }
  | { readonly kind: "listFailed"; readonly error: unknown }
  /** A WatchList was rejected or ended early; without `error` it ended cleanly. `begun`: whether objects had arrived. */
  | { readonly kind: "watchListFailed"; readonly error?: unknown; readonly begun: boolean }
  /** The server's newest version, requested before a watch is resumed. */
  | { readonly kind: "probed"; readonly rv: string }
  /** A caller requests a list. */
  | { readonly kind: "relist"; readonly why: string }
  /** An event or bookmark was accepted. */
  | { readonly kind: "accepted"; readonly rv: string }
  | { readonly kind: "undecodable" }
  /** The stream ended, cleanly or with a transport error. */
  | { readonly kind: "closed"; readonly clean: boolean; readonly events: number; readonly openMs: number }
  /** The server rejected the watch: before the stream, or by an ERROR event inside it. */
  | { readonly kind: "refused"; readonly error: unknown; readonly inStream: boolean };

export type ReflectorStep =
  /** `probe`: request the server's newest version first (RF6). */
  | { readonly do: "watch"; readonly rv: string; readonly probe: boolean; readonly afterMs: number; readonly why: string }
  | ListStep
  | { readonly do: "continue" };

/**
 * If `rv` is absent, the most recent state is listed. Pages are requested with `resourceVersionMatch=NotOlderThan`; a WatchList is always
 * most recent.
 */
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

/** Upstream's "very short watch", which ends in under a second without an event. */
const SHORT_WATCH_MS = 1000;
/** How long the Reflector starts a new watch after each in-stream ERROR 500; then it lists. */
const INTERNAL_ERRORS_MAX_MS = 30_000;
/** Duration without an internal error that resets the window. */
const INTERNAL_ERRORS_QUIET_MS = 60_000;
/** WatchLists that may break before lists are read by pages. */
const BROKEN_OFF_MAX = 2;

/**
 * The first request of a stream: a list, or a watch from the version at which the cache is complete. `known`: the greatest cached version,
 * if greater. `pagesOnly`: lists are not streamed.
 */
export function startReflector(
  resumeFrom: string | undefined,
  known = resumeFrom,
  pagesOnly = false,
): readonly [ReflectorState, ReflectorStep] {
  const fresh = { ...FRESH_REFLECTOR, pagesOnly };
  if (resumeFrom === undefined) return [fresh, listFrom(fresh, 0, "nothing is cached")];
  const state = { ...fresh, rv: resumeFrom, ...(known !== undefined && { known }) };
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
      return listLatest(state, "the server was restored to an older revision", nowMs, random);
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
    return [next, listFrom(next, 0, "no WatchList: paged list")];
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

/** RF3: lists the most recent state, without delay, unless such a list was also rejected. */
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
