/** Pod spec validation, limited to common errors in manifests: containers with unique names and images. */
import { type FieldError, fieldDuplicate, fieldRequired } from "../scheme/api-error.ts";
import { type JsonObject, objectsAt, textAt } from "@deltaloop/base";
import { dnsLabelError, isDnsLabel } from "./validation-names.ts";

export function validateContainers(podSpec: JsonObject, path: string): FieldError[] {
  const errors: FieldError[] = [];
  if (objectsAt(podSpec, "containers").length === 0) errors.push(fieldRequired(`${path}.containers`));
  const seen = new Set<string>();
  for (const list of ["initContainers", "containers"]) {
    objectsAt(podSpec, list).forEach((container, i) => {
      const at = `${path}.${list}[${i}]`;
      const name = textAt(container, "name") ?? "";
      if (name === "") errors.push(fieldRequired(`${at}.name`));
      else if (!isDnsLabel(name)) errors.push(dnsLabelError(`${at}.name`, name));
      if (seen.has(name)) errors.push(fieldDuplicate(`${at}.name`, name));
      seen.add(name);
      if ((textAt(container, "image") ?? "") === "") errors.push(fieldRequired(`${at}.image`));
    });
  }
  return errors;
}
