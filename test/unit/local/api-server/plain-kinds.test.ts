/**
 * Kinds that are stored without specific behaviour. Catches: a field whose Go type has an import alias, and a kind whose protobuf bodies
 * decode to empty objects.
 */
import { expect, it } from "vitest";
import type { JsonObject } from "../../../../shared/base/json.ts";
import { PROTOBUF_SCHEMA } from "../../../../shared/api-server/rest/protobuf-schema.ts";
import { RESOURCE_DEFINITIONS } from "../../../../shared/api-server/scheme/resource-definitions.ts";
import { setUp } from "./fixture.ts";

const template: JsonObject = { spec: { restartPolicy: "OnFailure", containers: [{ name: "c", image: "i" }] } };

it.each([
  { kind: "Job", spec: { template } },
  { kind: "CronJob", spec: { schedule: "* * * * *", jobTemplate: { spec: { template } } } },
])("stores the pod template of a $kind, with defaults", async ({ kind, spec }) => {
  const { post } = setUp();
  const path = `/apis/batch/v1/namespaces/default/${kind.toLowerCase()}s`;
  const answer = await post(path, { apiVersion: "batch/v1", kind, metadata: { name: "a" }, spec });
  expect(answer).toMatchObject({ status: 201 });
  expect(JSON.stringify(answer)).toContain('"terminationMessagePath":"/dev/termination-log"');
});

/** Kinds that kubectl sends as JSON. */
const WITHOUT_PROTOBUF = ["CustomResourceDefinition"];

it("each built-in kind has a protobuf schema", () => {
  const kinds = RESOURCE_DEFINITIONS.map(({ kind }) => kind);
  expect(kinds.filter((kind) => PROTOBUF_SCHEMA[kind] === undefined)).toEqual(WITHOUT_PROTOBUF);
});
