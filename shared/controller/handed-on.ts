/**
 * What the writes of an invocation were answered, for the runs that they make due and that it goes on to (design decision 20). Such an
 * answer is the owner as the API server had it moments ago, so it stands for the live read before a create.
 *
 * HO1 only while it is younger than RECENT_MS, from before its write was sent: a read would be as old by the time of the last create.
 * HO2 only for a run whose snapshot has that very version, and until the next write on the object is sent.
 * HO3 never for a delete: one pod too many can be mended, one too few was somebody's. Never for an adoption, which needs a read after
 *    what is adopted was listed.
 */
import type { KubeObject } from "../api/wire.ts";
import { Sealed } from "./sealed.ts";

/** As good as new: that long a create may take to get through, too. */
export const RECENT_MS = 500;
/** As many as an invocation goes on to. A template may be large, so no more wait to be asked for. */
const ANSWERS_MAX = 10;

interface Answer {
  readonly object: Sealed<KubeObject>;
  readonly resourceVersion: string;
  readonly sentMs: number;
}

export class HandedOn {
  /** By uid, the oldest first. */
  readonly #answers = new Map<string, Answer>();

  put(object: KubeObject, sentMs: number): void {
    const { uid, resourceVersion } = object.metadata;
    this.drop(uid);
    for (const [each, answer] of this.#answers)
      if (this.#answers.size >= ANSWERS_MAX || sentMs - answer.sentMs >= RECENT_MS) this.#answers.delete(each);
    this.#answers.set(uid, { object: new Sealed(object, "handed on"), resourceVersion, sentMs });
  }

  get(uid: string, resourceVersion: string, nowMs: number): KubeObject | undefined {
    const answer = this.#answers.get(uid);
    if (answer === undefined || answer.resourceVersion !== resourceVersion || nowMs - answer.sentMs >= RECENT_MS) return undefined;
    return answer.object.open();
  }

  /** What it was answered is not the newest any more. */
  drop(uid: string): void {
    this.#answers.delete(uid);
  }
}
