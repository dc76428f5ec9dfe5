/**
 * What the writes of an invocation were answered, for the runs that they make due and that it goes on to (design decision 20). Such an
 * answer is the owner as the API server had it moments ago, so it stands for the live read before creates and deletes.
 *
 * HO1 only while it is younger than HANDED_ON_MS, from before its write was sent: a read would be as old by the time of the last create.
 * HO2 only for a run whose snapshot has that very version: what was changed since, and is known to be, is read.
 * HO3 never for an adoption, which needs a read after what is adopted was listed.
 */
import type { KubeObject } from "../api/wire.ts";

const HANDED_ON_MS = 500;
/** As many as an invocation goes on to. A template may be large, so no more wait to be asked for. */
const ANSWERS_MAX = 10;

interface Answer {
  readonly object: KubeObject;
  readonly sentMs: number;
}

export class HandedOn {
  /** By uid, the oldest first. */
  readonly #answers = new Map<string, Answer>();

  put(object: KubeObject, sentMs: number): void {
    const { uid } = object.metadata;
    this.#answers.delete(uid);
    this.#answers.set(uid, { object, sentMs });
    const [oldest] = this.#answers.keys();
    if (this.#answers.size > ANSWERS_MAX && oldest !== undefined) this.#answers.delete(oldest);
  }

  get(uid: string, resourceVersion: string, nowMs: number): KubeObject | undefined {
    const answer = this.#answers.get(uid);
    const isIt = answer?.object.metadata.resourceVersion === resourceVersion && nowMs - answer.sentMs < HANDED_ON_MS;
    return isIt ? answer.object : undefined;
  }
}
