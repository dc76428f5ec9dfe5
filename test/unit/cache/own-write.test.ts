// Recognition of the system's own writes by managed fields.
import { describe, expect, it } from "vitest";

import { isOwnWrite } from "../../../shared/controllers/cache/watcher/own-write.ts";

const [EARLIER, NOW] = ["2026-03-01T10:00:00Z", "2026-03-01T10:00:01Z"];
const entry = (manager: string, time: string): object => ({ manager, time, operation: "Update" });
const OURS = "deltaloop-replicaset";

describe("[informer T96] isOwnWrite: whether a watch event shows this controller's own write", () => {
  it.each<readonly [string, readonly object[], boolean]>([
    ["no managedFields", [], false],
    ["created by this controller", [entry(OURS, NOW)], true],
    ["created by another of our controllers, last written by this one", [entry("deltaloop-deployment", EARLIER), entry(OURS, NOW)], true],
    ["created by another manager, last written by this controller", [entry("kubectl", EARLIER), entry(OURS, NOW)], true],
    ["the same with the entries in reverse order", [entry(OURS, NOW), entry("kubectl", EARLIER)], true],
    ["last written by another manager", [entry(OURS, EARLIER), entry("kubectl", NOW)], false],
    ["also written by another manager in the same second", [entry(OURS, NOW), entry("kubectl", NOW)], false],
    [
      "also written by another manager in the same second, with the entries in reverse order",
      [entry("kubectl", NOW), entry(OURS, NOW)],
      false,
    ],
    ["written by two of our managers in one second", [entry(OURS, NOW), entry("deltaloop-deployment", NOW)], true],
    [
      "written by two of our managers after another manager",
      [entry("kubectl", EARLIER), entry(OURS, NOW), entry("deltaloop-deployment", NOW)],
      true,
    ],
    ["a manager whose name only contains ours", [entry("my-deltaloop-replicaset", NOW)], false],
    ["last written by our node agent, which has no write-through", [entry(OURS, EARLIER), entry("deltaloop-node", NOW)], false],
    ["last written by our scripted nodes", [entry("deltaloop-nodes", NOW)], false],
    ["an entry without a time", [{ manager: OURS }], false],
    ["an entry without a manager", [{ time: NOW }], false],
    ["an entry that is not an object", ["x" as unknown as object], false],
  ])("isOwnWrite of an object: %s", (_, managedFields, expected) => {
    for (const resource of ["pods", "replicasets"] as const) {
      expect(isOwnWrite(resource, "A", { metadata: { managedFields } })).toBe(expected);
      expect(isOwnWrite(resource, "M", { metadata: { managedFields } })).toBe(expected);
      expect(isOwnWrite(resource, "D", { metadata: { managedFields } })).toBe(false);
      expect(isOwnWrite(resource, "M", { metadata: { managedFields, deletionTimestamp: NOW } })).toBe(false);
    }
  });

  const VIEW = "deployments~website~0123456789ab";
  it.each<readonly [string, readonly object[], boolean]>([
    ["its controller", [entry("kubectl", EARLIER), entry("deltaloop-website", NOW)], true],
    ["a built-in controller, which does not write this view through", [entry("deltaloop-deployment", NOW)], false],
    ["its controller and another client in the same second", [entry("deltaloop-website", NOW), entry("kubectl", NOW)], false],
  ])("isOwnWrite of an object in a user controller's view, last written by %s", (_, managedFields, expected) => {
    const object = { metadata: { managedFields, generation: 1 }, status: { observedGeneration: 1 } };
    expect(isOwnWrite(VIEW, "A", object)).toBe(expected);
    expect(isOwnWrite(VIEW, "M", object)).toBe(expected);
    expect(isOwnWrite(VIEW, "D", object)).toBe(false);
  });

  const both = [entry(OURS, NOW), entry("kubectl", NOW)];
  it.each([
    { what: "has observed the newest generation", resource: "deployments", generation: 3, observedGeneration: 3, expected: true },
    { what: "has observed an older generation", resource: "deployments", generation: 4, observedGeneration: 3, expected: false },
    { what: "is a pod's, which a kubelet writes", resource: "pods", generation: 3, observedGeneration: 3, expected: false },
    { what: "has no observedGeneration", resource: "deployments", generation: 2, observedGeneration: undefined, expected: false },
    {
      what: "has no observedGeneration at generation 1",
      resource: "deployments",
      generation: 1,
      observedGeneration: undefined,
      expected: true,
    },
    { what: "is a pod's at generation 1", resource: "pods", generation: 1, observedGeneration: undefined, expected: false },
    {
      what: "has no observedGeneration and the object no generation",
      resource: "deployments",
      generation: undefined,
      observedGeneration: undefined,
      expected: false,
    },
  ] as const)(
    "isOwnWrite is $expected when another client wrote in the same second and the status $what",
    ({ resource, generation, observedGeneration, expected }) => {
      const object = { metadata: { managedFields: both, ...(generation !== undefined && { generation }) }, status: { observedGeneration } };
      expect(isOwnWrite(resource, "M", object)).toBe(expected);
      // a new object has no observedGeneration
      expect(isOwnWrite(resource, "A", object)).toBe(expected && observedGeneration !== undefined);
      expect(
        isOwnWrite(resource, "M", {
          ...object,
          metadata: { ...object.metadata, managedFields: [entry(OURS, EARLIER), entry("kubectl", NOW)] },
        }),
      ).toBe(false);
    },
  );

  it.each([undefined, null, "x", {}, { metadata: "x" }, { metadata: { managedFields: "x" } }])("isOwnWrite is false for %j", (object) =>
    expect(isOwnWrite("pods", "M", object)).toBe(false),
  );
});
