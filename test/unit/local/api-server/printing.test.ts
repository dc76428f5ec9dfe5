// Tables, discovery, OpenAPI and other responses that kubectl needs.
import { expect, test } from "vitest";
import { humanDuration } from "../../../../shared/api-server/kubectl/human-duration.ts";
import { at, deployment, DEPLOYMENTS, MERGE, pod, PODS, setUp } from "./fixture.ts";
import { KUBERNETES_VERSION } from "../../../../shared/kube/objects/release.ts";

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

test("a Table of Deployments has upstream's columns and cells", async () => {
  const { post, patch, get, clock } = setUp();
  await post(DEPLOYMENTS, deployment("web", { replicas: 3 }));
  await patch(`${DEPLOYMENTS}/web/status`, MERGE, { status: { replicas: 3, updatedReplicas: 2, readyReplicas: 1, availableReplicas: 1 } });
  await clock.advance(150_000);
  const { body } = await get(DEPLOYMENTS, {}, TABLE);
  expect(body["kind"]).toBe("Table");
  expect((at(body, "columnDefinitions") as unknown[]).map((column) => at(column, "name"))).toEqual([
    "Name",
    "Ready",
    "Up-to-date",
    "Available",
    "Age",
    "Containers",
    "Images",
    "Selector",
  ]);
  expect(at(body, "rows.0.cells")).toEqual(["web", "1/3", 2, 1, "2m30s", "app", "app:v1", "app=web"]);
  expect(at(body, "rows.0.object")).toMatchObject({ kind: "PartialObjectMetadata", metadata: { name: "web" } });
});

test.each([
  {
    name: "waiting",
    status: {
      phase: "Pending",
      containerStatuses: [{ name: "app", ready: false, restartCount: 0, state: { waiting: { reason: "ContainerCreating" } } }],
    },
    want: ["0/1", "ContainerCreating", "0"],
  },
  {
    name: "running",
    status: { phase: "Running", containerStatuses: [{ name: "app", ready: true, restartCount: 0, state: { running: {} } }] },
    want: ["1/1", "Running", "0"],
  },
  {
    name: "restarted",
    status: {
      phase: "Running",
      containerStatuses: [
        {
          name: "app",
          ready: false,
          restartCount: 2,
          state: { waiting: { reason: "CrashLoopBackOff" } },
          lastState: { terminated: { exitCode: 1, finishedAt: "2026-01-02T03:04:00Z" } },
        },
      ],
    },
    want: ["0/1", "CrashLoopBackOff", "2 (5s ago)"],
  },
  {
    name: "completed",
    status: {
      phase: "Succeeded",
      containerStatuses: [{ name: "app", ready: false, restartCount: 0, state: { terminated: { exitCode: 0, reason: "Completed" } } }],
    },
    want: ["0/1", "Completed", "0"],
  },
  {
    name: "failed",
    status: {
      phase: "Failed",
      containerStatuses: [{ name: "app", ready: false, restartCount: 0, state: { terminated: { exitCode: 3 } } }],
    },
    want: ["0/1", "ExitCode:3", "0"],
  },
  { name: "evicted", status: { phase: "Failed", reason: "Evicted" }, want: ["0/1", "Evicted", "0"] },
])("prints a pod that is $name", async ({ status, want }) => {
  const { post, patch, get } = setUp();
  await post(PODS, pod("p", {}, { nodeName: "n1" }));
  await patch(`${PODS}/p/status`, MERGE, { status });
  const { body } = await get(`${PODS}/p`, {}, TABLE);
  expect(at(body, "rows.0.cells")).toEqual(["p", ...want, "0s", "<none>", "n1", "<none>", "<none>"]);
});

test("prints a pod that is being deleted as Terminating", async () => {
  const { post, remove, get } = setUp();
  await post(PODS, pod("p", {}, { nodeName: "n1" }));
  await remove(`${PODS}/p`);
  expect(at((await get(PODS, {}, TABLE)).body, "rows.0.cells.2")).toBe("Terminating");
});

test("a watch of Tables sends the columns once", async () => {
  const { post, server } = setUp();
  const response = await server.request({ method: "GET", path: PODS, query: { watch: "1" }, headers: { accept: TABLE } });
  if (response.kind !== "watch") throw new Error("not watched");
  await post(PODS, pod("a"));
  await post(PODS, pod("b"));
  const [first, second] = response.stream.take();
  expect([at(first, "object.kind"), at(first, "object.rows.0.cells.0"), at(second, "object.columnDefinitions")]).toEqual([
    "Table",
    "a",
    null,
  ]);
  expect(at(first, "object.columnDefinitions")).toHaveLength(9);
});

test.each([
  [0, "0s"],
  [119_000, "119s"],
  [120_000, "2m"],
  [125_000, "2m5s"],
  [600_000, "10m"],
  [3 * 3_600_000, "3h"],
  [3 * 3_600_000 + 60_000, "3h1m"],
  [9 * 3_600_000, "9h"],
  [49 * 3_600_000, "2d1h"],
  [400 * 86_400_000, "400d"],
  [800 * 86_400_000, "2y70d"],
])("prints %d ms as %s", (ms, want) => {
  expect(humanDuration(ms)).toBe(want);
});

test("discovery has short names and scales, plain and aggregated", async () => {
  const { get } = setUp();
  const { body } = await get("/apis/apps/v1");
  expect(body["resources"]).toContainEqual(
    expect.objectContaining({ name: "deployments", shortNames: ["deploy"], kind: "Deployment", namespaced: true, categories: ["all"] }),
  );
  expect(body["resources"]).toContainEqual(
    expect.objectContaining({ name: "deployments/scale", group: "autoscaling", version: "v1", kind: "Scale" }),
  );
  const aggregated = await get("/apis", {}, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
  expect(aggregated.body["kind"]).toBe("APIGroupDiscoveryList");
  expect((await get("/apis")).body["kind"]).toBe("APIGroupList");
});

test("OpenAPI v3 has PATCH operations with their kind and fieldValidation", async () => {
  const { get } = setUp();
  const root = await get("/openapi/v3");
  expect(at(root.body, "paths")).toHaveProperty(["apis/apps/v1", "serverRelativeURL"]);
  const { body } = await get("/openapi/v3/apis/apps/v1");
  const { patch } =
    (body["paths"] as Record<string, Record<string, unknown>>)["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"] ?? {};
  expect(patch).toMatchObject({ "x-kubernetes-group-version-kind": { group: "apps", version: "v1", kind: "Deployment" } });
  expect((patch as { parameters: unknown[] }).parameters).toContainEqual(expect.objectContaining({ name: "fieldValidation", in: "query" }));
});

test("serves version, health and reviews, and returns 404 for unknown paths", async () => {
  const { get, post, server } = setUp();
  expect((await get("/version")).body["gitVersion"]).toBe(KUBERNETES_VERSION);
  expect(await server.request({ method: "GET", path: "/readyz" })).toMatchObject({ kind: "text", status: 200, body: "ok" });
  expect((await post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", { spec: {} })).body["status"]).toEqual({ allowed: true });
  expect(at((await post("/apis/authentication.k8s.io/v1/selfsubjectreviews", {})).body, "status.userInfo.username")).toBe(
    "kubernetes-admin",
  );
  expect(await server.request({ method: "GET", path: "/apis/example.com/v1/widgets" })).toMatchObject({ kind: "text", status: 404 });
  expect((await get("/apis/apps/v1/controllerrevisions")).status).toBe(404);
});
