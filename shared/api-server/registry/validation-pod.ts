/**
 * Pod specs, limited to what manifests often get wrong; README.md lists what is left out.
 *
 * Source: kubernetes/pkg/apis/core/validation/validation.go (ValidatePodSpec, validateContainers, validateProbe).
 */
import {
  type FieldError,
  fieldDuplicate,
  fieldForbidden,
  fieldInvalid,
  fieldNotFound,
  fieldNotSupported,
  fieldRequired,
} from "../scheme/api-error.ts";
import { type Json, type JsonObject, numberAt, objectAt, objectsAt, textAt } from "@deltaloop/base";
import { dnsLabelError, isDnsLabel, validateNodeName } from "../scheme/validation-names.ts";
import { validateResources } from "./validation-resources.ts";

const PORT_MAX = 65_535;
const SECONDS_MAX = 2 ** 31 - 1;
const PORT_NAME_LENGTH_MAX = 15;

/** The valid values of enumerated fields, in the order of upstream's messages. */
const SPEC_VALUES = {
  restartPolicy: ["Always", "OnFailure", "Never"],
  dnsPolicy: ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
};
const CONTAINER_VALUES = {
  imagePullPolicy: ["Always", "IfNotPresent", "Never"],
  terminationMessagePolicy: ["File", "FallbackToLogsOnError"],
};
const PORT_VALUES = { protocol: ["SCTP", "TCP", "UDP"] };

export function validatePodSpec(spec: JsonObject, path: string): FieldError[] {
  const errors = validateVolumes(objectsAt(spec, "volumes"), `${path}.volumes`);
  const volumes = new Set(objectsAt(spec, "volumes").map((volume) => textAt(volume, "name")));
  if (objectsAt(spec, "containers").length === 0) errors.push(fieldRequired(`${path}.containers`));
  const seen = new Set<string>();
  for (const list of ["initContainers", "containers"]) {
    objectsAt(spec, list).forEach((container, i) => {
      const at = `${path}.${list}[${i}]`;
      errors.push(...validateName(textAt(container, "name") ?? "", `${at}.name`, seen));
      errors.push(...validateContainer(container, at, volumes));
    });
  }
  errors.push(...unsupported(spec, path, SPEC_VALUES));
  const deadline = numberAt(spec, "activeDeadlineSeconds");
  if (deadline !== undefined) errors.push(...inRange(`${path}.activeDeadlineSeconds`, deadline, SECONDS_MAX));
  const node = textAt(spec, "nodeName") ?? "";
  if (node !== "") errors.push(...validateNodeName(node, `${path}.nodeName`));
  return errors;
}

function validateVolumes(volumes: readonly JsonObject[], path: string): FieldError[] {
  const seen = new Set<string>();
  return volumes.flatMap((volume, i) => validateName(textAt(volume, "name") ?? "", `${path}[${i}].name`, seen));
}

function validateName(name: string, at: string, seen: Set<string>): FieldError[] {
  const errors = name === "" ? [fieldRequired(at)] : isDnsLabel(name) ? [] : [dnsLabelError(at, name)];
  if (name !== "" && seen.has(name)) errors.push(fieldDuplicate(at, name));
  seen.add(name);
  return errors;
}

function validateContainer(container: JsonObject, at: string, volumes: ReadonlySet<string | undefined>): FieldError[] {
  const image = textAt(container, "image") ?? "";
  return [
    ...(image === "" ? [fieldRequired(`${at}.image`)] : []),
    ...unsupported(container, at, CONTAINER_VALUES),
    ...validatePorts(objectsAt(container, "ports"), `${at}.ports`),
    ...objectsAt(container, "env").flatMap((one, i) => validateEnvName(textAt(one, "name") ?? "", `${at}.env[${i}].name`)),
    ...objectsAt(container, "volumeMounts").flatMap((mount, i) => validateMount(mount, `${at}.volumeMounts[${i}]`, volumes)),
    ...validateResources(objectAt(container, "resources") ?? {}, `${at}.resources`),
    ...["livenessProbe", "readinessProbe", "startupProbe"].flatMap((name) => {
      const probe = objectAt(container, name);
      return probe === undefined ? [] : validateProbe(probe, `${at}.${name}`, name);
    }),
  ];
}

function validatePorts(ports: readonly JsonObject[], path: string): FieldError[] {
  const seen = new Set<string>();
  return ports.flatMap((port, i) => {
    const at = `${path}[${i}]`;
    const name = textAt(port, "name") ?? "";
    const errors = name === "" ? [] : validatePortName(name, `${at}.name`);
    if (name !== "" && seen.has(name)) errors.push(fieldDuplicate(`${at}.name`, name));
    seen.add(name);
    const [inside, outside] = [numberAt(port, "containerPort") ?? 0, numberAt(port, "hostPort") ?? 0];
    errors.push(...(inside === 0 ? [fieldRequired(`${at}.containerPort`)] : inRange(`${at}.containerPort`, inside, PORT_MAX)));
    if (outside !== 0) errors.push(...inRange(`${at}.hostPort`, outside, PORT_MAX));
    return [...errors, ...unsupported(port, at, PORT_VALUES)];
  });
}

/** Source: apimachinery/pkg/util/validation/validation.go (IsValidPortName). */
function validatePortName(name: string, at: string): FieldError[] {
  const problems: string[] = [];
  if (name.length > PORT_NAME_LENGTH_MAX) problems.push(`must be no more than ${PORT_NAME_LENGTH_MAX} characters`);
  if (!/^[-a-z0-9]+$/u.test(name)) problems.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
  if (!/[a-z]/u.test(name)) problems.push("must contain at least one letter (a-z)");
  if (name.includes("--")) problems.push("must not contain consecutive hyphens");
  if (/^-|-$/u.test(name)) problems.push("must not begin or end with a hyphen");
  return problems.map((problem) => fieldInvalid(at, name, problem));
}

function validateEnvName(name: string, at: string): FieldError[] {
  if (name === "") return [fieldRequired(at)];
  const why = "a valid environment variable name must consist only of printable ASCII characters other than '='";
  return /^[ -<>-~]+$/u.test(name) ? [] : [fieldInvalid(at, name, why)];
}

function validateMount(mount: JsonObject, at: string, volumes: ReadonlySet<string | undefined>): FieldError[] {
  const name = textAt(mount, "name") ?? "";
  return [
    ...(name === "" ? [fieldRequired(`${at}.name`)] : []),
    ...(volumes.has(name) ? [] : [fieldNotFound(`${at}.name`, name)]),
    ...((textAt(mount, "mountPath") ?? "") === "" ? [fieldRequired(`${at}.mountPath`)] : []),
  ];
}

const PROBE_NUMBERS = ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"];

function validateProbe(probe: JsonObject, at: string, name: string): FieldError[] {
  const [first, ...others] = ["exec", "httpGet", "tcpSocket", "grpc"].filter((handler) => objectAt(probe, handler) !== undefined);
  const errors = others.map((handler) => fieldForbidden(`${at}.${handler}`, "may not specify more than 1 handler type"));
  if (first === undefined) errors.push(fieldRequired(at, "must specify a handler type"));
  const exec = objectAt(probe, "exec");
  if (exec !== undefined && !Array.isArray(exec["command"])) errors.push(fieldRequired(`${at}.exec.command`));
  for (const handler of ["httpGet", "tcpSocket"]) {
    const action = objectAt(probe, handler);
    if (action !== undefined) errors.push(...validatePortOrName(action["port"] ?? 0, `${at}.${handler}.port`));
  }
  for (const field of PROBE_NUMBERS) {
    const value = numberAt(probe, field) ?? 0;
    if (value < 0) errors.push(fieldInvalid(`${at}.${field}`, value, "must be greater than or equal to 0"));
  }
  const successes = numberAt(probe, "successThreshold") ?? 1;
  if (name !== "readinessProbe" && successes !== 1) errors.push(fieldInvalid(`${at}.successThreshold`, successes, "must be 1"));
  return errors;
}

function validatePortOrName(port: Json, at: string): FieldError[] {
  return typeof port === "string" ? validatePortName(port, at) : inRange(at, Number(port), PORT_MAX);
}

function inRange(at: string, value: number, max: number): FieldError[] {
  return value >= 1 && value <= max ? [] : [fieldInvalid(at, value, `must be between 1 and ${max}, inclusive`)];
}

/** The fields of `object` whose value is not among the allowed ones. */
function unsupported(object: JsonObject, path: string, values: Readonly<Record<string, readonly string[]>>): FieldError[] {
  return Object.entries(values).flatMap(([field, supported]) => {
    const value = textAt(object, field);
    return value === undefined || supported.includes(value) ? [] : [fieldNotSupported(`${path}.${field}`, value, supported)];
  });
}
