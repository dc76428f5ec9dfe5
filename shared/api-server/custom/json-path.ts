/**
 * Paths in objects: the simple ones of /scale and selectors, and those of printer columns.
 *
 * Only what a CustomResourceDefinition may use. Source: client-go/util/jsonpath.
 */
import { isObject, type Json, type JsonObject, ownAt, setOwn } from "@deltaloop/base";

/** Returns the value at `path`, such as `.spec.replicas`; undefined if there is none. */
export function valueAt(object: JsonObject, path: string): Json | undefined {
  let at: Json | undefined = object;
  for (const step of stepsOf(path)) at = isObject(at) ? ownAt(at, step) : undefined;
  return at;
}

/** Sets the value at `path`, such as `.spec.replicas`, in place; creates missing parent objects. */
export function setValueAt(object: JsonObject, path: string, value: Json): void {
  const steps = stepsOf(path);
  let at = object;
  for (const step of steps.slice(0, -1)) {
    const next = ownAt(at, step);
    const child = isObject(next) ? next : {};
    setOwn(at, step, child);
    at = child;
  }
  setOwn(at, steps.at(-1) ?? "", value);
}

function stepsOf(path: string): string[] {
  return path.replace(/^\./u, "").split(".");
}

type Step =
  | { readonly kind: "field"; readonly name: string }
  | { readonly kind: "index"; readonly index: number }
  | { readonly kind: "all" }
  | { readonly kind: "filter"; readonly path: readonly Step[]; readonly operator: string; readonly value: Json | undefined };

const STEP =
  /^(?:\.?\['(?<quoted>(?:[^'\\]|\\.)*)'\]|\[(?<index>-?\d+)\]|(?:\.)?\[?(?<all>\*)\]?|\[\?\(@(?<filter>[^=!<>)]*?)\s*(?:(?<operator>==|!=|<=|>=|<|>)\s*(?<value>[^)]*))?\)\]|\.(?<name>(?:[^.[\]\\]|\\.)+))/u;

/** Returns the values at a path such as `.status.conditions[?(@.type=="Ready")].status`; none for a path that cannot be parsed. */
export function findAll(object: Json, path: string): Json[] {
  const steps = parsed(path);
  return steps === undefined ? [] : steps.reduce<Json[]>((found, step) => found.flatMap((value) => next(value, step)), [object]);
}

function parsed(path: string): readonly Step[] | undefined {
  const steps: Step[] = [];
  let rest = path;
  while (rest !== "") {
    const match = STEP.exec(rest);
    if (match?.groups === undefined) return undefined;
    const { quoted, index, all, filter, operator = "", value = "", name } = match.groups;
    if (quoted !== undefined) steps.push({ kind: "field", name: unescaped(quoted) });
    else if (index !== undefined) steps.push({ kind: "index", index: Number(index) });
    else if (all !== undefined) steps.push({ kind: "all" });
    else if (name !== undefined) steps.push({ kind: "field", name: unescaped(name) });
    else {
      const inner = parsed(filter ?? "");
      if (inner === undefined) return undefined;
      steps.push({ kind: "filter", path: inner, operator, value: operator === "" ? undefined : literal(value.trim()) });
    }
    rest = rest.slice(match[0].length);
  }
  return steps;
}

function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/gu, "$1");
}

function literal(text: string): Json {
  if (text === "true" || text === "false") return text === "true";
  if (/^['"]/u.test(text)) return text.slice(1, -1);
  return Number(text);
}

function next(value: Json, step: Step): Json[] {
  switch (step.kind) {
    case "field":
      return isObject(value) ? [ownAt(value, step.name)].filter((one) => one !== undefined) : [];
    case "index":
      return Array.isArray(value) ? [value.at(step.index)].filter((one) => one !== undefined) : [];
    case "all":
      return Array.isArray(value) ? value : isObject(value) ? Object.values(value) : [];
    case "filter":
      return Array.isArray(value) ? value.filter((one) => holds(one, step)) : [];
  }
}

function holds(value: Json, { path, operator, value: wanted }: Extract<Step, { kind: "filter" }>): boolean {
  const [found] = path.reduce<Json[]>((all, step) => all.flatMap((one) => next(one, step)), [value]);
  if (operator === "" || wanted === undefined || wanted === null) return found !== undefined;
  if (found === undefined || found === null) return false;
  switch (operator) {
    case "==":
      return found === wanted;
    case "!=":
      return found !== wanted;
    case "<":
      return found < wanted;
    case ">":
      return found > wanted;
    case "<=":
      return found <= wanted;
    default:
      return found >= wanted;
  }
}
