export {
  EVENTS_PER_SECOND,
  EVENT_BURST,
  EVENT_COUNT_MAX,
  EVENT_MEMORY_MAX,
  SIMILAR_MESSAGES_MAX,
  SIMILAR_WITHIN_MS,
  combinedMessage,
  correlate,
  eventName,
  eventNanos,
  isEventNameOf,
  msOfNanos,
  noCorrelations,
} from "./events/event-correlator.ts";
export type { Correlated, CorrelatorMemory, Happening } from "./events/event-correlator.ts";
