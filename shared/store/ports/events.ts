/**
 * What the controllers have told of late (informer §8.3): the memory of their Events, which no function has.
 *
 * EV1 one call is one step; its happenings are taken in order, each as `correlate` does (shared/kube/events/event-correlator.ts, ER1 to ER4), at
 *     the Store's time.
 * EV2 each controller's memory is its own, as upstream's recorders are. It is of no epoch: a new cache tells nothing anew.
 * EV3 what none of a controller's happenings has used for EVENT_MEMORY_MS may be forgotten.
 * EV4 losing it costs Events that are told anew and nothing else, so nothing waits for a replica to have it.
 * EV5 what it holds is keyed digests, times and counts. It is not signed, since scripts change it; what is spoilt so that it is none of
 *     these counts as absent.
 */
import type { Correlated, Happening } from "@deltaloop/kube/events";
import type { Controller } from "@deltaloop/kube/objects";

/** Of a bucket that is full again nothing is worth keeping: 25 tokens at one in 5 minutes. The API server keeps an Event for an hour. */
export const EVENT_MEMORY_MS = 7_500_000;

/** A controller's Events name no field, so what is equal in its group has the same message. */
export type ToldHappening = Omit<Happening, "message">;

export interface EventStore {
  /** One answer each. As many as a sync tells: one for each pod that it made or deleted (≤ 500), and a few. */
  correlateEvents(controller: Controller, happenings: readonly ToldHappening[]): Promise<readonly Correlated[]>;
}
