/** CustomResourceDefinitions and their objects: what is served, stored, rejected and deleted. */
import { describe, expect, test } from "vitest";
import { type JsonObject, objectAt, objectsAt } from "../../../../shared/base/json.ts";
import { CONFIGMAPS, MERGE, setUp, STRATEGIC, type Fixture } from "./fixture.ts";

const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const SITES = "/apis/demo.example.com/v1/namespaces/default/sites";

const SCHEMA: JsonObject = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      required: ["image"],
      properties: {
        image: { type: "string", "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "is immutable" }] },
        replicas: { type: "integer", minimum: 0, default: 1 },
        ports: {
          type: "array",
          "x-kubernetes-list-type": "map",
          "x-kubernetes-list-map-keys": ["port"],
          items: { type: "object", required: ["port"], properties: { port: { type: "integer" }, name: { type: "string" } } },
        },
      },
    },
    status: { type: "object", properties: { ready: { type: "integer" } } },
  },
};

function definition(names: JsonObject = {}, version: JsonObject = {}, spec: JsonObject = {}): JsonObject {
  const { plural = "sites" } = names;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${String(plural)}.demo.example.com` },
    spec: {
      group: "demo.example.com",
      scope: "Namespaced",
      names: { plural, kind: "Site", shortNames: ["st"], categories: ["all"], ...names },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: SCHEMA },
          subresources: { status: {}, scale: { specReplicasPath: ".spec.replicas", statusReplicasPath: ".status.ready" } },
          additionalPrinterColumns: [{ name: "Ready", type: "integer", jsonPath: ".status.ready" }],
          ...version,
        },
      ],
      ...spec,
    },
  };
}

const site = (name: string, spec: JsonObject = {}): JsonObject => ({
  apiVersion: "demo.example.com/v1",
  kind: "Site",
  metadata: { name },
  spec: { image: "nginx", ...spec },
});

async function served(crd = definition()): Promise<Fixture> {
  const fixture = setUp();
  const { status, body } = await fixture.post(CRDS, crd);
  expect(status, JSON.stringify(body)).toBe(201);
  await fixture.clock.advance(1_000);
  return fixture;
}

const conditions = (crd: JsonObject): string[] =>
  ((objectAt(crd, "status")?.["conditions"] ?? []) as JsonObject[]).map(
    ({ type, status, reason }) => `${String(type)}=${String(status)} ${String(reason)}`,
  );

describe("a CustomResourceDefinition", () => {
  test("is served after its names are accepted", async () => {
    const { post, get, clock } = setUp();
    const created = await post(CRDS, definition());
    expect(objectAt(created.body, "status")).toEqual({ conditions: null, acceptedNames: { plural: "", kind: "" }, storedVersions: ["v1"] });
    await clock.advance(1_000);
    const { body } = await get(`${CRDS}/sites.demo.example.com`);
    expect(conditions(body)).toEqual(["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"]);
    expect((await get(SITES)).body).toMatchObject({ kind: "SiteList", items: [] });
    const { body: discovery } = await get("/apis/demo.example.com/v1");
    expect(discovery["resources"]).toMatchObject([
      { name: "sites", kind: "Site", shortNames: ["st"], categories: ["all"] },
      { name: "sites/status" },
      { name: "sites/scale", group: "autoscaling", kind: "Scale" },
    ]);
    expect((await get("/apis/demo.example.com")).body["preferredVersion"]).toEqual({ groupVersion: "demo.example.com/v1", version: "v1" });
  });

  test("is not established until another definition no longer uses its names", async () => {
    const { post, get, remove, clock } = await served();
    await post(CRDS, definition({ plural: "places", kind: "Place", shortNames: ["st"] }));
    await clock.advance(1_000);
    const path = `${CRDS}/places.demo.example.com`;
    expect(conditions((await get(path)).body)).toEqual(["NamesAccepted=False ShortNamesConflict", "Established=False NotAccepted"]);
    await remove(`${CRDS}/sites.demo.example.com`);
    await clock.advance(1_000);
    expect(conditions((await get(path)).body)).toEqual(["NamesAccepted=True NoConflicts", "Established=True InitialNamesAccepted"]);
  });

  test("is removed after its custom resources and their dependents are deleted", async () => {
    const { post, get, remove, clock, server } = await served();
    const { body } = await post(SITES, site("a"));
    const owner = { apiVersion: "demo.example.com/v1", kind: "Site", name: "a", uid: objectAt(body, "metadata")?.["uid"] ?? "" };
    await post(CONFIGMAPS, { metadata: { name: "owned", ownerReferences: [owner] } });
    await remove(`${CRDS}/sites.demo.example.com`);
    expect(await post(SITES, site("b"))).toMatchObject({ status: 403 });
    await clock.advance(1_000);
    expect((await get(`${CRDS}/sites.demo.example.com`)).status).toBe(404);
    expect((await get(`${CONFIGMAPS}/owned`)).status).toBe(404);
    expect(await server.request({ method: "GET", path: SITES })).toMatchObject({ kind: "text", status: 404 });
  });

  test("with a conversion webhook is rejected with an error that contains the webhook's URL", async () => {
    const { post } = setUp();
    const conversion = {
      strategy: "Webhook",
      webhook: { conversionReviewVersions: ["v1"], clientConfig: { url: "https://convert.example.com/sites" } },
    };
    const { status, body } = await post(CRDS, definition({}, {}, { conversion }));
    expect(status).toBe(422);
    expect(body["message"]).toContain("https://convert.example.com/sites");
    expect(body["message"]).toContain("sites.demo.example.com");
  });

  test("returns one warning for all CEL rules except that of immutable()", async () => {
    const { server } = setUp();
    const rules = [{ rule: "self > 0" }, { rule: "self < 9" }];
    const schema = {
      type: "object",
      properties: { spec: { type: "object", properties: { a: { type: "integer", "x-kubernetes-validations": rules } } } },
    };
    const warned = await server.request({ method: "POST", path: CRDS, body: definition({}, { schema: { openAPIV3Schema: schema } }) });
    expect(warned.headers["warning"]).toBe('299 - "this API server evaluates no CEL: 2 rules in x-kubernetes-validations not enforced"');
    const silent = await server.request({
      method: "POST",
      path: CRDS,
      body: definition({ plural: "others", kind: "Other", shortNames: [] }),
    });
    expect(silent).toMatchObject({ status: 201, headers: { "content-type": "application/json" } });
    expect(silent.headers["warning"]).toBeUndefined();
  });
});

describe("a custom resource", () => {
  test("is pruned and defaulted, gets a generation, and has a separate status", async () => {
    const { post, patch, get } = await served();
    const { body } = await post(SITES, { ...site("a", { unknown: 1 }), status: { ready: 3 } });
    expect(body).toMatchObject({ spec: { image: "nginx", replicas: 1 }, metadata: { generation: 1 } });
    expect([objectAt(body, "spec")?.["unknown"], body["status"]]).toEqual([undefined, undefined]);
    await patch(`${SITES}/a/status`, MERGE, { status: { ready: 1 }, spec: { replicas: 7 }, metadata: { labels: { a: "b" } } });
    const after = await get(`${SITES}/a`);
    expect(after.body).toMatchObject({ spec: { replicas: 1 }, status: { ready: 1 }, metadata: { generation: 1 } });
    expect(objectAt(after.body, "metadata")?.["labels"]).toBeUndefined();
    expect((await patch(`${SITES}/a`, MERGE, { spec: { replicas: 2 } })).body).toMatchObject({ metadata: { generation: 2 } });
    expect((await patch(`${SITES}/a`, STRATEGIC, { spec: { replicas: 2 } })).status).toBe(415);
  });

  test.each([
    { spec: { replicas: -1 }, says: "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0" },
    { spec: { image: 1 }, says: 'spec.image: Invalid value: "integer": spec.image in body must be of type string: "integer"' },
    { spec: { ports: [{ port: 1 }, { port: 1 }] }, says: 'spec.ports[1]: Duplicate value: {"port":1}' },
    { spec: { ports: [{}] }, says: "spec.ports[0].port: Required value" },
  ])("is rejected with upstream's message: $says", async ({ spec, says }) => {
    const { post } = await served();
    const { status, body } = await post(SITES, site("a", spec as JsonObject));
    expect({
      status,
      causes: objectsAt(objectAt(body, "details"), "causes").map(({ field, message }) => `${String(field)}: ${String(message)}`),
    }).toEqual({
      status: 422,
      causes: expect.arrayContaining([says]) as unknown,
    });
  });

  test("rejects a change of an immutable field", async () => {
    const { post, patch } = await served();
    await post(SITES, site("a"));
    const { status, body } = await patch(`${SITES}/a`, MERGE, { spec: { image: "other" } });
    expect([status, body["message"]]).toEqual([
      422,
      'Site.demo.example.com "a" is invalid: spec.image: Invalid value: "string": is immutable',
    ]);
    expect((await patch(`${SITES}/a`, MERGE, { spec: { image: "nginx", replicas: 2 } })).status).toBe(200);
  });

  test("rejects unknown fields with fieldValidation=Strict", async () => {
    const { post } = await served();
    const { status, body } = await post(SITES, site("a", { ports: [{ port: 1, nam: "x" }] }), { fieldValidation: "Strict" });
    expect([status, body["message"]]).toEqual([
      400,
      'Site in version "v1" cannot be handled as a Site: strict decoding error: unknown field "spec.ports[0].nam"',
    ]);
  });

  test.each([
    { fieldValidation: "", warning: '299 - "unknown field \\"spec.a\\"", 299 - "unknown field \\"spec.b\\""' },
    { fieldValidation: "Warn", warning: '299 - "unknown field \\"spec.a\\"", 299 - "unknown field \\"spec.b\\""' },
    { fieldValidation: "Ignore", warning: undefined },
  ])("returns the expected warnings about unknown fields with fieldValidation=$fieldValidation", async ({ fieldValidation, warning }) => {
    const { server } = await served();
    const answer = await server.request({ method: "POST", path: SITES, body: site("a", { a: 1, b: 2 }), query: { fieldValidation } });
    expect([answer.status, answer.headers["warning"]]).toEqual([201, warning]);
  });

  test("is rejected if an apply sets a field to null that is not nullable", async () => {
    const { server } = await served();
    const headers = { "content-type": "application/apply-patch+yaml" };
    const body = site("a", { ports: [{ port: 1, name: null }] });
    const answer = await server.request({ method: "PATCH", path: `${SITES}/a`, body, query: { fieldManager: "a" }, headers });
    expect(answer).toMatchObject({
      status: 422,
      body: {
        message: expect.stringContaining(
          'spec.ports[0].name: Invalid value: "null": spec.ports[0].name in body must be of type string: "null"',
        ) as unknown,
      },
    });
  });

  test("can be scaled, watched, selected and printed", async () => {
    const { post, patch, get, watch } = await served();
    const stream = await watch(SITES, { resourceVersion: "0" });
    await post(SITES, { ...site("a"), metadata: { name: "a", labels: { app: "x" } } });
    await post(SITES, site("b"));
    expect((await patch(`${SITES}/a/scale`, MERGE, { spec: { replicas: 3 } })).body).toMatchObject({
      kind: "Scale",
      spec: { replicas: 3 },
    });
    expect(stream.take().map(({ type, object }) => [type, objectAt(object, "spec")?.["replicas"]])).toEqual([
      ["ADDED", 1],
      ["ADDED", 1],
      ["MODIFIED", 3],
    ]);
    const selected = await get(SITES, { labelSelector: "app=x" });
    expect((selected.body["items"] as JsonObject[]).map((item) => objectAt(item, "metadata")?.["name"])).toEqual(["a"]);
    await patch(`${SITES}/a/status`, MERGE, { status: { ready: 2 } });
    const table = await get(SITES, {}, "application/json;as=Table;v=v1;g=meta.k8s.io");
    expect((table.body["columnDefinitions"] as JsonObject[]).map(({ name }) => name)).toEqual(["Name", "Ready"]);
    expect((table.body["rows"] as JsonObject[]).map(({ cells }) => cells)).toEqual([
      ["a", 2],
      ["b", null],
    ]);
  });

  test("is merged by an apply according to the list types of its schema", async () => {
    const { server } = await served();
    const apply = async (fieldManager: string, spec: JsonObject): Promise<JsonObject> => {
      const headers = { "content-type": "application/apply-patch+yaml" };
      const answer = await server.request({ method: "PATCH", path: `${SITES}/a`, body: site("a", spec), query: { fieldManager }, headers });
      if (answer.kind !== "object") throw new Error(answer.kind);
      return answer.body;
    };
    await apply("one", { ports: [{ port: 1, name: "a" }] });
    expect(await apply("two", { ports: [{ port: 2 }] })).toMatchObject({ spec: { ports: [{ port: 1, name: "a" }, { port: 2 }] } });
    expect(await apply("two", { ports: [{ port: 1, name: "b" }] })).toMatchObject({
      code: 409,
      message: 'Apply failed with 1 conflict: conflict with "one": .spec.ports[port=1].name',
    });
    expect(await apply("one", {})).toMatchObject({ spec: { ports: [{ port: 2 }] } });
  });

  test("is served in every version, and stored in one", async () => {
    const two = { name: "v2", served: true, storage: true, schema: { openAPIV3Schema: SCHEMA } };
    const one = { name: "v1", served: true, storage: false, schema: { openAPIV3Schema: SCHEMA } };
    const { post, get, server } = await served(definition({}, {}, { versions: [one, two] }));
    await post(SITES, site("a"));
    expect(server.peek("sites.demo.example.com", "default", "a")?.["apiVersion"]).toBe("demo.example.com/v2");
    expect((await get(`${SITES}/a`)).body["apiVersion"]).toBe("demo.example.com/v1");
    expect((await get(`${SITES.replace("/v1/", "/v2/")}/a`)).body["apiVersion"]).toBe("demo.example.com/v2");
    expect((await get("/apis/demo.example.com")).body["preferredVersion"]).toMatchObject({ version: "v2" });
  });

  test("may have the same kind as a built-in resource", async () => {
    const { post } = await served(definition({ plural: "pods", kind: "Pod", shortNames: [] }));
    const { status, body } = await post("/apis/demo.example.com/v1/namespaces/default/pods", { ...site("a"), kind: "Pod" });
    expect([status, body["spec"], body["status"]]).toEqual([201, { image: "nginx", replicas: 1 }, undefined]);
  });
});
