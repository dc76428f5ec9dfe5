// Redaction of condition messages in logs and captures.
import { expect, it } from "vitest";
import { withoutForeignMessages } from "../../../shared/kube/objects/condition-messages.ts";
import { deepFreeze } from "../../../shared/base/freeze.ts";

const conditionOf = (message: string) => ({ type: "X", status: "True", reason: "Y", message }) as const;
const messageAfter = (message: string) => withoutForeignMessages(deepFreeze({ conditions: [conditionOf(message)] })).conditions[0]?.message;

it.each([
  "",
  "Deployment has minimum availability.",
  "Deployment does not have minimum availability.",
  "Deployment is paused",
  "Deployment is resumed",
  'Created new replica set "web-7f8fbb96d"',
  'Found new replica set "web-7f8fbb96d"',
  'ReplicaSet "web-7f8fbb96d" has successfully progressed.',
  'ReplicaSet "web-7f8fbb96d" is progressing.',
  'Deployment "web" has timed out progressing.',
  'pods "c-cqgrf" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2',
  'pods "web-1" is forbidden: exceeded quota: team-a.q, requested: example.com/gpu=1,requests.cpu=500m, used: example.com/gpu=2,requests.cpu=1500m, limited: example.com/gpu=2,requests.cpu=2',
])("keeps %j", (message) => expect(messageAfter(message)).toBe(message));

it.each([
  'admission webhook "policy.example.com" denied the request: TOKEN=s3cret',
  'Failed to create new replica set "web-7f8fbb96d": TOKEN=s3cret',
  'Found new replica set "TOKEN=s3cret"',
  "Deployment is paused: TOKEN=s3cret",
  "Deployment is paused\nTOKEN=s3cret",
  "Deployment is paused\n",
  'pods "c-cqgrf" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2 TOKEN=s3cret!',
  'pods "c-cqgrf" is forbidden: exceeded quota: TOKEN=s3cret, requested: pods=1, used: pods=2, limited: pods=2',
  'pods "c-cqgrf" is forbidden: exceeded quota: q, requested: token=s3cret, used: pods=2, limited: pods=2',
])("redacts %j", (message) => expect(messageAfter(message)).toBe("(cut)"));

it("changes only messages, and returns the same status object when no message has to be redacted", () => {
  const status = deepFreeze({ replicas: 3, conditions: [conditionOf("s3cret"), conditionOf("Deployment is paused")] });
  const cut = withoutForeignMessages(status);
  expect(cut).toEqual({ ...status, conditions: [conditionOf("(cut)"), status.conditions[1]] });
  expect(withoutForeignMessages(cut)).toBe(cut);
  expect(withoutForeignMessages({})).toEqual({});
});
