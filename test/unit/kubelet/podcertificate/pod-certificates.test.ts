/**
 * Would catch: a second request for the same certificate, an unnecessary request, a key in a log or Event, and a key that is kept for a
 * deleted pod.
 */
import { beforeEach, expect, it } from "vitest";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { KubeApiError, UnansweredError } from "../../../../shared/kube/client/errors.ts";
import { pemBlock } from "../../../../shared/node-agent/kubelet/certificate/pem.ts";
import { PodCertificates } from "../../../../shared/node-agent/kubelet/podcertificate/pod-certificates.ts";
import type { CertificateSource } from "../../../../shared/node-agent/kubelet/types/projected-sources.ts";
import { VolumeError } from "../../../../shared/node-agent/kubelet/types/volume-error.ts";
import type { PodEvent } from "../../../../shared/node-agent/kubelet/events/pod-events.ts";
import { recordingLog } from "../../recording-log.ts";
import { nodePod, NOW_MS } from "../fixtures.ts";

const HOUR = 3_600_000;
const POD = nodePod({ name: "web", namespace: "shop", uid: "u1" });
const CHAIN = pemBlock("CERTIFICATE", Buffer.from("issued"));

interface Created {
  readonly metadata: { readonly name: string };
  readonly spec: object;
  status?: object;
}

class Harness {
  readonly clock: VirtualClock = createVirtualClock(NOW_MS);
  readonly log = recordingLog();
  readonly events: PodEvent[] = [];
  readonly calls: string[] = [];
  readonly requests: Created[] = [];
  readonly condition: { nodeUid?: string } = { nodeUid: "node-uid" };
  failure: Error | undefined;
  hasAccount = true;
  certificates = this.start();

  start(): PodCertificates {
    const answer = async <T>(call: string, value: () => T): Promise<T> => {
      this.calls.push(call);
      if (this.failure !== undefined) throw this.failure;
      return value();
    };
    const kube = {
      get: (resource: string, namespace: string, name: string) =>
        answer(`get ${resource} ${namespace}/${name}`, () =>
          resource === "serviceaccounts"
            ? this.hasAccount && { metadata: { name, uid: "account-uid" } }
            : this.requests.find(({ metadata }) => metadata.name === name),
        ).then((found) => found || undefined),
      create: ({ resource, body }: { readonly resource: string; readonly body: Created }) =>
        answer(`create ${resource}`, () => {
          const created = { ...body, metadata: { ...body.metadata, name: `req-${this.requests.length + 1}` } };
          this.requests.push(created);
          return created;
        }),
    };
    const ports = {
      kube,
      clock: this.clock,
      log: this.log,
      random: { next: () => 0 },
      podEvent: (_pod: unknown, event: PodEvent) => void this.events.push(event),
      condition: this.condition,
      options: { nodeName: "n1" },
    };
    return new PodCertificates(ports as unknown as ConstructorParameters<typeof PodCertificates>[0]); // the only methods that are called
  }

  issue(index: number): void {
    const request = this.requests[index];
    if (request === undefined) throw new Error(`no request ${index}`);
    const time = (ms: number): string => new Date(this.clock.now() + ms).toISOString();
    request.status = { conditions: [{ type: "Issued" }], certificateChain: CHAIN, beginRefreshAt: time(HOUR), notAfter: time(2 * HOUR) };
  }

  /** Returns the private key, or the error's message. */
  async current(from: Partial<CertificateSource> = {}): Promise<string> {
    const source = { signerName: "a.test/s", keyType: "ED25519" };
    const given = { volume: "certs", index: 0, source, ...from };
    try {
      return (await this.certificates.current(POD, given)).privateKey;
    } catch (error) {
      if (error instanceof VolumeError) return error.message;
      throw error;
    }
  }
}

let harness: Harness;
beforeEach(() => void (harness = new Harness()));
const PENDING = "credential bundle is not issued yet";
const KEY = /^-----BEGIN PRIVATE KEY-----\n/u;

it("[node-agent 511] requests a certificate with all fields, and reads it until it is issued", async () => {
  const source = { signerName: "a.test/s", keyType: "ED25519", maxExpirationSeconds: 7_200, userAnnotations: { "a.test/k": "v" } };
  expect(await harness.current({ source })).toBe(PENDING);
  expect(harness.requests).toEqual([
    {
      apiVersion: "certificates.k8s.io/v1",
      kind: "PodCertificateRequest",
      metadata: {
        name: "req-1",
        namespace: "shop",
        generateName: "req-",
        ownerReferences: [{ apiVersion: "v1", kind: "Pod", name: "web", uid: "u1" }],
      },
      spec: {
        signerName: "a.test/s",
        podName: "web",
        podUID: "u1",
        serviceAccountName: "default",
        serviceAccountUID: "account-uid",
        nodeName: "n1",
        nodeUID: "node-uid",
        stubPKCS10Request: expect.stringMatching(/^[A-Za-z0-9+/]+=*$/u),
        maxExpirationSeconds: 7_200,
        unverifiedUserAnnotations: { "a.test/k": "v" },
      },
    },
  ]);
  expect(await harness.current()).toBe(PENDING);
  harness.issue(0);
  expect(await harness.current()).toMatch(KEY);
  expect(await harness.current()).toMatch(KEY);
  expect(harness.calls).toEqual([
    "get serviceaccounts shop/default",
    "create podcertificaterequests",
    "get podcertificaterequests shop/req-1",
    "get podcertificaterequests shop/req-1",
  ]);
});

it("[node-agent 511] refreshes in time with another key, and uses the old one until then", async () => {
  await harness.current();
  harness.issue(0);
  const first = await harness.current();
  await harness.clock.advance(HOUR - 1);
  expect(await harness.current()).toBe(first);
  expect(harness.requests).toHaveLength(1);
  await harness.clock.advance(1);
  expect(await harness.current()).toBe(first);
  expect(await harness.current()).toBe(first);
  expect(harness.requests).toHaveLength(2);
  harness.issue(1);
  const second = await harness.current();
  expect(second).toMatch(KEY);
  expect(second).not.toBe(first);
  expect(harness.events).toEqual([]);
});

it("[node-agent 511] keeps an overdue certificate while the API server is unavailable, and reports it", async () => {
  await harness.current();
  harness.issue(0);
  const key = await harness.current();
  harness.failure = new UnansweredError("no answer");
  await harness.clock.advance(3 * HOUR);
  expect(await harness.current()).toBe(key);
  expect(await harness.current()).toBe(key);
  expect(harness.events.map(({ reason }) => reason)).toEqual(["CertificateOverdueForRefresh", "CertificateExpired"]);
  expect(harness.log.lines).toHaveLength(2);
});

it("[node-agent 511] reports why there is no request yet, and retries", async () => {
  harness.hasAccount = false;
  expect(await harness.current()).toBe(`${PENDING}: while fetching service account: serviceaccounts "default" not found`);
  harness.hasAccount = true;
  harness.failure = new KubeApiError({ code: 403, reason: "Forbidden", message: "not this node" });
  expect(await harness.current()).toBe(`${PENDING}: while fetching service account: ${harness.failure.message}`);
  harness.failure = undefined;
  delete harness.condition.nodeUid;
  expect(await harness.current()).toBe(`${PENDING}: while getting node object from local cache: node "n1" not found`);
  harness.condition.nodeUid = "node-uid";
  const source = { signerName: "a.test/s", keyType: "DSA" };
  expect(await harness.current({ source })).toBe(
    `${PENDING}: while creating initial PodCertificateRequest: while generating keypair: unknown key type "DSA"`,
  );
  expect(await harness.current()).toBe(PENDING);
  harness.failure = new UnansweredError("no answer");
  expect(await harness.current()).toBe(`${PENDING}: while getting PodCertificateRequest "shop/req-1": ${harness.failure.message}`);
  expect(harness.requests).toHaveLength(1);
});

it("[node-agent 511] creates another request if one was deleted, and none after a denial", async () => {
  await harness.current();
  harness.requests[0] = { metadata: { name: "gone" }, spec: {} };
  expect(await harness.current()).toBe(PENDING);
  expect(await harness.current()).toBe(PENDING);
  expect(harness.requests).toHaveLength(2);
  const denied = harness.requests[1];
  if (denied) denied.status = { conditions: [{ type: "Denied", reason: "No", message: "not you" }] };
  const message = 'PodCertificateRequest was permanently denied: reason="No" message="not you"';
  expect(await harness.current()).toBe(message);
  expect(await harness.current()).toBe(message);
  expect(harness.events).toHaveLength(1);
  expect(harness.requests).toHaveLength(2);
});

it("[node-agent 511] runs one step of a source at a time, and those of other sources concurrently", async () => {
  await Promise.all([harness.current(), harness.current(), harness.current({ index: 1 }), harness.current({ volume: "other" })]);
  expect(harness.requests).toHaveLength(3);
});

it("[node-agent 511] never reuses the key of a deleted pod or of an earlier agent process, and logs no key", async () => {
  const keys: string[] = [];
  for (let turn = 0; turn < 3; turn++) {
    await harness.current();
    harness.issue(turn);
    keys.push(await harness.current());
    if (turn === 0) harness.certificates.forget("u1");
    if (turn === 1) harness.certificates = harness.start();
  }
  expect(new Set(keys).size).toBe(3);
  harness.failure = new UnansweredError("no answer");
  await harness.clock.advance(3 * HOUR);
  await harness.current();
  const said = JSON.stringify([harness.log.lines, harness.events, harness.requests]);
  for (const key of keys) expect(said).not.toContain(key.split("\n")[1]);
});
