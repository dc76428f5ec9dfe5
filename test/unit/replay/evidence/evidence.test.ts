// The data that a capture of format 2 contains in addition to the stripped objects. Would catch: a secret in it, and a verdict that is only
// possible with whole objects.
import { expect, it } from "vitest";
import type { CachedResource, EvidenceResource } from "../../../../shared/kube/objects/resources.ts";
import { CACHED_RESOURCES, RESOURCES } from "../../../../shared/kube/objects/resources.ts";
import { createDigester } from "../../../../shared/kube/pod-template/digest.ts";
import { captureIn } from "../../../../shared/replay/capture-format/capture-stream.ts";
import { bytesHeld } from "../../../../shared/replay/capture-format/line-stream.ts";
import { recorded, redacted } from "../../../../shared/replay/capture-format/redact.ts";
import { isEvidenceResource } from "../../../../shared/replay/capture-format/recorded-resources.ts";
import { evidenceOf } from "../../../../shared/replay/evidence/evidence.ts";
import { otherEvidence } from "../../../../shared/replay/evidence/other-evidence.ts";
import { StateCensus } from "../../../../shared/replay/incident/cluster-state.ts";
import { verdictOf } from "../../../../shared/replay/verdict/verdict.ts";
import { canary, canaryAnnotations, canaryContainer, DENIAL, FOREIGN, found } from "../../../support/canaries.ts";
import { at, deployment, event, oldPods, pod, replicaSet } from "../../../support/incident.ts";
import type { Placed } from "../../../support/incident.ts";
import { parseCapture } from "../../../support/held-capture.ts";

const digester = createDigester("a key of this test alone");
const headers = [{ name: "Authorization", value: canary("header") }];
const probes = {
  readinessProbe: { httpGet: { path: `/${canary("path")}`, port: 8080, httpHeaders: headers } },
  livenessProbe: { exec: { command: [canary("probe-command")] } },
  lifecycle: { preStop: { exec: { command: [canary("preStop")] } } },
};
const ended = { terminated: { reason: "Error", exitCode: 1, message: canary("dying"), finishedAt: at(-30) } };
const conditions = [
  { type: "ReplicaFailure", status: "True", reason: "FailedCreate", message: DENIAL },
  { type: "example.com/gate", status: "False", reason: "Waits", message: FOREIGN },
];
const annotated = { annotations: canaryAnnotations() };
const template = {
  metadata: { labels: { app: "web" }, ...annotated },
  spec: { containers: [{ ...canaryContainer("web", "app:v2"), ...probes }] },
};
const CLOSE = {
  container: { ...canaryContainer("web", "app:v2"), ...probes },
  status: { conditions, message: canary("status") },
  web: { lastState: ended, state: { waiting: { reason: "CrashLoopBackOff", message: canary("waiting") } } },
};
const PLANTED: readonly Placed[] = [
  pod(CLOSE),
  deployment({ metadata: annotated, spec: { template }, status: { conditions } }),
  replicaSet("web-b", { spec: { template }, status: { conditions } }),
  event("Unhealthy", `Readiness probe failed: ${canary("event")}`),
  event("FailedPreStopHook", `PreStopHook failed ${canary("hook")}`),
  event("Failed", `Failed to pull image "app:${canary("tag")}": unexpected status from GET request to https://r/${canary("url")}: 500`),
  event("FailedCreate", `Error creating: ${DENIAL}`),
  event(
    "FailedCreate",
    `Error creating: pods "x" is forbidden: exceeded quota: ${canary("quota")}, requested: pods=1, used: pods=1, limited: pods=1`,
    { count: 2 },
  ),
  [
    "nodes",
    {
      metadata: { name: "n1", uid: "u", resourceVersion: "1", ...annotated },
      spec: { taints: [{ key: "team", value: canary("taint"), effect: "NoSchedule" }] },
      status: { conditions: [{ type: "Ready", status: "False", message: canary("node") }] },
    },
  ],
  [
    "resourcequotas",
    {
      metadata: { name: "q", namespace: "shop", uid: "u", resourceVersion: "1", ...annotated },
      status: { hard: { pods: "3" }, used: { pods: "3" } },
    },
  ],
  [
    "horizontalpodautoscalers",
    {
      metadata: { name: "h", namespace: "shop", uid: "u", resourceVersion: "1", ...annotated },
      spec: { scaleTargetRef: { kind: "Deployment", name: "web" }, metrics: [canary("metric")] },
      status: {},
    },
  ],
  [
    "poddisruptionbudgets",
    {
      metadata: { name: "b", namespace: "shop", uid: "u", resourceVersion: "1", ...annotated },
      spec: {},
      status: { disruptionsAllowed: 0 },
    },
  ],
];

const of = ([resource, fields]: Placed): Readonly<Record<string, unknown>> => ({
  kind: RESOURCES[resource].kind,
  apiVersion: RESOURCES[resource].apiVersion,
  ...fields,
});

it.each(PLANTED.map((placed, index) => ({ name: `${placed[0]} ${index}`, placed })))("records no secret value of $name", ({ placed }) => {
  expect(JSON.stringify(of(placed))).toContain("CANARY-");
  expect(found([JSON.stringify(recorded(placed[0], of(placed), digester))])).toEqual([]);
});

it.each(PLANTED.map((placed, index) => ({ name: `${placed[0]} ${index}`, placed })))(
  "reads recorded evidence of $name as it was written",
  ({ placed }) => {
    const [resource] = placed;
    const shown = JSON.parse(JSON.stringify(recorded(resource, of(placed), digester))) as {
      readonly object: Readonly<Record<string, unknown>>;
      readonly evidence: Readonly<Record<string, unknown>>;
    };
    const again = isEvidenceResource(resource)
      ? otherEvidence(resource, shown.object, digester)
      : evidenceOf(resource, shown.evidence, digester);
    expect(JSON.parse(JSON.stringify(again))).toEqual(isEvidenceResource(resource) ? shown.object : shown.evidence);
  },
);

it("reads an object of format 1 as before, so that its replay is unchanged", () => {
  for (const placed of [pod(), deployment(), replicaSet("web-a")])
    expect(recorded(placed[0], of(placed), digester)?.object).toEqual(redacted(placed[0] as CachedResource, of(placed), digester));
});

it("does not keep conditions that other controllers write, even of a known format", () => {
  const gate = { type: "example.com/gate", status: "False", reason: "Waits", message: 'secret "web-token" not found' };
  expect(JSON.stringify(evidenceOf("pods", of(pod({ status: { conditions: [gate] } })), digester))).not.toContain("web-token");
});

it("digests show within one capture that a value changed", () => {
  const withEnv = (value: string): object =>
    evidenceOf(
      "deployments",
      of(deployment({ spec: { template: { spec: { containers: [{ name: "web", image: "a", env: [{ name: "A", value }] }] } } } })),
      digester,
    );
  expect(withEnv("1")).toEqual(withEnv("1"));
  expect(withEnv("1")).not.toEqual(withEnv("2"));
  expect(JSON.stringify(withEnv("1"))).toMatch(/"env":\{"A":"[\w-]{22}"\}/);
});

const INCIDENT: readonly Placed[] = [
  deployment(),
  replicaSet("web-a"),
  replicaSet("web-b"),
  ...oldPods,
  pod({
    state: {
      waiting: {
        reason: "ImagePullBackOff",
        message: 'Back-off pulling image "app:v2": ErrImagePull: docker.io/library/app:v2: not found',
      },
    },
  }),
  event("Failed", "Error: ImagePullBackOff"),
];

function linesOf(raw: boolean): string {
  const line = (resource: CachedResource | EvidenceResource, fields: object): string =>
    JSON.stringify({ t: at(0), r: resource, k: "item", ...fields });
  const lines = INCIDENT.map((placed) => line(placed[0], raw ? { object: of(placed) } : (recorded(placed[0], of(placed), digester) ?? {})));
  return [JSON.stringify({ t: at(0), k: "meta", format: 2, raw }), ...lines].join("\n");
}

it("explain has the same verdict for a stripped capture as for a complete one", async () => {
  const [whole, stripped] = await Promise.all(
    [true, false].map(async (raw) => {
      const census = new StateCensus(digester);
      await captureIn(bytesHeld(Buffer.from(linesOf(raw))), "f", { census });
      return verdictOf(census.state(), { resource: "deployments", namespace: "shop", name: "web" });
    }),
  );
  expect(stripped?.findings[0]?.kind).toBe("image not found");
  expect(stripped?.changes).toMatchObject([{ field: "web.image", from: "app:v1", to: "app:v2", manager: "kubectl-set" }]);
  expect(stripped).toEqual(whole);
});

it("pods have the same start times in two states at the same time", async () => {
  const census = new StateCensus(digester);
  await captureIn(bytesHeld(Buffer.from(linesOf(true))), "f", { census });
  const starts = [...census.state().startsOf("uid-web-a")];
  expect(starts.length).toBeGreaterThan(0);
  expect(census.state().startsOf("uid-web-a")).toEqual(starts);
});

it("reads evidence of a file only for its own resources", () => {
  const records = parseCapture(linesOf(false), "f");
  expect(new Set(records.map(({ resource }) => resource))).toEqual(
    new Set(CACHED_RESOURCES.filter((each) => each !== "replicationcontrollers")),
  );
});
