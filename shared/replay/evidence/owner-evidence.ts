/** The fields of a Deployment, ReplicaSet or ReplicationController that explain an incident but are not cached. */
import { hash } from "node:crypto";
import type { Digester } from "@deltaloop/kube/pod-template";
import { exactText } from "@deltaloop/base";
import { managersIn } from "./field-owners.ts";
import type { FieldManager } from "./field-owners.ts";
import { defined, isObject, listIn, objectIn, textIn } from "./fields.ts";
import type { Json } from "./fields.ts";
import { conditionsIn, containerSpec } from "./pod-evidence.ts";
import type { ConditionEvidence, ContainerSpec } from "./pod-evidence.ts";

export interface OwnerEvidence {
  readonly template?: TemplateEvidence;
  readonly managers: readonly FieldManager[];
  readonly conditions: readonly ConditionEvidence[];
}

/** A template's fields. Values that may be secret are replaced by keyed digests, which show only whether a value changed. */
export interface TemplateEvidence {
  readonly containers: readonly TemplateContainer[];
  readonly initContainers: readonly TemplateContainer[];
  /** Other fields of the pod spec by name. */
  readonly fields: Readonly<Record<string, string>>;
}

export interface TemplateContainer extends ContainerSpec {
  /** Environment variables by name. */
  readonly env: Readonly<Record<string, string>>;
  /** Other fields by name. */
  readonly fields: Readonly<Record<string, string>>;
}

const LISTED = new Set(["name", "image", "resources", "env", "restartPolicy", "livenessProbe", "readinessProbe", "startupProbe"]);

export function ownerEvidence(object: Json, digester: Digester): OwnerEvidence {
  if (Array.isArray(object["managers"])) return storedEvidence(object, digester);
  const podSpec = objectIn(objectIn(objectIn(object, "spec"), "template"), "spec");
  return {
    ...(Object.keys(podSpec).length > 0 && { template: recentTemplate(podSpec, digester) }),
    managers: managersIn(objectIn(object, "metadata")),
    conditions: conditionsIn(objectIn(object, "status"), digester),
  };
}

function storedEvidence(object: Json, digester: Digester): OwnerEvidence {
  const template = objectIn(object, "template");
  const containersIn = (field: string): readonly TemplateContainer[] =>
    listIn(template, field).map((each) => ({ ...containerSpec(each), env: digestsIn(each, "env"), fields: digestsIn(each, "fields") }));
  return {
    ...(isObject(object["template"]) && {
      template: {
        containers: containersIn("containers"),
        initContainers: containersIn("initContainers"),
        fields: digestsIn(template, "fields"),
      },
    }),
    managers: managersIn(object),
    conditions: conditionsIn(object, digester),
  };
}

/** Evidence of recent templates: each status update repeats its object's template, and digests are most of the work. */
const RECENT = new WeakMap<Digester, Map<string, TemplateEvidence>>();
const RECENT_MAX = 256;

function recentTemplate(podSpec: Json, digester: Digester): TemplateEvidence {
  const recent = RECENT.get(digester) ?? new Map<string, TemplateEvidence>();
  RECENT.set(digester, recent);
  const text = hash("sha256", exactText(podSpec), "base64");
  const known = recent.get(text) ?? templateOf(podSpec, digester);
  const [oldest] = recent.size < RECENT_MAX ? [] : recent.keys();
  if (oldest !== undefined) recent.delete(oldest);
  recent.set(text, known);
  return known;
}

function templateOf(podSpec: Json, digester: Digester): TemplateEvidence {
  const containersIn = (field: string): readonly TemplateContainer[] =>
    listIn(podSpec, field).map((each) => ({
      ...containerSpec(each),
      env: Object.fromEntries(
        listIn(each, "env").map((variable) => [
          textIn(variable, "name") ?? "",
          digester.event(["env", exactText(variable["value"] ?? variable["valueFrom"] ?? "")]),
        ]),
      ),
      fields: digestsOf(each, LISTED, digester),
    }));
  return {
    containers: containersIn("containers"),
    initContainers: containersIn("initContainers"),
    fields: digestsOf(podSpec, new Set(["containers", "initContainers"]), digester),
  };
}

function digestsOf(object: Json, without: ReadonlySet<string>, digester: Digester): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(object).flatMap(([name, value]) =>
      without.has(name) || value === undefined ? [] : [[name, digester.event([name, exactText(value)])]],
    ),
  );
}

const DIGEST = /^[\w-]{22}$/;

function digestsIn(object: Json, field: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(objectIn(object, field)).filter((each): each is [string, string] => typeof each[1] === "string" && DIGEST.test(each[1])),
  );
}

/** The differences between two templates, field by field; `undefined` values are hidden. */
export interface TemplateDifference {
  readonly field: string;
  readonly from?: string;
  readonly to?: string;
}

export function templateDifferences(before: TemplateEvidence, after: TemplateEvidence): readonly TemplateDifference[] {
  return [
    ...containerDifferences("container", before.containers, after.containers),
    ...containerDifferences("init container", before.initContainers, after.initContainers),
    ...hidden("", before.fields, after.fields),
  ];
}

function containerDifferences(
  kind: string,
  before: readonly TemplateContainer[],
  after: readonly TemplateContainer[],
): readonly TemplateDifference[] {
  const names = [...new Set([...before, ...after].map(({ name }) => name))];
  return names.flatMap((name) => {
    const [old, now] = [before, after].map((all) => all.find((each) => each.name === name));
    if (old === undefined) return [{ field: `${kind} ${name}`, to: "added" }];
    if (now === undefined) return [{ field: `${kind} ${name}`, to: "removed" }];
    return [
      ...shown(`${name}.image`, old.image, now.image),
      ...(["requests", "limits"] as const).flatMap((field) =>
        [...new Set([...Object.keys(old[field] ?? {}), ...Object.keys(now[field] ?? {})])].flatMap((resource) =>
          shown(`${name}.resources.${field}.${resource}`, old[field]?.[resource], now[field]?.[resource]),
        ),
      ),
      ...(["livenessProbe", "readinessProbe", "startupProbe"] as const).flatMap((field) => {
        const [from, to] = [old[field] ?? {}, now[field] ?? {}] as readonly Readonly<Record<string, string | number | undefined>>[];
        return [...new Set([...Object.keys(from ?? {}), ...Object.keys(to ?? {})])].flatMap((key) =>
          shown(`${name}.${field}.${key}`, textOf(from?.[key]), textOf(to?.[key])),
        );
      }),
      ...hidden(`${name}.env.`, old.env, now.env),
      ...hidden(`${name}.`, old.fields, now.fields),
    ];
  });
}

function textOf(value: string | number | undefined): string | undefined {
  return value === undefined ? undefined : String(value);
}

function shown(field: string, from: string | undefined, to: string | undefined): readonly TemplateDifference[] {
  return from === to ? [] : [{ field, ...defined({ from, to }) }];
}

/** Digests only show that a value changed. */
function hidden(
  prefix: string,
  before: Readonly<Record<string, string>>,
  after: Readonly<Record<string, string>>,
): readonly TemplateDifference[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].flatMap((name) => {
    if (before[name] === after[name]) return [];
    const to = before[name] === undefined ? "added" : after[name] === undefined ? "removed" : "changed";
    return [{ field: `${prefix}${name}`, to }];
  });
}
