// A webhook that cannot be called. Would catch: help that cannot be pasted, and a deadlock of a webhook and its backend that is not shown.
import { describe, expect, it } from "vitest";
import { verdictText } from "../../../../cli/explain/verdict-text.ts";
import type { Placed } from "../../../support/incident.ts";
import { at, replicaSet, textOf, verdictOn } from "../../../support/incident.ts";

const refused = (message: string): Placed =>
  replicaSet("web-b", {
    status: {
      replicas: 0,
      conditions: [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: at(-290) }],
    },
  });

describe("a webhook that cannot be called", () => {
  const webhook = 'Internal error occurred: failed calling webhook "pods.example.com": no endpoints available';

  it("is unblocked first by a command that stays valid when wrapped", () => {
    const text = verdictText(verdictOn(refused(webhook))).replaceAll(/ \\\n +/g, " ");
    expect(text).toMatch(/Try {7}kubectl get .* -o custom-columns='KIND:.kind,NAME:.metadata.name,OF:.webhooks\[\*\].name'\n/);
    expect(text).toContain('kubectl patch KIND NAME -p "webhooks: [{name: pods.example.com, failurePolicy: Ignore}]"\n');
    expect(text.replaceAll(/\s+/g, " ")).toContain("check the Service and pods behind the webhook");
  });

  it.each([
    { pods: 0, message: webhook, isNamed: true },
    { pods: 1, message: webhook, isNamed: false },
    { pods: 0, message: webhook.replace("pods.", "others."), isNamed: false },
  ])("is reported with another workload of the namespace with $pods pods ($isNamed)", ({ pods, message, isNamed }) => {
    const meta = { namespace: "shop", resourceVersion: "1", generation: 1, creationTimestamp: at(-2_000) };
    const spec = { replicas: 1, selector: { matchLabels: { app: "opa" } }, template: {} };
    const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name: "opa", uid: "uid-opa-d", controller: true }];
    const conditions = [{ type: "ReplicaFailure", status: "True", reason: "FailedCreate", message, lastTransitionTime: at(-60) }];
    const opa: readonly Placed[] = [
      ["deployments", { metadata: { ...meta, name: "opa", uid: "uid-opa-d" }, spec, status: { replicas: pods } }],
      [
        "replicasets",
        { metadata: { ...meta, name: "opa-1", uid: "uid-opa-1", ownerReferences }, spec, status: { replicas: pods, conditions } },
      ],
    ];
    const words = "Also deployment/opa waits for the same webhook and has no pods; if it serves the webhook, neither can start";
    expect(textOf(refused(webhook), ...opa).includes(words)).toBe(isNamed);
  });
});
