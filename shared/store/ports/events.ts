/**
 * Memory of the controllers' Events (informer §8.3), because functions keep none.
 *
 * EV1 one call is one step; its happenings are handled in order, each as by `correlate` (shared/kube/events/event-correlator.ts, ER1 to
 *     ER4), at the Store's time.
 * EV2 each controller has its own memory, as upstream's recorders have. It is outside epochs, so a new epoch does not repeat Events.
 * EV3 an entry that a controller has not used for EVENT_MEMORY_MS may be removed.
 * EV4 its loss only repeats Events, so no call waits for a replica.
 * EV5 it holds keyed digests, times and counts. It is unsigned, because scripts change it; a value of another form counts as absent.
 */
import type { Correlated, Happening } from "@deltaloop/kube/events";
import type { ControllerName } from "@deltaloop/kube/objects";

/** After this time an unused bucket is full again (25 tokens at one per 5 minutes). The API server keeps an Event for an hour. */
export const EVENT_MEMORY_MS = 7_500_000;

/**
 * A happening without its message: controllers' Events refer to no field of the object, so equal Events of a group have the same message.
 */
export type ToldHappening = Omit<Happening, "message">;

export interface EventStore {
  /** Returns one result per happening. A sync sends one happening per created or deleted pod (≤ 500), and a few others. */
  correlateEvents(controller: ControllerName, happenings: readonly ToldHappening[]): Promise<readonly Correlated[]>;
}
