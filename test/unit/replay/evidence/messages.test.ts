// Messages of the kubelet, scheduler, runtime and API server: the parts that a capture keeps. Would catch: the output of a probe or webhook
// in a capture.
import { describe, expect, it } from "vitest";
import { createDigester } from "../../../../shared/kube/pod-template/digest.ts";
import { messageOf } from "../../../../shared/replay/evidence/messages.ts";
import { canary, found } from "../../../support/canaries.ts";

const digester = createDigester("a key of this test alone");
const kept = (text: string, reason = ""): unknown => messageOf(text, reason, digester);
const RUNTIME =
  'rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/app:v9": failed to resolve reference "docker.io/library/app:v9": ';

it.each<{ readonly text: string; readonly reason?: string; readonly want: string; readonly slots?: object }>([
  { text: `Failed to pull image "app:v9": ${RUNTIME}docker.io/library/app:v9: not found`, want: "image not found" },
  { text: `Back-off pulling image "app:v9": ErrImagePull: ${RUNTIME}docker.io/library/app:v9: not found`, want: "image not found" },
  { text: `${RUNTIME}docker.io/library/app:v9: not found`, reason: "ErrImagePull", want: "image not found" },
  { text: `${RUNTIME}no match for platform in manifest: not found`, reason: "ErrImagePull", want: "image wrong platform" },
  {
    text: `${RUNTIME}pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
    reason: "ErrImagePull",
    want: "image denied",
  },
  {
    text: `${RUNTIME}unexpected status code https://r.example/v2/app/manifests/v9: 429 Too Many Requests - Server message: toomanyrequests: TOKEN`,
    reason: "ErrImagePull",
    want: "image rate limited",
    slots: { code: "429" },
  },
  {
    text: `${RUNTIME}failed to do request: Head "https://r.example/v2/?token=${canary("url")}": dial tcp: lookup r.example: no such host`,
    reason: "ErrImagePull",
    want: "image unreachable",
  },
  { text: 'Back-off pulling image "app:v9"', reason: "ImagePullBackOff", want: "image not pulled" },
  { text: 'Container image "app:v9" is not present with pull policy of Never', reason: "ErrImageNeverPull", want: "image never pulled" },
  {
    text: "back-off 2m40s restarting failed container=web pod=web-1_shop(7c1a)",
    want: "crash loop",
    slots: { container: "web", duration: "2m40s" },
  },
  {
    text: "Error: couldn't find key token in Secret shop/web-token",
    want: "key missing",
    slots: { kind: "Secret", name: "web-token", key: "token" },
  },
  { text: 'secret "web-token" not found', want: "object missing", slots: { kind: "secret", name: "web-token" } },
  {
    text: "Readiness probe failed: HTTP probe failed with statuscode: 503",
    want: "probe status",
    slots: { probe: "readiness", code: "503" },
  },
  {
    text: 'Liveness probe failed: Get "http://10.0.0.1:8080/health?key=x": dial tcp 10.0.0.1:8080: connect: connection refused',
    want: "probe refused",
    slots: { probe: "liveness", port: "8080" },
  },
  {
    text: 'Startup probe failed: Get "http://10.0.0.1:8080/": context deadline exceeded (Client.Timeout exceeded while awaiting headers)',
    want: "probe timeout",
    slots: { probe: "startup" },
  },
  { text: `Readiness probe failed: ${canary("probe")}`, want: "probe failed", slots: { probe: "readiness" } },
  {
    text: "Container web failed liveness probe, will be restarted",
    want: "killed by probe",
    slots: { container: "web", probe: "liveness" },
  },
  {
    text: "0/5 nodes are available: 2 Insufficient cpu, 1 node(s) had untolerated taint {team: secret}, 2 node(s) didn't match Pod's node affinity/selector. preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling.",
    want: "unschedulable",
    slots: { nodes: "5", reasons: "2:insufficient:cpu,1:taint:team,2:node-affinity" },
  },
  {
    text: '0/3 nodes are available: persistentvolumeclaim "data" not found. preemption: 0/3 nodes are available.',
    want: "unschedulable",
    slots: { nodes: "3", reasons: "3:volume-missing:data" },
  },
  { text: `0/1 nodes are available: 1 my plugin says ${canary("plugin")}.`, want: "unschedulable", slots: { nodes: "1" } },
  {
    text: '(combined from similar events): Error creating: pods "web-7f8fb-x2x4z" is forbidden: exceeded quota: small, requested: pods=1, used: pods=3, limited: pods=3',
    want: "quota exceeded",
    slots: { quota: "small", requested: "pods=1", used: "pods=3", limited: "pods=3" },
  },
  {
    text: `Error creating: admission webhook "policy.example.com" denied the request: exceeded quota: ${canary("denial")}`,
    want: "webhook denied",
    slots: { webhook: "policy.example.com" },
  },
  {
    text: 'Error creating: Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: Post "https://x?k=v": EOF',
    want: "webhook failed",
    slots: { webhook: "policy.example.com" },
  },
  {
    text: 'Error creating: pods "web-" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
    want: "pod security",
    slots: { level: "restricted:latest" },
  },
  {
    text: 'Failed to create new replica set "web-7f8fb": exceeded quota: q, requested: count/replicasets.apps=1, used: count/replicasets.apps=1, limited: count/replicasets.apps=1',
    want: "quota exceeded",
    slots: { quota: "q", requested: "count/replicasets.apps=1", used: "count/replicasets.apps=1", limited: "count/replicasets.apps=1" },
  },
  {
    text: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 52Ki. ",
    want: "low on resource",
    slots: { resource: "memory" },
  },
  {
    text: 'MountVolume.SetUp failed for volume "conf" : configmap "web-conf" not found',
    want: "volume object missing",
    slots: { volume: "conf", kind: "configmap", name: "web-conf" },
  },
  {
    text: 'Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) web-0',
    want: "volume attached elsewhere",
    slots: { volume: "pvc-1" },
  },
])("classifies as '$want': $text", ({ text, reason, want, slots = {} }) => {
  const message = kept(text, reason);
  expect(message).toEqual({ class: want, slots });
  expect(messageOf(JSON.parse(JSON.stringify(message)), reason, digester)).toEqual(message);
  expect(found([JSON.stringify(message)])).toEqual([]);
});

describe("a message of no listed format", () => {
  it.each([
    canary("output"),
    `${canary("prefix")} admission webhook "policy.example.com" denied the request`,
    `FailedPreStopHook ${canary("hook")}`,
    `pods "web" is forbidden: ${canary("admission")}`,
    `0/x nodes ${canary("scheduler")}`,
  ])("is recorded as length and digest: %s", (text) => {
    const message = kept(text);
    expect(message).toEqual({ length: text.length, digest: expect.stringMatching(/^[\w-]{22}$/) as string });
    expect(messageOf(message, "", digester)).toEqual(message);
    expect(kept(`${text}.`)).not.toEqual(message);
  });
});

it.each([
  { name: "an unknown class", stored: { class: canary("class"), slots: {} } },
  { name: "an invalid digest", stored: { length: 3, digest: canary("digest") } },
])("a capture file cannot add $name", ({ stored }) => expect(messageOf(stored, "", digester)).toBeUndefined());

it("a capture file cannot insert arbitrary text into a message's parameter", () => {
  const stored = { class: "webhook denied", slots: { webhook: `a b ${canary("slot")}`, quota: 'x"y' } };
  expect(messageOf(stored, "", digester)).toEqual({ class: "webhook denied", slots: {} });
});
