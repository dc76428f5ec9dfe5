// Would catch: a lag that is attributed to the wrong owner, counted twice, or counted for a write that no event caused.
import { expect, test } from "vitest";
import { LagMeter } from "../../../../cli/dev/lag-meter.ts";
import type { RequestRecord } from "../../../../shared/api-server/api-server.ts";
import type { ItemChange } from "../../../../shared/store/ports/store.ts";

function record(fields: Partial<RequestRecord> & { readonly rv: string }): RequestRecord {
  const { rv, ...rest } = fields;
  const response = { metadata: { resourceVersion: rv, ownerReferences: [{ controller: true, name: "web" }] } };
  return {
    atMs: 0,
    verb: "create",
    group: "",
    resource: "pods",
    subresource: "",
    namespace: "shop",
    name: "web-1",
    userAgent: "kubectl",
    fieldManager: "",
    contentType: "",
    body: undefined,
    status: 201,
    response,
    ...rest,
  };
}

const change = (rv: string, urgency: "act" | "status"): ItemChange => ({
  type: "put",
  key: "shop/web-0",
  uid: "u",
  rv,
  effects: [{ controller: "replicaset", key: "shop/web", uid: "r", urgency }],
  counted: false,
  lowers: [],
});

test("measures the time from an event's commit to the commit of the first write for its owner", () => {
  const meter = new LagMeter();
  meter.request(record({ rv: "5", atMs: 100, verb: "delete" }));
  meter.changes([change("5", "act")]);
  meter.request(record({ rv: "6", atMs: 130, userAgent: "deltaloop/0.1.0 (replicaset)" }));
  meter.request(record({ rv: "7", atMs: 140, userAgent: "deltaloop/0.1.0 (replicaset)" }));
  expect(meter).toMatchObject({ lagsMs: [30], writes: 2 });
});

test("counts neither intentional delays nor writes by other clients", () => {
  const meter = new LagMeter();
  meter.request(record({ rv: "5", atMs: 100 }));
  meter.changes([change("5", "status")]);
  meter.request(record({ rv: "6", atMs: 130, userAgent: "deltaloop/0.1.0 (replicaset)" }));
  meter.request(record({ rv: "7", atMs: 140, userAgent: "kubectl" }));
  expect(meter.lagsMs).toEqual([]);
  expect(meter.percentile(0.5)).toBeUndefined();
});

test("computes percentiles from the sorted lags", () => {
  const meter = new LagMeter();
  meter.lagsMs.push(9, 1, 5, 3, 7);
  expect([meter.percentile(0), meter.percentile(0.5), meter.percentile(0.99)]).toEqual([1, 5, 9]);
});
