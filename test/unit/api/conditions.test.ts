/** Conditions: get, set and remove, with transition times. */
import { describe, expect, it } from "vitest";
import { getCondition, removeCondition, setDeploymentCondition, setReplicaSetCondition } from "../../../shared/kube/objects/conditions.ts";
import type { Condition } from "../../../shared/kube/objects/wire.ts";

const EARLIER = "2026-03-01T10:00:00Z";
const NOW = "2026-03-01T10:05:00Z";

const failure: Condition = {
  type: "ReplicaFailure",
  status: "True",
  reason: "FailedCreate",
  message: "quota",
  lastTransitionTime: EARLIER,
};
const foreign: Condition = { type: "Foreign", status: "False", reason: "Theirs" };
const available: Condition = { type: "Available", status: "True", reason: "Enough", lastUpdateTime: EARLIER, lastTransitionTime: EARLIER };
const progressing: Condition = {
  type: "Progressing",
  status: "False",
  reason: "ForSomeReason",
  lastUpdateTime: EARLIER,
  lastTransitionTime: EARLIER,
};

describe("getCondition", () => {
  it.each([
    { name: "returns the condition of the type", conditions: [foreign, failure], type: "ReplicaFailure", want: failure },
    { name: "returns undefined for another type", conditions: [failure], type: "Available", want: undefined },
    { name: "returns undefined without a list", conditions: undefined, type: "ReplicaFailure", want: undefined },
  ])("[replicaset 85] getCondition: $name", ({ conditions, type, want }) => {
    expect(getCondition(conditions, type)).toBe(want);
  });
});

describe("setReplicaSetCondition", () => {
  it.each<{ name: string; conditions: Condition[] | undefined; condition: Condition; want: Condition[] }>([
    { name: "adds the first condition", conditions: undefined, condition: failure, want: [failure] },
    { name: "appends the condition after another client's", conditions: [foreign], condition: failure, want: [foreign, failure] },
    {
      name: "replaces a condition of the same type and another reason, at the end",
      conditions: [failure, foreign],
      condition: { ...failure, reason: "FailedDelete", lastTransitionTime: NOW },
      want: [foreign, { ...failure, reason: "FailedDelete", lastTransitionTime: NOW }],
    },
    {
      name: "replaces a condition of the same type and another status",
      conditions: [failure],
      condition: { ...failure, status: "False" },
      want: [{ ...failure, status: "False" }],
    },
  ])("[replicaset 86] setReplicaSetCondition: $name", ({ conditions, condition, want }) => {
    expect(setReplicaSetCondition(conditions, condition)).toEqual(want);
  });

  it("[replicaset 86] keeps the list, message and time included, for the same type, status and reason", () => {
    const conditions = [failure, foreign];
    expect(setReplicaSetCondition(conditions, { ...failure, message: "other", lastTransitionTime: NOW })).toBe(conditions);
  });

  it("treats an absent reason as an empty one", () => {
    const conditions: Condition[] = [{ type: "ReplicaFailure", status: "True" }];
    expect(setReplicaSetCondition(conditions, { type: "ReplicaFailure", status: "True", reason: "" })).toBe(conditions);
  });
});

describe("removeCondition", () => {
  it.each([
    { name: "removes nothing from an empty list", conditions: [], type: "ReplicaFailure", want: [] },
    { name: "removes nothing if there is no list", conditions: undefined, type: "ReplicaFailure", want: [] },
    { name: "removes the only condition of a list", conditions: [failure], type: "ReplicaFailure", want: [] },
    { name: "keeps a condition of another client's type", conditions: [failure], type: "Available", want: [failure] },
    {
      name: "keeps the order of the other conditions",
      conditions: [foreign, failure, available],
      type: "ReplicaFailure",
      want: [foreign, available],
    },
  ])("[replicaset 87] removeCondition: $name", ({ conditions, type, want }) => {
    expect(removeCondition(conditions, type)).toEqual(want);
  });

  it("returns the same list when nothing is removed", () => {
    const conditions = [failure];
    expect(removeCondition(conditions, "Available")).toBe(conditions);
  });
});

describe("setDeploymentCondition", () => {
  it.each<{ name: string; conditions: Condition[] | undefined; condition: Condition; want: Condition[] }>([
    { name: "adds the first condition", conditions: undefined, condition: available, want: [available] },
    { name: "appends a condition of another type", conditions: [progressing], condition: available, want: [progressing, available] },
    {
      name: "replaces a condition of the same type and another status, with new times",
      conditions: [available, progressing],
      condition: { ...available, status: "False", reason: "TooFew", lastUpdateTime: NOW, lastTransitionTime: NOW },
      want: [progressing, { ...available, status: "False", reason: "TooFew", lastUpdateTime: NOW, lastTransitionTime: NOW }],
    },
    {
      name: "replaces a condition of the same type, status and another reason, with the old lastTransitionTime",
      conditions: [available, progressing],
      condition: { ...available, reason: "Plenty", lastUpdateTime: NOW, lastTransitionTime: NOW },
      want: [progressing, { ...available, reason: "Plenty", lastUpdateTime: NOW, lastTransitionTime: EARLIER }],
    },
  ])("[deployment T127] setDeploymentCondition: $name", ({ conditions, condition, want }) => {
    expect(setDeploymentCondition(conditions, condition)).toEqual(want);
  });

  it("[deployment T127] keeps the list for the same status and reason", () => {
    const conditions = [available];
    expect(setDeploymentCondition(conditions, { ...available, message: "other", lastUpdateTime: NOW, lastTransitionTime: NOW })).toBe(
      conditions,
    );
  });

  it.each([
    { name: "removes nothing from an empty list", conditions: [], want: [] },
    { name: "removes a present type", conditions: [available, progressing], want: [progressing] },
    { name: "removes nothing if the type is absent", conditions: [progressing], want: [progressing] },
  ])("[deployment T127] removes a Deployment's condition: $name", ({ conditions, want }) => {
    expect(removeCondition(conditions, "Available")).toEqual(want);
  });
});
