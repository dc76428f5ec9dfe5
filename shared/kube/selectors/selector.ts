/** Label selectors: compiled once per object, matched against many label sets, printed as upstream does. */
import { ownAt, compareText } from "@deltaloop/base";
import type { LabelSelector, Labels } from "../objects/wire.ts";

/** A compiled valid selector. `Nothing` is the absent selector, which matches no object. */
export type Selector = { readonly kind: "Nothing" } | { readonly kind: "Requirements"; readonly requirements: readonly Requirement[] };

/** A selector that the API server would have rejected; `message` is upstream's error text without its explanation of label syntax. */
export interface InvalidSelector {
  readonly kind: "Invalid";
  readonly message: string;
}

/** One condition of a selector, all of which must hold. They are sorted by key, then in their original order. */
export interface Requirement {
  readonly key: string;
  readonly operator: "=" | "in" | "notin" | "exists" | "!";
  readonly values: readonly string[];
}

const OPERATORS: ReadonlyMap<string, Requirement["operator"]> = new Map([
  ["In", "in"],
  ["NotIn", "notin"],
  ["Exists", "exists"],
  ["DoesNotExist", "!"],
]);
const NOTHING: Selector = { kind: "Nothing" };

/**
 * Compiles a selector. An absent selector matches nothing, an empty selector (`{}`) matches everything; a controller must guard against the
 * latter with `selectsEverything`. For a ReplicationController pass `{ matchLabels: rc.spec.selector }`, or undefined if it has none
 * (replicaset §15).
 *
 * Source: apimachinery pkg/apis/meta/v1/helpers.go LabelSelectorAsSelector, pkg/labels/selector.go NewRequirement.
 */
export function compileSelector(selector: LabelSelector | undefined): Selector | InvalidSelector {
  if (selector === undefined) return NOTHING;
  const requirements: Requirement[] = [];
  for (const [key, value] of Object.entries(selector.matchLabels ?? {})) requirements.push({ key, operator: "=", values: [value] });
  for (const { key, operator: written, values = [] } of selector.matchExpressions ?? []) {
    const operator = OPERATORS.get(written);
    // Errors before the invalid operator are reported first.
    if (operator === undefined)
      return firstInvalid(requirements) ?? invalid([`${JSON.stringify(written)} is not a valid label selector operator`]);
    requirements.push({ key, operator, values });
  }
  return firstInvalid(requirements) ?? { kind: "Requirements", requirements: requirements.toSorted((a, b) => compareText(a.key, b.key)) };
}

function firstInvalid(requirements: readonly Requirement[]): InvalidSelector | undefined {
  for (const requirement of requirements) {
    const problems = requirementProblems(requirement);
    if (problems.length > 0) return invalid(problems);
  }
  return undefined;
}

const compiled = new WeakMap<object, Selector | InvalidSelector>();

/**
 * The selector of `holder`, compiled once per holder, for callers that match many objects against a namespace's primaries. `holder` must
 * not change; cached objects never change.
 */
export function selectorOf(holder: object, selector: (this: void) => LabelSelector | undefined): Selector | InvalidSelector {
  let known = compiled.get(holder);
  if (known === undefined) compiled.set(holder, (known = compileSelector(selector())));
  return known;
}

/** Upstream prints several errors in brackets. */
function invalid(problems: readonly string[]): InvalidSelector {
  return { kind: "Invalid", message: problems.length > 1 ? `[${problems.join(", ")}]` : problems.join() };
}

/** Whether an object with these labels is selected. */
export function matches(selector: Selector, labels: Labels | undefined): boolean {
  if (selector.kind === "Nothing") return false;
  if (selector.requirements.length > REQUIREMENTS_MANY) return allHold(tableOf(selector), labels ?? {});
  for (const requirement of selector.requirements) if (!holds(requirement, labels ?? {})) return false;
  return true;
}

/**
 * Whether the selector is empty, so that every object of the namespace matches. Controllers ignore such an owner, because it would adopt
 * every orphan. Source: labels.Selector Empty.
 */
export function selectsEverything(selector: Selector): boolean {
  return selector.kind === "Requirements" && selector.requirements.length === 0;
}

/**
 * The selector as text, as in `status.selector` of `/scale` and in list queries:
 * `app=web,tier in (a,b),!old`. Both the empty and the absent selector print as the empty text.
 *
 * Source: apimachinery pkg/labels/selector.go String.
 */
export function formatSelector(selector: Selector): string {
  return selector.kind === "Nothing" ? "" : selector.requirements.map(formatRequirement).join(",");
}

/** `app=web,tier=a`, sorted by key. */
export function formatLabels(labels: Labels = {}): string {
  const pairs = Object.entries(labels).toSorted(([a], [b]) => compareText(a, b));
  return pairs.map(([key, value]) => `${key}=${value}`).join(",");
}

function formatRequirement({ key, operator, values }: Requirement): string {
  switch (operator) {
    case "=":
      return `${key}=${values[0] ?? ""}`;
    case "in":
    case "notin":
      return `${key} ${operator} (${values.toSorted(compareText).join(",")})`;
    case "exists":
      return key;
    case "!":
      return `!${key}`;
    default:
      return operator satisfies never;
  }
}

/** A selector may hold up to 16,000 requirements. From this number on, the selector is matched by iterating over the object's labels. */
const REQUIREMENTS_MANY = 16;

/** All requirements on one key, combined. */
interface KeyRule {
  isNeeded: boolean;
  isForbidden: boolean;
  among: ReadonlySet<string> | undefined;
  readonly notAmong: Set<string>;
}

interface RuleTable {
  readonly rules: ReadonlyMap<string, KeyRule>;
  readonly needed: number;
}

const tables = new WeakMap<Selector, RuleTable>();

function tableOf(selector: Selector & { readonly kind: "Requirements" }): RuleTable {
  const known = tables.get(selector);
  if (known !== undefined) return known;
  const rules = new Map<string, KeyRule>();
  for (const { key, operator, values } of selector.requirements) {
    const rule = rules.get(key) ?? { isNeeded: false, isForbidden: false, among: undefined, notAmong: new Set() };
    rules.set(key, rule);
    if (operator === "!") rule.isForbidden = true;
    else if (operator === "notin") for (const value of values) rule.notAmong.add(value);
    else rule.isNeeded = true;
    const { among } = rule;
    if (operator === "=" || operator === "in")
      rule.among = new Set(among === undefined ? values : values.filter((value) => among.has(value)));
  }
  const made = { rules, needed: [...rules.values()].filter(({ isNeeded }) => isNeeded).length };
  tables.set(selector, made);
  return made;
}

/** Equivalent to checking each requirement, in time linear in the labels. */
function allHold({ rules, needed }: RuleTable, labels: Labels): boolean {
  let met = 0;
  for (const [key, value] of Object.entries(labels)) {
    const rule = rules.get(key);
    if (rule === undefined) continue;
    if (rule.isForbidden || rule.notAmong.has(value) || rule.among?.has(value) === false) return false;
    if (rule.isNeeded) met++;
  }
  return met === needed;
}

function holds({ key, operator, values }: Requirement, labels: Labels): boolean {
  const value = ownAt(labels, key);
  switch (operator) {
    case "=":
    case "in":
      return value !== undefined && values.includes(value);
    case "notin":
      return value === undefined || !values.includes(value);
    case "exists":
      return value !== undefined;
    case "!":
      return value === undefined;
    default:
      return operator satisfies never;
  }
}

const NAME = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?";
const DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const LABEL_KEY = new RegExp(`^(?:(?<prefix>${DNS_LABEL}(\\.${DNS_LABEL})*)/)?(?<name>${NAME})$`);
const LABEL_VALUE = new RegExp(`^(${NAME})?$`);
const LABEL_LENGTH_MAX = 63;
const PREFIX_LENGTH_MAX = 253;

/** The errors of one requirement, in upstream's order: key, number of values, each value. */
function requirementProblems({ key, operator, values }: Requirement): string[] {
  const problems: string[] = [];
  // Shortcut: neither component of a short key can be too long.
  const match = key.length <= LABEL_LENGTH_MAX && LABEL_KEY.test(key) ? undefined : LABEL_KEY.exec(key);
  if (
    match === null ||
    (match?.groups?.["prefix"] ?? "").length > PREFIX_LENGTH_MAX ||
    (match?.groups?.["name"] ?? "").length > LABEL_LENGTH_MAX
  ) {
    problems.push(`key: Invalid value: ${JSON.stringify(key)}: not a valid label key`);
  }
  if ((operator === "in" || operator === "notin") && values.length === 0) {
    problems.push("values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty");
  }
  if ((operator === "exists" || operator === "!") && values.length > 0) {
    problems.push(`values: Invalid value: ${JSON.stringify(values)}: values set must be empty for exists and does not exist`);
  }
  values.forEach((value, index) => {
    if (value.length > LABEL_LENGTH_MAX || !LABEL_VALUE.test(value)) {
      problems.push(`values[${index}][${key}]: Invalid value: ${JSON.stringify(value)}: not a valid label value`);
    }
  });
  return problems;
}
