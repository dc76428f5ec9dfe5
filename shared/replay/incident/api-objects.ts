/**
 * Captured objects in the API's own shape, for clients of the API such as kubectl. Values that a capture lacks are absent or replaced by a
 * note in parentheses. Values that the capture has only as digests are omitted.
 */
import type { Cached, CachedDeployment, CachedPod, CachedResource } from "@deltaloop/kube/objects";
import { RESOURCES } from "@deltaloop/kube/objects";
import type { Digester } from "@deltaloop/kube/pod-template";
import { redacted } from "../capture-format/redact.ts";
import { defined } from "../evidence/fields.ts";
import type { Json } from "../evidence/fields.ts";
import { messageText } from "../evidence/messages.ts";
import type { EventEvidence, EvidenceObjects } from "../evidence/other-evidence.ts";
import { ownerEvidence } from "../evidence/owner-evidence.ts";
import type { TemplateEvidence } from "../evidence/owner-evidence.ts";
import { podEvidence } from "../evidence/pod-evidence.ts";
import type { ConditionEvidence, ContainerSpec, ContainerState, ContainerStatus, Probe } from "../evidence/pod-evidence.ts";
import type { Recording } from "./seen.ts";

/** Returns undefined for an object that cannot be cached. */
export function apiObject(resource: CachedResource, { object, evidence }: Recording, digester: Digester): Json | undefined {
  let stripped: Cached;
  try {
    stripped = redacted(resource, object, digester);
  } catch {
    return undefined;
  }
  const { apiVersion, kind } = RESOURCES[resource];
  const shape = "metadata" in stripped ? owner(stripped, evidence ?? object, digester) : pod(stripped, evidence ?? object, digester);
  return { apiVersion, kind, ...shape };
}

/** An Event, Node or ResourceQuota in the API's shape, from its evidence. The evidence of other kinds already has that shape. */
export function apiEvidence<R extends keyof EvidenceObjects>(resource: R, object: EvidenceObjects[R]): Json {
  const { apiVersion, kind } = RESOURCES[resource];
  const shape = "involvedObject" in object ? event(object) : "status" in object ? withConditions(object) : object;
  return { ...shape, apiVersion, kind };
}

function owner(stripped: Exclude<Cached, CachedPod>, recorded: Json, digester: Digester): Json {
  const { annotationDigests: _, ...metadata } = stripped.metadata;
  const { template, conditions } = ownerEvidence(recorded, digester);
  const labels = stripped.spec.template?.labels;
  const byType = new Map(conditions.map((each) => [each.type, each]));
  return {
    metadata,
    spec: { ...stripped.spec, template: { metadata: defined({ labels }), spec: podSpec(template) } },
    status: { ...stripped.status, ...conditionsOf(stripped.status, byType) },
  };
}

/** Adds upstream's condition messages, which are not cached. */
function conditionsOf(status: CachedDeployment["status"], texts: ReadonlyMap<string, ConditionEvidence>): Json {
  const conditions = status.conditions?.map((each) => ({ ...each, message: each.message ?? messageText(texts.get(each.type)?.message) }));
  return defined({ conditions });
}

function podSpec(template: TemplateEvidence | undefined): Json {
  return {
    ...initContainers(template?.initContainers ?? []),
    containers: (template?.containers ?? []).map((each) => ({
      ...container(each),
      ...(Object.keys(each.env).length > 0 && { env: Object.keys(each.env).map((name) => ({ name, value: NOT_CAPTURED })) }),
    })),
  };
}

function pod(stripped: CachedPod, recorded: Json, digester: Digester): Json {
  const { metadata, spec, status } = podEvidence(recorded, digester);
  const { namespace, name, uid, resourceVersion, labels, creationTimestamp, deletionTimestamp, deletionCost } = stripped;
  const images = new Map([...spec.containers, ...spec.initContainers].map((each) => [each.name, each.image]));
  const statuses = (all: readonly ContainerStatus[]): readonly Json[] => all.map((each) => containerStatus(each, images.get(each.name)));
  return {
    metadata: defined({
      ...{ namespace, name, uid, resourceVersion, labels, creationTimestamp, deletionTimestamp, ...metadata },
      annotations: deletionCost === undefined ? undefined : { "controller.kubernetes.io/pod-deletion-cost": deletionCost },
      ownerReferences: stripped.owner && [{ apiVersion: apiVersionOf(stripped.owner.kind), ...stripped.owner, controller: true }],
    }),
    spec: {
      ...defined({ nodeName: spec.nodeName ?? stripped.nodeName, priorityClassName: spec.priorityClassName }),
      ...initContainers(spec.initContainers),
      containers: spec.containers.map(container),
    },
    status: defined({
      ...{
        phase: status.phase ?? stripped.phase,
        reason: status.reason,
        message: messageText(status.message),
        startTime: status.startTime,
      },
      conditions: status.conditions.length > 0 ? status.conditions.map(condition) : readyAlone(stripped),
      containerStatuses: statuses(status.containerStatuses),
      initContainerStatuses: status.initContainerStatuses.length > 0 ? statuses(status.initContainerStatuses) : undefined,
    }),
  };
}

function apiVersionOf(kind: string): string | undefined {
  return Object.values(RESOURCES).find((each) => each.kind === kind)?.apiVersion;
}

/** The Ready condition, the only condition that a capture of format 1 contains. */
function readyAlone({ ready }: CachedPod): readonly Json[] | undefined {
  return ready && [defined({ type: "Ready", status: ready.status, lastTransitionTime: ready.since })];
}

function initContainers(all: readonly ContainerSpec[]): Json {
  return all.length > 0 ? { initContainers: all.map(container) } : {};
}

function container({ name, image, restartPolicy, requests, limits, livenessProbe, readinessProbe, startupProbe }: ContainerSpec): Json {
  return {
    name,
    ...defined({
      ...{ image, restartPolicy },
      resources: (requests ?? limits) ? defined({ requests, limits }) : undefined,
      livenessProbe: livenessProbe && probe(livenessProbe),
      readinessProbe: readinessProbe && probe(readinessProbe),
      startupProbe: startupProbe && probe(startupProbe),
    }),
  };
}

const NOT_CAPTURED = "(not captured)";

function probe({ handler, port, ...times }: Probe): Json {
  if (handler === "exec") return { exec: { command: [NOT_CAPTURED] }, ...times };
  const number = /^\d+$/.test(port ?? "") ? Number(port) : port;
  return { [handler]: defined({ port: number }), ...times };
}

function containerStatus({ name, ready, started, restartCount, state, lastState }: ContainerStatus, image: string | undefined): Json {
  const shared = { name, ready, restartCount, state: containerState(state), lastState: containerState(lastState) };
  return { ...shared, ...defined({ started, image: image ?? "", imageID: "" }) };
}

function containerState({ waiting, ...others }: ContainerState): Json {
  return { ...others, ...(waiting && { waiting: { ...waiting, ...defined({ message: messageText(waiting.message) }) } }) };
}

function condition(each: ConditionEvidence): Json {
  return { ...each, ...defined({ message: messageText(each.message) }) };
}

function withConditions<T extends { readonly status: object }>(object: T): Json {
  const { conditions } = object.status as { readonly conditions?: readonly ConditionEvidence[] };
  return { ...object, ...(conditions && { status: { ...object.status, conditions: conditions.map(condition) } }) };
}

function event({ message, ...rest }: EventEvidence): Json {
  const { namespace } = rest.metadata;
  return { ...rest, involvedObject: { ...rest.involvedObject, ...defined({ namespace }) }, message: messageText(message) ?? "" };
}
