/**
 * Errors as the Status objects of an API server. Texts are upstream's: clients compare reasons and codes,
 * users and upstream's tests read the messages.
 *
 * Source: k8s.io/apimachinery/pkg/api/errors/errors.go.
 */
import { exactText } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";

/** The subject of an error: `deployments.apps "web"`. */
export interface GroupResource {
  readonly group: string;
  readonly resource: string;
}

export interface FieldError {
  readonly type: `FieldValue${"Invalid" | "TypeInvalid" | "Required" | "Forbidden" | "NotSupported" | "Duplicate" | "TooLong" | "TooMany" | "NotFound"}`;
  readonly field: string;
  readonly message: string;
}

/** A rejected request. Expected: the caller gets it as response, and it never leaves `ApiServer.request`. */
export class ApiError extends Error {
  readonly status: JsonObject;
  readonly code: number;

  constructor(code: number, reason: string, message: string, details?: JsonObject, meta: JsonObject = {}) {
    super(message);
    this.name = "ApiError";
    this.code = code;
    this.status = {
      kind: "Status",
      apiVersion: "v1",
      metadata: meta,
      status: "Failure",
      message,
      ...(reason === "" ? {} : { reason }),
      ...(details === undefined ? {} : { details }),
      code,
    };
  }
}

/** `deployments.apps`, or `pods` in the core group. */
function qualified({ group, resource }: GroupResource): string {
  return group === "" ? resource : `${resource}.${group}`;
}

function detailsOf({ group, resource }: GroupResource, name: string): JsonObject {
  return { ...(name === "" ? {} : { name }), ...(group === "" ? {} : { group }), ...(resource === "" ? {} : { kind: resource }) };
}

export function notFound(about: GroupResource, name: string): ApiError {
  return new ApiError(404, "NotFound", `${qualified(about)} "${name}" not found`, detailsOf(about, name));
}

/** No resource or subresource is served under the path. */
export function noSuchPath(): ApiError {
  return new ApiError(404, "NotFound", "the server could not find the requested resource", {});
}

export function alreadyExists(about: GroupResource, name: string): ApiError {
  return new ApiError(409, "AlreadyExists", `${qualified(about)} "${name}" already exists`, detailsOf(about, name));
}

export function conflict(about: GroupResource, name: string, why: string): ApiError {
  return new ApiError(409, "Conflict", `Operation cannot be fulfilled on ${qualified(about)} "${name}": ${why}`, detailsOf(about, name));
}

export const OBJECT_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again";

export function forbidden(about: GroupResource, name: string, why: string, causes?: JsonObject[]): ApiError {
  const subject = name === "" ? qualified(about) : `${qualified(about)} "${name}"`;
  return new ApiError(403, "Forbidden", `${subject} is forbidden: ${why}`, {
    ...detailsOf(about, name),
    ...(causes === undefined ? {} : { causes }),
  });
}

/** 422 with one cause per error. Names the kind, where other errors name the resource. */
export function invalid(kind: { readonly group: string; readonly kind: string }, name: string, errors: readonly FieldError[]): ApiError {
  const subject = qualified({ group: kind.group, resource: kind.kind });
  const texts = [...new Set(errors.map((error) => `${error.field}: ${error.message}`))];
  const all = texts.length === 1 ? texts.join("") : `[${texts.join(", ")}]`;
  return new ApiError(422, "Invalid", `${subject} "${name}" is invalid: ${all}`, {
    ...detailsOf({ group: kind.group, resource: kind.kind }, name),
    causes: errors.map(({ type, message, field }) => ({ reason: type, message, field })),
  });
}

export function badRequest(message: string): ApiError {
  return new ApiError(400, "BadRequest", message);
}

export function methodNotAllowed(about: GroupResource, verb: string): ApiError {
  return new ApiError(405, "MethodNotAllowed", `${verb} is not supported on resources of kind "${qualified(about)}"`, detailsOf(about, ""));
}

/** A PATCH of a kind that is not served here. */
export function unsupportedMediaType(): ApiError {
  return new ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {});
}

/** A body that is not JSON or protobuf. */
export function unknownBodyFormat(): ApiError {
  const accepted = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];
  const why = `the body of the request was in an unknown format - accepted media types include: ${accepted.join(", ")}`;
  return new ApiError(415, "UnsupportedMediaType", why);
}

export function notAcceptable(available: readonly string[]): ApiError {
  return new ApiError(406, "NotAcceptable", `406: Not Acceptable\n\nAvailable representations: ${available.join(", ")}`, {});
}

/** An inapplicable JSON patch: upstream gives no reason. */
export function patchNotApplicable(): ApiError {
  return new ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {});
}

/** 410: the requested history is gone. `continueToken` lets a paged list continue, inconsistently. */
export function expired(message: string, continueToken?: string): ApiError {
  return new ApiError(410, "Expired", message, undefined, continueToken === undefined ? {} : { continue: continueToken });
}

export function tooOldResourceVersion(asked: bigint, oldest: bigint): ApiError {
  return expired(`too old resource version: ${asked} (${oldest})`);
}

/** 504: the server has not seen the requested resourceVersion yet. Source: apiserver/pkg/storage/errors.go. */
export function tooLargeResourceVersion(asked: bigint, current: bigint): ApiError {
  return new ApiError(504, "Timeout", `Timeout: Too large resource version: ${asked}, current: ${current}`, {
    causes: [{ reason: "ResourceVersionTooLarge", message: "Too large resource version" }],
    retryAfterSeconds: 1,
  });
}

export function fieldInvalid(field: string, value: Json | undefined, why: string): FieldError {
  return { type: "FieldValueInvalid", field, message: `Invalid value: ${exactText(value ?? null)}: ${why}` };
}

/** The value is of another type. */
export function fieldTypeInvalid(field: string, value: Json, why: string): FieldError {
  return { ...fieldInvalid(field, value, why), type: "FieldValueTypeInvalid" };
}

export function fieldTooMany(field: string, actual: number, max: number): FieldError {
  return { type: "FieldValueTooMany", field, message: `Too many: ${actual}: must have at most ${max} ${max === 1 ? "item" : "items"}` };
}

export function fieldRequired(field: string, why = ""): FieldError {
  return { type: "FieldValueRequired", field, message: why === "" ? "Required value" : `Required value: ${why}` };
}

export function fieldForbidden(field: string, why: string): FieldError {
  return { type: "FieldValueForbidden", field, message: `Forbidden: ${why}` };
}

export function fieldDuplicate(field: string, value: Json): FieldError {
  return { type: "FieldValueDuplicate", field, message: `Duplicate value: ${exactText(value)}` };
}

export function fieldNotFound(field: string, value: Json): FieldError {
  return { type: "FieldValueNotFound", field, message: `Not found: ${exactText(value)}` };
}

export function fieldTooLong(field: string, bytesMax: number): FieldError {
  return { type: "FieldValueTooLong", field, message: `Too long: may not be more than ${bytesMax} bytes` };
}

export function fieldNotSupported(field: string, value: Json | undefined, supported: readonly string[]): FieldError {
  const quoted = supported.map((one) => JSON.stringify(one)).join(", ");
  return {
    type: "FieldValueNotSupported",
    field,
    message: `Unsupported value: ${exactText(value === undefined ? "" : value)}: supported values: ${quoted}`,
  };
}
