// Defaults of the in-memory API server: each missing, misplaced or additional default changes every pod-template-hash.
import { expect, test } from "vitest";
import { decodeProtobuf, PROTOBUF_MEDIA_TYPE } from "../../../../shared/api-server/rest/protobuf.ts";
import { parsed } from "../../../../shared/api-server/rest/request-body.ts";
import { canonicalQuantity } from "../../../../shared/kube/quantity/quantity-text.ts";
import { at, deployment, DEPLOYMENTS, MERGE, pod, PODS, podTemplate, setUp } from "./fixture.ts";

/** deployment.md §7.3: the result of `kubectl create deployment nginx --image=nginx`; its hash in v1.36 is 7f8fbb96d. */
const H1 = {
  metadata: { labels: { app: "nginx" } },
  spec: {
    containers: [
      {
        name: "nginx",
        image: "nginx",
        resources: {},
        terminationMessagePath: "/dev/termination-log",
        terminationMessagePolicy: "File",
        imagePullPolicy: "Always",
      },
    ],
    restartPolicy: "Always",
    terminationGracePeriodSeconds: 30,
    dnsPolicy: "ClusterFirst",
    securityContext: {},
    schedulerName: "default-scheduler",
  },
};

/** The request of `kubectl create deployment nginx --image=nginx`. */
const CREATE_DEPLOYMENT = Buffer.from(
  [
    "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412b3010a230a056e67696e7812001a0022002a0032",
    "00380042005a0c0a0361707012056e67696e78127e0801120e0a0c0a0361707012056e67696e781a620a1e0a0012001a",
    "0022002a003200380042005a0c0a0361707012056e67696e78124012220a056e67696e7812056e67696e782a0042006a",
    "007200800100880100900100a201001a00320042004a005200580060006800820100" + "8a01009a0100c2010022020a002800",
    "38001a0c08001000180020002800" + "38001a002200",
  ].join(""),
  "hex",
);

test("the template of kubectl create deployment, sent as JSON, has hash H1", async () => {
  const { post } = setUp();
  const template = {
    metadata: { creationTimestamp: null, labels: { app: "nginx" } },
    spec: { containers: [{ name: "nginx", image: "nginx", resources: {} }] },
  };
  const { body } = await post(
    DEPLOYMENTS,
    deployment("nginx", { replicas: 1, selector: { matchLabels: { app: "nginx" } }, strategy: {}, template }),
  );
  expect(at(body, "spec.template")).toEqual(H1);
  expect(at(body, "spec.strategy")).toEqual({ type: "RollingUpdate", rollingUpdate: { maxUnavailable: "25%", maxSurge: "25%" } });
  expect([at(body, "spec.revisionHistoryLimit"), at(body, "spec.progressDeadlineSeconds")]).toEqual([10, 600]);
});

test("the template has the same hash when sent as protobuf, as kubectl does", async () => {
  const { server } = setUp();
  const response = await server.request({
    method: "POST",
    path: DEPLOYMENTS,
    headers: { "content-type": PROTOBUF_MEDIA_TYPE },
    body: CREATE_DEPLOYMENT,
  });
  expect(response.status).toBe(201);
  const body = response.kind === "object" ? response.body : {};
  expect(at(body, "spec.template")).toEqual(H1);
  expect([at(body, "metadata.name"), at(body, "spec.replicas"), at(body, "metadata.labels")]).toEqual(["nginx", 1, { app: "nginx" }]);
});

test("a long integer of a template keeps its digits in protobuf; all other numbers are JavaScript numbers", () => {
  const field = (number: number, value: Buffer): Buffer => Buffer.concat([Buffer.from([(number << 3) | 2, value.length]), value]);
  const max = Buffer.from([...Array.from({ length: 8 }, () => 0xff), 0x7f]); // 2^63 - 1
  const podSpec = Buffer.concat([Buffer.from([4 << 3]), max]);
  const spec = Buffer.concat([Buffer.from([1 << 3]), max, field(3, field(2, podSpec))]);
  const type = Buffer.concat([field(1, Buffer.from("apps/v1")), field(2, Buffer.from("Deployment"))]);
  expect(parsed(Buffer.concat([Buffer.from("k8s\0"), field(1, type), field(2, field(2, spec))]))).toEqual({
    apiVersion: "apps/v1",
    kind: "Deployment",
    spec: { replicas: 2 ** 63, template: { spec: { terminationGracePeriodSeconds: 9223372036854775807n } } },
  });
});

test("rejects a truncated protobuf body", () => {
  expect(() => decodeProtobuf(CREATE_DEPLOYMENT.subarray(0, 100))).toThrow("unexpected EOF");
  expect(() => decodeProtobuf(Buffer.from("{}"))).toThrow("does not appear to be a protobuf message");
});

test("restores defaults that a patch removes", async () => {
  const { post, patch } = setUp();
  await post(DEPLOYMENTS, deployment("web"));
  const { body } = await patch(`${DEPLOYMENTS}/web`, MERGE, { spec: { replicas: null, template: { spec: { schedulerName: null } } } });
  expect([at(body, "spec.replicas"), at(body, "spec.template.spec.schedulerName"), at(body, "metadata.generation")]).toEqual([
    1,
    "default-scheduler",
    1,
  ]);
});

test("does not default replicas: 0", async () => {
  const { post } = setUp();
  expect(at((await post(DEPLOYMENTS, deployment("web", { replicas: 0 }))).body, "spec.replicas")).toBe(0);
});

test.each([
  ["nginx", "Always"],
  ["nginx:latest", "Always"],
  ["registry:5000/nginx", "Always"],
  ["registry:5000/nginx:1", "IfNotPresent"],
  ["nginx@sha256:abc", "IfNotPresent"],
])("the pull policy of %s is %s", async (image, want) => {
  const { post } = setUp();
  const { body } = await post(DEPLOYMENTS, deployment("web", { template: podTemplate({ containers: [{ name: "a", image }] }) }));
  expect(at(body, "spec.template.spec.containers.0.imagePullPolicy")).toBe(want);
});

test("gives a pod, unlike a template, requests from its limits, a service account and tolerations", async () => {
  const { post } = setUp();
  const containers = [{ name: "a", image: "a:1", resources: { limits: { cpu: 2, memory: "1024Mi" } } }];
  const { body } = await post(PODS, pod("p", {}, { containers }));
  expect(at(body, "spec.containers.0.resources")).toEqual({ limits: { cpu: "2", memory: "1Gi" }, requests: { cpu: "2", memory: "1Gi" } });
  expect(at(body, "spec")).toMatchObject({
    serviceAccountName: "default",
    enableServiceLinks: true,
    priority: 0,
    preemptionPolicy: "PreemptLowerPriority",
  });
  expect(at(body, "status")).toEqual({ phase: "Pending", qosClass: "Guaranteed" });
  const inTemplate = await post(DEPLOYMENTS, deployment("web", { template: podTemplate({ containers }) }));
  expect(at(inTemplate.body, "spec.template.spec.containers.0.resources")).toEqual({ limits: { cpu: "2", memory: "1Gi" } });
});

test.each([
  ["1000m", "1"],
  ["0.5", "500m"],
  ["1.5", "1500m"],
  ["1024Mi", "1Gi"],
  ["1536Mi", "1536Mi"],
  ["512", "512"],
  ["1000", "1k"],
  ["1e3", "1e3"],
  ["1000000000", "1G"],
  ["0", "0"],
  ["100u", "100u"],
  ["1.5Gi", "1536Mi"],
  ["+5", "+5"],
  ["-1", "-1"],
  ["a", undefined],
])("serves the quantity %s as %s", (text, want) => {
  expect(canonicalQuantity(text)).toBe(want);
});
