/** The fields of Events, Nodes, HorizontalPodAutoscalers, PodDisruptionBudgets and ResourceQuotas that explain an incident. */
import { EVIDENCE_RESOURCES, RESOURCES } from "@deltaloop/kube/objects";
import type { EvidenceResource } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { defined, listIn, numberIn, objectIn, quantitiesIn, textIn } from "./fields.ts";
import type { Json } from "./fields.ts";
import { messageOf } from "./messages.ts";
import type { Message } from "./messages.ts";
import { conditionsIn } from "./pod-evidence.ts";
import type { ConditionEvidence } from "./pod-evidence.ts";

/** Has the API's own shape, so `otherEvidence` returns its own result unchanged. */
export interface OtherEvidence {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly uid: string; readonly resourceVersion: string };
}

export interface EventEvidence extends OtherEvidence {
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid?: string; readonly fieldPath?: string };
  readonly type?: string;
  readonly reason: string;
  readonly count: number;
  readonly message?: Message;
  readonly firstTimestamp?: string;
  readonly lastTimestamp?: string;
  readonly source: { readonly component?: string };
}

export interface NodeEvidence extends OtherEvidence {
  readonly spec: { readonly unschedulable?: boolean; readonly taints: readonly { readonly key: string; readonly effect: string }[] };
  readonly status: { readonly allocatable: Readonly<Record<string, string>>; readonly conditions: readonly ConditionEvidence[] };
}

export interface HpaEvidence extends OtherEvidence {
  readonly spec: {
    readonly scaleTargetRef: { readonly kind?: string; readonly name?: string };
    readonly minReplicas?: number;
    readonly maxReplicas?: number;
  };
  readonly status: { readonly desiredReplicas?: number; readonly conditions: readonly ConditionEvidence[] };
}

export interface PdbEvidence extends OtherEvidence {
  readonly spec: { readonly selector: Json };
  readonly status: { readonly disruptionsAllowed?: number; readonly currentHealthy?: number; readonly desiredHealthy?: number };
}

export interface QuotaEvidence extends OtherEvidence {
  readonly status: { readonly hard: Readonly<Record<string, string>>; readonly used: Readonly<Record<string, string>> };
}

export interface EvidenceObjects {
  readonly events: EventEvidence;
  readonly nodes: NodeEvidence;
  readonly horizontalpodautoscalers: HpaEvidence;
  readonly poddisruptionbudgets: PdbEvidence;
  readonly resourcequotas: QuotaEvidence;
}

export function evidenceResourceOf(kind: unknown): EvidenceResource | undefined {
  return EVIDENCE_RESOURCES.find((resource) => RESOURCES[resource].kind === kind);
}

const READERS: { readonly [R in EvidenceResource]: (object: Json, digester: Digester) => Omit<EvidenceObjects[R], keyof OtherEvidence> } = {
  events(object, digester) {
    const reason = textIn(object, "reason") ?? "";
    const involved = objectIn(object, "involvedObject");
    const series = objectIn(object, "series");
    const first = textIn(object, "firstTimestamp") ?? textIn(object, "eventTime");
    return {
      involvedObject: {
        ...{ kind: textIn(involved, "kind") ?? "", name: textIn(involved, "name") ?? "" },
        ...defined({ uid: textIn(involved, "uid"), fieldPath: textIn(involved, "fieldPath") }),
      },
      ...{ reason, count: numberIn(series, "count") ?? numberIn(object, "count") ?? 1 },
      ...defined({
        type: textIn(object, "type"),
        message: messageOf(object["message"], reason, digester),
        firstTimestamp: first,
        lastTimestamp: textIn(series, "lastObservedTime") ?? textIn(object, "lastTimestamp") ?? first,
      }),
      // The scheduler sets only reportingComponent.
      source: defined({ component: textIn(objectIn(object, "source"), "component") ?? textIn(object, "reportingComponent") }),
    };
  },
  nodes(object, digester) {
    const [spec, status] = [objectIn(object, "spec"), objectIn(object, "status")];
    const taints = listIn(spec, "taints").map((taint) => ({ key: textIn(taint, "key") ?? "", effect: textIn(taint, "effect") ?? "" }));
    return {
      spec: { ...(spec["unschedulable"] === true && { unschedulable: true }), taints },
      status: { allocatable: quantitiesIn(status, "allocatable"), conditions: conditionsIn(status, digester) },
    };
  },
  horizontalpodautoscalers(object, digester) {
    const [spec, status] = [objectIn(object, "spec"), objectIn(object, "status")];
    const target = objectIn(spec, "scaleTargetRef");
    return {
      spec: {
        scaleTargetRef: defined({ kind: textIn(target, "kind"), name: textIn(target, "name") }),
        ...defined({ minReplicas: numberIn(spec, "minReplicas"), maxReplicas: numberIn(spec, "maxReplicas") }),
      },
      status: { ...defined({ desiredReplicas: numberIn(status, "desiredReplicas") }), conditions: conditionsIn(status, digester) },
    };
  },
  poddisruptionbudgets(object) {
    const status = objectIn(object, "status");
    return {
      spec: { selector: { matchLabels: quantitiesIn(objectIn(objectIn(object, "spec"), "selector"), "matchLabels") } },
      status: defined({
        disruptionsAllowed: numberIn(status, "disruptionsAllowed"),
        currentHealthy: numberIn(status, "currentHealthy"),
        desiredHealthy: numberIn(status, "desiredHealthy"),
      }),
    };
  },
  resourcequotas(object) {
    const status = objectIn(object, "status");
    return { status: { hard: quantitiesIn(status, "hard"), used: quantitiesIn(status, "used") } };
  },
};

/** Undefined for an object without name, uid and version. */
export function otherEvidence<R extends EvidenceResource>(resource: R, object: Json, digester: Digester): EvidenceObjects[R] | undefined {
  const metadata = objectIn(object, "metadata");
  const [name, uid, resourceVersion] = ["name", "uid", "resourceVersion"].map((field) => textIn(metadata, field));
  if (name === undefined || uid === undefined || resourceVersion === undefined) return undefined;
  const identity = { name, uid, resourceVersion, ...defined({ namespace: textIn(metadata, "namespace") }) };
  return { kind: RESOURCES[resource].kind, metadata: identity, ...READERS[resource](object, digester) } as unknown as EvidenceObjects[R]; // the type belongs to the resource
}
