// Would catch: a new Event for each iteration of a crash loop, a wrong count, Events of one pod that suppress another pod's, and growing
// memory.
import { describe, expect, it } from "vitest";
import { nodeReference, noEvents, recordEvent } from "../../../../shared/node-agent/kubelet/events/event-recorder.ts";
import type { EventRequest, NodeEvent } from "../../../../shared/node-agent/kubelet/events/event-recorder.ts";
import { NOW_MS } from "../fixtures.ts";

const SOURCE = { nodeName: "n1", nameSalt: 42, nodeUid: "" };
const MINUTE_MS = 60_000;

function event(fields: Partial<NodeEvent> = {}, name = "web"): NodeEvent {
  const involved = { kind: "Pod", apiVersion: "v1", namespace: "shop", name, uid: `u-${name}`, fieldPath: "spec.containers{app}" };
  return { involved, type: "Warning", reason: "BackOff", message: "Back-off restarting", ...fields };
}

/** Records one Event after another; times are minutes after NOW_MS. */
function recordAll(events: readonly { readonly atMinutes?: number; readonly event: NodeEvent }[], memory = noEvents()) {
  const requests: (EventRequest | undefined)[] = [];
  for (const { atMinutes = 0, event: said } of events) requests.push(recordEvent(memory, said, NOW_MS + atMinutes * MINUTE_MS, SOURCE));
  return { requests, memory };
}

const kinds = (requests: readonly (EventRequest | undefined)[]): readonly string[] => requests.map((request) => request?.kind ?? "nothing");
const many = (count: number, make: (index: number) => NodeEvent, atMinutes = 0) =>
  Array.from({ length: count }, (_, index) => ({ atMinutes, event: make(index) }));

describe("recordEvent", () => {
  it("creates an Event as the kubelet does", () => {
    expect(recordAll([{ event: event() }]).requests).toEqual([
      {
        kind: "create",
        body: {
          apiVersion: "v1",
          kind: "Event",
          metadata: { name: expect.stringMatching(/^web\.[0-9a-f]{16}$/u) as string, namespace: "shop" },
          involvedObject: {
            kind: "Pod",
            apiVersion: "v1",
            namespace: "shop",
            name: "web",
            uid: "u-web",
            fieldPath: "spec.containers{app}",
          },
          reason: "BackOff",
          message: "Back-off restarting",
          type: "Warning",
          count: 1,
          firstTimestamp: "2026-03-01T10:00:00Z",
          lastTimestamp: "2026-03-01T10:00:00Z",
          source: { component: "kubelet", host: "n1" },
          reportingComponent: "kubelet",
          reportingInstance: "n1",
        },
      },
    ]);
  });

  it("creates a Node's Event in the default namespace, with the Node's uid once it is known", () => {
    const requestOf = (nodeUid: string) =>
      recordEvent(noEvents(), event({ involved: nodeReference("n1") }), NOW_MS, { ...SOURCE, nodeUid });
    const [registered, unregistered] = [requestOf("u-n1"), requestOf("")].map(
      (request) => request?.kind === "create" && [request.body.metadata.namespace, request.body.involvedObject],
    );
    expect(registered).toEqual(["default", { kind: "Node", apiVersion: "v1", name: "n1", uid: "u-n1" }]);
    expect(unregistered).toEqual(["default", { kind: "Node", apiVersion: "v1", name: "n1" }]);
  });

  it("ER1 increments the count of an equal Event, and sends the whole Event in case the first one has expired", () => {
    const [first, second, third] = recordAll([
      { event: event() },
      { atMinutes: 1, event: event() },
      { atMinutes: 90, event: event() },
    ]).requests;
    const name = first?.kind === "create" ? first.body.metadata.name : undefined;
    const firstBody = first?.kind === "create" ? first.body : undefined;
    expect(second).toEqual({
      kind: "patch",
      namespace: "shop",
      name,
      body: { count: 2, lastTimestamp: "2026-03-01T10:01:00Z", message: "Back-off restarting" },
      ifMissing: { ...firstBody, count: 2, lastTimestamp: "2026-03-01T10:01:00Z" },
    });
    expect(third).toMatchObject({ kind: "patch", name, body: { count: 3, lastTimestamp: "2026-03-01T11:30:00Z" } });
  });

  it.each<{ readonly name: string; readonly other: NodeEvent }>([
    { name: "message", other: event({ message: "other" }) },
    { name: "reason", other: event({ reason: "Failed" }) },
    { name: "type", other: event({ type: "Normal" }) },
    { name: "object", other: event({}, "db") },
    { name: "container", other: event({ involved: { ...event().involved, fieldPath: "spec.containers{db}" } }) },
  ])("ER1 does not count an Event with another $name as equal", ({ other }) => {
    expect(kinds(recordAll([{ event: event() }, { event: other }]).requests)).toEqual(["create", "create"]);
  });

  it("generates unique names, even within one millisecond", () => {
    const { requests } = recordAll(many(9, (index) => event({ message: `${index}` })));
    expect(new Set(requests.map((request) => request?.kind === "create" && request.body.metadata.name)).size).toBe(9);
  });

  it("ER2 aggregates Events of one reason from the tenth different message on", () => {
    const { requests } = recordAll(many(12, (index) => event({ message: `no ${index}` })));
    expect(kinds(requests)).toEqual([...Array<string>(10).fill("create"), "patch", "patch"]);
    expect(requests[9]).toMatchObject({ body: { message: "(combined from similar events): no 9", count: 1 } });
    expect(requests[11]).toMatchObject({ body: { message: "(combined from similar events): no 11", count: 3 } });
  });

  it("ER2 does not aggregate Events more than ten minutes apart", () => {
    const apart = many(12, (index) => event({ message: `no ${index}` })).map((entry, index) => ({ ...entry, atMinutes: index * 10.1 }));
    expect(kinds(recordAll(apart).requests)).toEqual(Array(12).fill("create"));
  });

  it("ER3 sends 25 Events, then one in five minutes, and counts suppressed ones", () => {
    const { requests, memory } = recordAll(many(30, () => event()));
    expect(kinds(requests)).toEqual(["create", ...Array<string>(24).fill("patch"), ...Array<string>(5).fill("nothing")]);
    const later = recordAll(
      [4.9, 5, 5.1, 10].map((atMinutes) => ({ atMinutes, event: event() })),
      memory,
    );
    expect(kinds(later.requests)).toEqual(["nothing", "patch", "nothing", "patch"]);
    expect(later.requests[1]).toMatchObject({ body: { count: 32 } });
  });

  it("ER3 patches an Event whose creation was suppressed with all fields needed to create it", () => {
    const { memory } = recordAll(many(25, () => event()));
    const { requests } = recordAll(
      [{ event: event({ reason: "Killing" }) }, { atMinutes: 6, event: event({ reason: "Killing" }) }],
      memory,
    );
    expect(requests).toMatchObject([undefined, { kind: "patch", ifMissing: { reason: "Killing", count: 2 } }]);
  });

  it("ER3 has one budget per object and Event type, of at most 25 Events", () => {
    const { memory } = recordAll(many(30, () => event()));
    expect(kinds(recordAll([{ event: event({}, "db") }, { event: event({ type: "Normal" }) }], memory).requests)).toEqual([
      "create",
      "create",
    ]);
    const rested = recordAll(
      many(26, () => event(), 10_000),
      memory,
    );
    expect(kinds(rested.requests).filter((kind) => kind === "nothing")).toHaveLength(1);
  });

  it("neither adds nor removes tokens when the clock is set back", () => {
    const { memory } = recordAll([{ event: event() }]);
    const { requests } = recordAll(
      many(25, () => event(), -60),
      memory,
    );
    expect(kinds(requests)).toEqual([...Array<string>(24).fill("patch"), "nothing"]);
  });

  it("ER4 evicts the least recently used object", { timeout: 60_000 }, () => {
    const { memory } = recordAll(many(4096, (index) => event({}, `pod-${index}`)));
    const touched = recordAll([{ event: event({}, "pod-0") }, { event: event({}, "one-more") }], memory);
    expect([touched.memory.groups.size, touched.memory.events.size, touched.memory.budgets.size]).toEqual([4096, 4096, 4096]);
    expect(kinds(recordAll([{ event: event({}, "pod-0") }, { event: event({}, "pod-1") }], touched.memory).requests)).toEqual([
      "patch",
      "create",
    ]);
  });
});
