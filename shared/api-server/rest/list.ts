/**
 * Lists: most recent, not older than, exact, and in pages of one resourceVersion.
 *
 * Source: k8s.io/apiserver/pkg/storage/etcd3/store.go (GetList), pkg/storage/continue.go, apimachinery/pkg/apis/meta/internalversion/validation.
 */
import { badRequest, expired, fieldForbidden, fieldRequired, invalid } from "../scheme/api-error.ts";
import { type JsonObject } from "@deltaloop/base";
import { inVersion } from "../custom/versions.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import type { ObjectPredicate } from "../storage/selectors.ts";
import type { Storage } from "../storage/storage.ts";
import { keyOf } from "../storage/watch-history.ts";

export interface ListRequest {
  readonly namespace: string;
  readonly selects: ObjectPredicate | undefined;
  /** 0 means no limit. */
  readonly limit: number;
  readonly continueToken: string | undefined;
  readonly resourceVersion: string | undefined;
  readonly resourceVersionMatch: string | undefined;
}

export interface ListResult {
  readonly items: readonly JsonObject[];
  readonly resourceVersion: bigint;
  readonly continueToken?: string;
  readonly remainingItemCount?: number;
}

interface Position {
  readonly revision: bigint;
  readonly after: string;
}

const CONTINUE_EXPIRED =
  "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";

/** @throws {ApiError} 400, 410 or 422. The caller must have waited for `resourceVersion`. */
export function listObjects(storage: Storage, definition: ResourceDefinition, request: ListRequest): ListResult {
  const position = request.continueToken === undefined ? undefined : decodePosition(request.continueToken);
  const asked = position?.revision ?? exactRevision(request);
  const revision = asked === undefined || asked === INCONSISTENT ? storage.revision : asked;
  const now = storage.list(definition.id, request.namespace);
  const all = revision === storage.revision ? now : rewind(storage, definition, request, revision, position);
  const shown = definition.custom === undefined ? all : all.map((object) => inVersion(definition, object));
  const after = position === undefined ? shown : shown.filter((object) => keyOf(object) > position.after);
  const selected = request.selects === undefined ? after : after.filter(request.selects);

  // Upstream serves resourceVersion 0 from the watch cache as one page, whatever the limit.
  const limit = request.resourceVersion === "0" ? 0 : request.limit;
  if (limit === 0 || selected.length <= limit) return { items: selected, resourceVersion: revision };
  const items = selected.slice(0, limit);
  const last = items.at(-1);
  const next = encodePosition({ revision, after: last === undefined ? "" : keyOf(last) });
  const remaining = request.selects === undefined ? { remainingItemCount: selected.length - limit } : {};
  return { items, resourceVersion: revision, continueToken: next, ...remaining };
}

function rewind(
  storage: Storage,
  definition: ResourceDefinition,
  { namespace }: ListRequest,
  revision: bigint,
  position: Position | undefined,
): readonly JsonObject[] {
  const history = storage.history(definition.id);
  const then = history.rewind(storage.list(definition.id, ""), revision);
  if (then !== undefined) return namespace === "" ? then : then.filter((object) => keyOf(object).startsWith(`${namespace}\0`));
  if (position === undefined) throw expired("The resourceVersion for the provided list is too old.");
  throw expired(CONTINUE_EXPIRED, encodePosition({ revision: INCONSISTENT, after: position.after }));
}

/** Revision in a continue token whose list continues with the current state. */
const INCONSISTENT = -1n;

function exactRevision({ resourceVersion, resourceVersionMatch, limit }: ListRequest): bigint | undefined {
  if (resourceVersion === undefined || resourceVersion === "" || resourceVersion === "0") return undefined;
  const isLegacyExact = resourceVersionMatch === undefined && limit > 0;
  return resourceVersionMatch === "Exact" || isLegacyExact ? parseResourceVersion(resourceVersion) : undefined;
}

/** @throws {ApiError} 400. */
export function parseResourceVersion(text: string): bigint {
  if (!/^\d+$/u.test(text))
    throw badRequest(
      `invalid resource version: resourceVersion: Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`,
    );
  return BigInt(text);
}

function encodePosition({ revision, after }: Position): string {
  return Buffer.from(JSON.stringify({ v: "meta.k8s.io/v1", rv: String(revision), start: after })).toString("base64url");
}

function decodePosition(token: string): Position {
  try {
    const { rv, start }: { rv?: unknown; start?: unknown } = JSON.parse(Buffer.from(token, "base64url").toString());
    if (typeof rv === "string" && typeof start === "string") return { revision: BigInt(rv), after: start };
  } catch {
    // Fails below: the token is not from this server.
  }
  throw badRequest("continue key is not valid: encoded key is not in a supported format");
}

/** Validates list and watch options as upstream does. @throws {ApiError} 422 */
export function checkListOptions(options: {
  readonly isWatch: boolean;
  readonly sendInitialEvents: boolean | undefined;
  readonly resourceVersion: string | undefined;
  readonly resourceVersionMatch: string | undefined;
  readonly continueToken: string | undefined;
}): void {
  const errors = [];
  const { resourceVersionMatch: match, sendInitialEvents } = options;
  if (options.isWatch) {
    if (match !== undefined && sendInitialEvents === undefined)
      errors.push(
        fieldForbidden("resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
      );
    if (sendInitialEvents !== undefined && match !== "NotOlderThan")
      errors.push(fieldRequired("resourceVersionMatch", 'sendInitialEvents requires setting resourceVersionMatch to "NotOlderThan"'));
  } else {
    if (match !== undefined && (options.resourceVersion ?? "") === "")
      errors.push(fieldForbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"));
    if (match !== undefined && options.continueToken !== undefined)
      errors.push(fieldForbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"));
    if (match === "Exact" && options.resourceVersion === "0")
      errors.push(fieldForbidden("resourceVersionMatch", 'resourceVersionMatch "Exact" is forbidden for resourceVersion "0"'));
  }
  if (errors.length > 0) throw invalid({ group: "meta.k8s.io", kind: "ListOptions" }, "", errors);
}
