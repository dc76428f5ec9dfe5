// The Event correlator, compared with client-go's.
import { describe, expect, it } from "vitest";
import {
  correlate,
  EVENT_MEMORY_MAX,
  eventName,
  eventNanos,
  isEventNameOf,
  msOfNanos,
  noCorrelations,
} from "../../../shared/kube/events/event-correlator.ts";
import { eventCorpus, type RecordedCall } from "../../support/event-corpus.ts";

const corpus = eventCorpus();

/** Returns our result in the notation of the corpus, in which the name of a combined Event lacks the call's number. */
function play(calls: readonly RecordedCall[], memory = noCorrelations()): readonly RecordedCall["answer"][] {
  return calls.map(({ atMs, object, field, type, reason, message }, index) => {
    const source = JSON.stringify([object, type]);
    const group = JSON.stringify([source, reason]);
    const happening = { source, group, key: JSON.stringify([group, field, message]), message, nanos: eventNanos(atMs, index) };
    const { isHeldBack, isCombined, count, nanos } = correlate(memory, happening, atMs);
    return isHeldBack ? undefined : { count, isCombined, nanos: isCombined ? eventNanos(msOfNanos(nanos), 0) : nanos };
  });
}

describe("[informer T80] the correlator compared with client-go", () => {
  it("the recording has 12,000 calls of random histories, with every kind of response", () => {
    const answers = corpus.lives.flat().map(({ answer }) => answer);
    expect(answers).toHaveLength(12_000);
    const howMany = (isMeant: (answer: RecordedCall["answer"]) => boolean): number => answers.filter(isMeant).length;
    expect(howMany((answer) => answer === undefined)).toBeGreaterThan(2_000);
    expect(howMany((answer) => answer?.isCombined === true)).toBeGreaterThan(300);
    expect(howMany((answer) => answer?.isCombined === false && answer.count > 1)).toBeGreaterThan(3_000);
  });

  it.each(corpus.lives.map((calls, index) => ({ life: index + 1, calls })))("behaves like client-go in history $life", ({ calls }) => {
    expect(play(calls)).toEqual(calls.map(({ answer }) => answer));
  });

  it("evicts like client-go beyond its cache size", () => {
    const memory = noCorrelations();
    expect(play(corpus.crowd, memory)).toEqual(corpus.crowd.map(({ answer }) => answer));
    expect([memory.groups.size, memory.events.size, memory.budgets.size]).toEqual([EVENT_MEMORY_MAX, EVENT_MEMORY_MAX, EVENT_MEMORY_MAX]);
  });
});

describe("eventName", () => {
  it.each(corpus.names.map(({ object, ...rest }) => ({ object, length: object.length, ...rest })))(
    "equals client-go's for an object name of $length characters",
    ({ object, nanos, name }) => {
      expect(eventName(object, nanos)).toEqual(
        name ?? expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-a[0-9a-f]{3}-[0-9a-f]{12}$/u),
      );
    },
  );

  it("an Event's name is reproducible, and differs for a time one nanosecond later", () => {
    const long = "a".repeat(253);
    expect(eventName(long, "a")).toBe(eventName(long, "a"));
    expect(eventName(long, "a")).not.toBe(eventName(long, "b"));
  });

  it("checks whether a name belongs to an Event about an object", () => {
    const long = "a".repeat(237);
    const uuid = eventName(long, "1");
    const cases = [
      isEventNameOf("web", "web.17c3a9d2f4b81e00"),
      isEventNameOf(long, uuid),
      isEventNameOf("web", "web.1.17c3a9d2f4b81e00"),
      isEventNameOf("web", "webb.17c3a9d2f4b81e00"),
      isEventNameOf("web", "web."),
      isEventNameOf("web", uuid),
      isEventNameOf(long, "web.17c3a9d2f4b81e00"),
    ];
    expect(cases).toEqual([true, true, false, false, false, false, false]);
  });
});
