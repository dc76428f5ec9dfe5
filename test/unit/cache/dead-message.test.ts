// Dead messages: the cache that becomes suspect after each one.
import fc from "fast-check";
import { expect, it } from "vitest";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { readDeadMessage } from "../../../shared/controllers/cache/messages/dead-message.ts";
import { signedBody, testSigner } from "../../support/signer.ts";

const envelope = { v: 2, c: "c1", r: "pods", e: "e1", f: "812", g: 1, ln: 3, sq: 42, k: "D", ts: 0, items: [] };
const body = (fields: object): string => JSON.stringify({ ...envelope, ...fields });

it.each([
  {
    name: "an envelope that this build understands",
    text: body({ items: [{}, {}] }),
    want: {
      ended: { resource: "pods", lane: 3, fate: "dead", items: 2 },
      cluster: "c1",
      resources: ["pods"],
      what: "D of pods, lane 3, sequence 42 of fence 812",
      why: "every delivery failed",
    },
  },
  {
    name: "a newer envelope",
    text: body({ v: 3, r: "deployments", items: "who knows" }),
    want: {
      ended: { resource: "deployments", fate: "dead", items: 1 },
      cluster: "c1",
      resources: ["deployments"],
      what: "deployments",
      why: "envelope version 3, this build reads up to 2",
    },
  },
  {
    name: "a newer envelope of a resource that only newer builds watch",
    text: body({ v: 3, r: "nodes" }),
    want: {
      ended: { fate: "dead", items: 1 },
      cluster: "c1",
      resources: CACHED_RESOURCES,
      what: "unknown resource",
      why: "envelope version 3, this build reads up to 2",
    },
  },
  {
    name: "an unknown view",
    text: body({ r: "configmaps~team-guard~k3x9", k: "W", rv: "1" }),
    want: {
      ended: { fate: "dead", items: 1 },
      cluster: "c1",
      resources: [],
      what: "configmaps~team-guard~k3x9",
      why: "view configmaps~team-guard~k3x9 is unknown to this build",
    },
  },
  {
    name: "an envelope without a head",
    text: '{"v":2,"c":"c1","r":"replicasets"}',
    want: {
      ended: { resource: "replicasets", fate: "dead", items: 1 },
      cluster: "c1",
      resources: ["replicasets"],
      what: "replicasets",
      why: "e is not a string",
    },
  },
  {
    name: "a JSON list",
    text: "[]",
    want: {
      ended: { fate: "dead", items: 1 },
      cluster: "c1",
      resources: CACHED_RESOURCES,
      what: "unknown resource",
      why: "not a JSON object",
    },
  },
])("reports the cache that may have missed a change: $name", ({ text, want }) => {
  expect(readDeadMessage(signedBody("c1", text), testSigner)).toEqual({ kind: "dead", ...want });
});

it("returns the cluster of any signed body, and no resources for an unsigned one", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      expect(readDeadMessage(signedBody("c1", text), testSigner)).toMatchObject({ kind: "dead", cluster: "c1" });
      expect(readDeadMessage(text, testSigner)).not.toHaveProperty("resources");
    }),
  );
});
