/**
 * Read-your-writes cache of one invocation: the responses to its own writes, for the follow-up syncs that these enqueue (design decision
 * 20). A response shows the owner as it was moments ago, so it replaces the live read before a create.
 *
 * HO1 An entry is used only for RECENT_MS after its write was sent. A live read would be as old by the time of the sync's last create.
 * HO2 An entry is used only by a run whose snapshot has the same version, and only until the next write on the object is sent.
 * HO3 Deletes never use it: a surplus pod can be deleted, a deleted pod cannot be restored. Adoptions never use it: they need a read that
 *    starts after the adopted objects were listed.
 */
import type { KubeObject } from "@deltaloop/kube/objects";
import { Sealed } from "./sealed.ts";

/** Maximum age of an entry (HO1). */
export const RECENT_MS = 500;
/** Equals the number of concurrent follow-up syncs. Bounds memory, because a template may be large. */
const ANSWERS_MAX = 10;

interface Answer {
  readonly object: Sealed<KubeObject>;
  readonly resourceVersion: string;
  readonly sentMs: number;
}

export class ReadYourWrites {
  /** By uid, the oldest first. */
  readonly #answers = new Map<string, Answer>();

  put(object: KubeObject, sentMs: number): void {
    const { uid, resourceVersion } = object.metadata;
    this.drop(uid);
    for (const [each, answer] of this.#answers)
      if (this.#answers.size >= ANSWERS_MAX || sentMs - answer.sentMs >= RECENT_MS) this.#answers.delete(each);
    this.#answers.set(uid, { object: new Sealed(object, "own write"), resourceVersion, sentMs });
  }

  get(uid: string, resourceVersion: string, nowMs: number): KubeObject | undefined {
    const answer = this.#answers.get(uid);
    if (answer === undefined || answer.resourceVersion !== resourceVersion || nowMs - answer.sentMs >= RECENT_MS) return undefined;
    return answer.object.open();
  }

  /** Removes an entry that a newer write supersedes. */
  drop(uid: string): void {
    this.#answers.delete(uid);
  }
}
