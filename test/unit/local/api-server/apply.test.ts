// Server-side apply: cases that upstream-applies.test.ts does not cover.
import { afterEach, describe, expect, test } from "vitest";
import { at, CONFIGMAPS, deployment, DEPLOYMENTS, MERGE, setUp } from "./fixture.ts";

const CONFIG = { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "c" } };
const APPLY = "application/apply-patch+yaml";
let fixture = setUp();
afterEach(() => {
  fixture.server.close();
  fixture = setUp();
});

async function apply(body: unknown, manager: string, path = `${CONFIGMAPS}/c`, force = false): Promise<{ status: number; body: unknown }> {
  const query = { fieldManager: manager, ...(force && { force: "true" }) };
  const answer = await fixture.server.request({ method: "PATCH", path, query, headers: { "content-type": APPLY }, body });
  if (answer.kind !== "object") throw new Error(answer.kind);
  return answer;
}

describe("managedFields before and after the first apply", () => {
  test("an object that was never applied has no managedFields", async () => {
    const { body } = await fixture.post(DEPLOYMENTS, deployment("web"));
    expect(at(body, "metadata.managedFields")).toBeUndefined();
  });

  test("the first apply records the existing fields under before-first-apply", async () => {
    await fixture.post(CONFIGMAPS, { ...CONFIG, data: { a: "1" } });
    const { body } = await apply({ ...CONFIG, data: { b: "2" } }, "one");
    expect(at(body, "metadata.managedFields.0.manager")).toBe("one");
    expect(at(body, "metadata.managedFields.1")).toMatchObject({
      manager: "before-first-apply",
      fieldsV1: { "f:data": { ".": {}, "f:a": {} } },
    });
  });

  test("a later merge patch is recorded as an Update entry", async () => {
    await apply({ ...CONFIG, data: { a: "1" } }, "one");
    const { body } = await fixture.patch(`${CONFIGMAPS}/c`, MERGE, { data: { a: "2" } });
    expect(at(body, "metadata.managedFields")).toMatchObject([
      { manager: "test", operation: "Update", fieldsV1: { "f:data": { "f:a": {} } } },
    ]);
  });
});

test("the body may be YAML", async () => {
  const { status, body } = await apply("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  a: 'yes'\n", "one");
  expect([status, at(body, "data.a")]).toEqual([201, "yes"]);
});

test("a body that is neither JSON nor YAML is rejected", async () => {
  const { status, body } = await apply("{a: [", "one");
  expect([status, at(body, "message")]).toEqual([400, expect.stringMatching(/^error decoding patch: /)]);
});

test("fields that only kubectl's client-side apply set cause no conflict for kubectl", async () => {
  const annotations = { "kubectl.kubernetes.io/last-applied-configuration": JSON.stringify({ ...CONFIG, data: { a: "1" } }) };
  await fixture.post(CONFIGMAPS, { ...CONFIG, metadata: { name: "c", annotations }, data: { a: "1" } });
  expect((await apply({ ...CONFIG, data: { a: "2" } }, "other")).status).toBe(409);
  expect((await apply({ ...CONFIG, data: { a: "2" } }, "kubectl")).status).toBe(200);
});

test("the entries of the oldest managers are merged when an eleventh manager updates", async () => {
  await apply({ ...CONFIG, data: { z: "1" } }, "one");
  for (let i = 0; i < 12; i += 1) {
    const query = { fieldManager: `m${i}` };
    const headers = { "content-type": MERGE };
    await fixture.server.request({ method: "PATCH", path: `${CONFIGMAPS}/c`, query, headers, body: { data: { [`k${i}`]: "1" } } });
    await fixture.clock.advance(1_000);
  }
  const { body } = await fixture.get(`${CONFIGMAPS}/c`);
  const fields = at(body, "metadata.managedFields");
  expect(fields).toHaveLength(11);
  expect(fields).toContainEqual(
    expect.objectContaining({ manager: "ancient-changes", fieldsV1: { "f:data": { "f:k0": {}, "f:k1": {}, "f:k2": {} } } }),
  );
});

test("an apply with the uid of a deleted object creates nothing", async () => {
  const { body } = await apply({ ...CONFIG, metadata: { name: "c", uid: "gone" } }, "one");
  expect(body).toMatchObject({
    code: 409,
    message:
      'Operation cannot be fulfilled on configmaps "c": uid mismatch: the provided object specified uid gone, and no existing object was found',
  });
  expect((await apply(CONFIG, "one")).status).toBe(201);
});
