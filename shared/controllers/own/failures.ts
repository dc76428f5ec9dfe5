/**
 * The Event of a failed sync: what it may contain, and when it is emitted.
 *
 * FE1 an Event never quotes the message of an error, because the developer's code and the API server put values into theirs: only names,
 *     places and codes.
 * FE2 one streak of failures emits one Event for each text, and at most three, not one for each retry.
 * FE3 failures that end without a change of the code emit none: a lost response, an overloaded API server, a terminating namespace, replaced
 *     code.
 */
import { describeError, isNamespaceTerminating, KubeApiError } from "@deltaloop/kube/client";
import type { EventNote } from "../kit/writes.ts";

/** A `sync` or its result failed. The message is for the developer's terminal. */
export class SyncFailure extends Error {
  /** The text of the Event. Absent: no Event is emitted. */
  readonly summary: string | undefined;

  constructor(message: string, summary?: string) {
    super(message);
    this.summary = summary;
  }
}

const NAME = /^[A-Za-z]\w{0,63}$/;

/** The failure of a developer's code: the Event has the error's name and the place where it was thrown. */
export function failureOfCode(message: string, name: string, place?: string): SyncFailure {
  const shown = NAME.test(name) ? name : "Error";
  return new SyncFailure(message, `${shown}${place === undefined ? "" : ` at ${place}`}`);
}

/** @param write that the API server refused, if any */
function summaryOf(error: unknown, write: string | undefined): string | undefined {
  if (error instanceof SyncFailure) return error.summary;
  if (!(error instanceof KubeApiError) || write === undefined || isNamespaceTerminating(error)) return undefined;
  const isRefused = error.code >= 400 && error.code < 500 && !PASSING.includes(error.code);
  return isRefused ? `${write}: ${describeError(error)}` : undefined;
}

/** Unauthorized, Request Timeout, Too Many Requests. */
const PASSING = [401, 408, 429];
const PRIMARIES_MAX = 10_000;
const TEXTS_MAX = 3;
const LENGTH_MAX = 500;

/** Texts of the Events of each primary. Kept in the process and not in the Store: after a restart, a text is emitted again. */
export class Failures {
  /** Texts by uid; the oldest first. */
  readonly #said = new Map<string, Set<string>>();

  /** @param failures of the streak before this one. @returns undefined if no Event is to be emitted */
  noteOf(uid: string, error: unknown, write: string | undefined, failures: number): EventNote | undefined {
    const summary = summaryOf(error, write);
    const said = (failures > 0 && this.#said.get(uid)) || new Set<string>();
    if (summary === undefined || said.has(summary) || said.size >= TEXTS_MAX) return undefined;
    this.#said.delete(uid);
    this.#said.set(uid, said.add(summary));
    const [oldest] = this.#said.keys();
    if (this.#said.size > PRIMARIES_MAX && oldest !== undefined) this.#said.delete(oldest);
    return { type: "Warning", reason: "SyncFailed", message: `sync failed, is retried with back-off: ${summary.slice(0, LENGTH_MAX)}` };
  }
}
