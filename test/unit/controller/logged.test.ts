// Redaction of messages in traces of a sync.
import { describe, expect, it } from "vitest";
import { loggedNote, loggedWrite, notDecided } from "../../../shared/controllers/kit/logged.ts";
import type { EventNote, Owner, Write } from "../../../shared/controllers/kit/writes.ts";

const DENIAL = `admission webhook "policy.example.com" denied the request: env TOKEN: s3cret\non two lines`;
const owner = { resource: "replicasets", namespace: "shop", name: "web", uid: "u" } as const;

it.each<{ note: EventNote; want: string }>([
  { note: { type: "Normal", reason: "SuccessfulCreate", message: "Created pod: web-x2x4z" }, want: "Created pod: web-x2x4z" },
  {
    note: { type: "Warning", reason: "FailedCreate", message: `Error creating: ${DENIAL}` },
    want: "Error creating: (the full message is in the Event)",
  },
  {
    note: { type: "Warning", reason: "FailedDelete", message: `Error deleting: ${DENIAL}` },
    want: "Error deleting: (the full message is in the Event)",
  },
  {
    note: { type: "Warning", reason: "ReplicaSetCreateError", message: `Failed to create new replica set "web-7f": ${DENIAL}` },
    want: 'Failed to create new replica set "web-7f": (the full message is in the Event)',
  },
])("logs an Event with reason $note.reason with the message $want", ({ note, want }) =>
  expect(loggedNote(note)).toEqual({ ...note, message: want }),
);

it("logs a status without the messages of its conditions", () => {
  const condition = { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: DENIAL } as const;
  const write: Write = { kind: "UpdateStatus", owner, resourceVersion: "7", status: { replicas: 0, conditions: [condition] }, absent: [] };
  expect(loggedWrite(write)).toEqual({ ...write, status: { replicas: 0, conditions: [{ ...condition, message: "(cut)" }] } });
});

it("logs every other write unchanged", () => {
  const write: Write = {
    kind: "DeletePod",
    owner,
    name: "web-x2x4z",
    uid: "p",
    resourceVersion: "7",
    size: { generation: 1, replicas: 0 },
  };
  expect(loggedWrite(write)).toBe(write);
});

describe("decisions that shadow mode cannot reproduce", () => {
  const write = (kind: Write["kind"], resource: Owner["resource"]): Write => ({ kind, owner: { ...owner, resource } }) as Write; // the deadline has passed
  it.each([
    { resource: "replicasets", kinds: ["Adopt", "Release"], want: ["pods to create or delete", "status"] },
    { resource: "replicationcontrollers", kinds: ["CreatePods", "DeletePod"], want: ["status"] },
    { resource: "replicasets", kinds: ["UpdateStatus"], want: [] },
    { resource: "deployments", kinds: ["Adopt", "Release"], want: ["everything after the claims"] },
    { resource: "deployments", kinds: ["CreateReplicaSet"], want: ["revision and status", "sizes of the ReplicaSets"] },
    { resource: "deployments", kinds: ["PatchReplicaSet", "RollBack"], want: ["the steps after the response"] },
    { resource: "deployments", kinds: ["DeleteReplicaSet"], want: ["status"] },
    { resource: "deployments", kinds: ["UpdateStatus"], want: ["the steps after the status"] },
  ] as const)("are $want after $kinds of $resource", ({ resource, kinds, want }) => {
    for (const kind of kinds) expect(notDecided(write(kind, resource))).toEqual(want);
  });
});
