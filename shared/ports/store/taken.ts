/** A run of a key, as the work queue hands it out and the intents ask for it. */
import type { Controller, ObjectKey } from "../../api/resources.ts";

export interface Taken {
  readonly epoch: string;
  readonly controller: Controller;
  readonly key: ObjectKey;
  /** Random, one per take. */
  readonly token: string;
}
