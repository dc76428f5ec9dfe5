/** JSON patch (RFC 6902), as sent by `kubectl rollout undo`. */
import { badRequest, patchNotApplicable } from "../scheme/api-error.ts";
import { clone, isObject, type Json, type JsonObject, jsonEqual, setOwn } from "@deltaloop/base";

/** @throws {ApiError} 422 if an operation does not apply, 400 if the patch is malformed */
export function applyJsonPatch(object: JsonObject, patch: Json): JsonObject {
  if (!Array.isArray(patch)) throw badRequest("a JSON patch is a list of operations");
  // The box makes replacing the root an ordinary operation.
  const box: JsonObject = { root: clone(object) };
  for (const operation of patch) applyOperation(box, operation);
  const root = box["root"];
  if (!isObject(root)) throw patchNotApplicable();
  return root;
}

function applyOperation(box: JsonObject, operation: Json): void {
  if (!isObject(operation)) throw patchNotApplicable();
  const { op, path, from, value } = operation;
  if (typeof path !== "string") throw patchNotApplicable();
  switch (op) {
    case "add":
      return add(box, path, clone(value ?? null));
    case "remove":
      return void remove(box, path);
    case "replace":
      find(box, path);
      return set(box, path, clone(value ?? null));
    case "move":
      return add(box, path, remove(box, String(from)));
    case "copy":
      return add(box, path, clone(find(box, String(from))));
    case "test":
      if (!jsonEqual(find(box, path), value ?? null)) throw patchNotApplicable();
      return undefined;
    default:
      throw patchNotApplicable();
  }
}

/** `/a/b~1c` → the container of the value, and its last path segment. */
function locate(box: JsonObject, path: string): { readonly parent: Json[] | JsonObject; readonly step: string } {
  const steps = path
    .split("/")
    .slice(1)
    .map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
  const last = steps.pop();
  if (last === undefined) return { parent: box, step: "root" };
  let at: Json = box["root"] ?? null;
  for (const step of steps) at = child(at, step);
  if (!isObject(at) && !Array.isArray(at)) throw patchNotApplicable();
  return { parent: at, step: last };
}

function child(parent: Json, step: string): Json {
  const value = Array.isArray(parent) ? parent[Number(step)] : isObject(parent) && Object.hasOwn(parent, step) ? parent[step] : undefined;
  if (value === undefined) throw patchNotApplicable();
  return value;
}

function find(box: JsonObject, path: string): Json {
  const { parent, step } = locate(box, path);
  return child(parent, step);
}

function set(box: JsonObject, path: string, value: Json): void {
  const { parent, step } = locate(box, path);
  if (Array.isArray(parent)) parent[Number(step)] = value;
  else setOwn(parent, step, value);
}

function add(box: JsonObject, path: string, value: Json): void {
  const { parent, step } = locate(box, path);
  if (!Array.isArray(parent)) {
    setOwn(parent, step, value);
    return;
  }
  const index = step === "-" ? parent.length : Number(step);
  if (!Number.isInteger(index) || index < 0 || index > parent.length) throw patchNotApplicable();
  parent.splice(index, 0, value);
}

function remove(box: JsonObject, path: string): Json {
  const { parent, step } = locate(box, path);
  const value = child(parent, step);
  if (Array.isArray(parent)) parent.splice(Number(step), 1);
  else delete parent[step];
  return value;
}
