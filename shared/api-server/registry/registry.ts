/**
 * Create, update and delete with all their rules, between requests and the storage.
 *
 * Source: k8s.io/apiserver/pkg/registry/generic/registry/store.go, pkg/registry/rest/{create,update}.go.
 */
import type { Clock, Random } from "@deltaloop/base";
import { admitIntoNamespace, admitNamespaceDeletion, admitPod } from "./admission.ts";
import { alreadyExists, ApiError, badRequest, conflict, forbidden, invalid, notFound, OBJECT_MODIFIED } from "../scheme/api-error.ts";
import { setDefaults } from "./defaulting.ts";
import { type DeleteOptions, planDeletion } from "./deletion.ts";
import { type FieldWriter, trackFields } from "./field-managers.ts";
import { generateName, generateUid, timestamp } from "./generate-name.ts";
import { clone, ensureObject, type JsonObject, jsonEqual, listAt, metaOf, nameOf, numberAt, objectAt, textAt } from "@deltaloop/base";
import { admitByQuota, refreshQuotas } from "./quota.ts";
import type { ResourceDefinition } from "../scheme/resource-definitions.ts";
import { ServedResources } from "../scheme/served-resources.ts";
import { coerceCustom, inStorageVersion, inVersion } from "../custom/versions.ts";
import type { Storage } from "../storage/storage.ts";
import type { StorageEvent } from "../storage/watch-history.ts";
import { prepareForCreate, prepareForUpdate } from "./strategy.ts";
import { validateCreate, validateUpdate } from "./validation.ts";

/** Attempts with a generated name. Source: registry/store.go createWithGenerateNameRetry. */
const GENERATE_NAME_TRIES = 8;

export interface Update {
  readonly namespace: string;
  readonly name: string;
  readonly subresource: string;
  /** Builds the new object from the current one, which it must not change. */
  readonly transform: (current: JsonObject) => JsonObject;
  /** A PUT uses its uid as a precondition (409); a PATCH that changes the uid is invalid (422). */
  readonly verb: "update" | "patch";
  readonly dryRun?: boolean;
  /** Absent: the server's own. */
  readonly writer?: FieldWriter;
  /** The object has its managed fields already. */
  readonly isApplied?: boolean;
}

export type Creation = Pick<Update, "dryRun" | "writer" | "isApplied">;

export interface Deletion extends DeleteOptions {
  readonly namespace: string;
  readonly name: string;
}

export class Registry {
  readonly resources = new ServedResources();
  readonly #storage: Storage;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #tracksFromCreation: boolean;

  /** @param tracksFromCreation whether objects that were never applied have managed fields, too */
  constructor(storage: Storage, clock: Clock, random: Random, tracksFromCreation = false) {
    this.#tracksFromCreation = tracksFromCreation;
    this.#storage = storage;
    this.#clock = clock;
    this.#random = random;
    // Quotas are updated after all listeners have received the write.
    storage.subscribe((event) => this.#written.push(event));
  }

  #written: StorageEvent[] = [];

  find(definition: ResourceDefinition, namespace: string, name: string): JsonObject | undefined {
    const stored = this.#storage.get(definition.id, namespace, name);
    return stored && inVersion(definition, stored);
  }

  /** @throws {ApiError} 404 */
  get(definition: ResourceDefinition, namespace: string, name: string): JsonObject {
    const object = this.find(definition, namespace, name);
    if (object === undefined) throw notFound(definition, name);
    return object;
  }

  /** Creates the object; takes ownership of `object`. @throws {ApiError} */
  create(definition: ResourceDefinition, namespace: string, object: JsonObject, options: Creation = {}): JsonObject {
    checkKind(definition, object);
    const meta = ensureObject(object, "metadata");
    checkNamespace(definition, namespace, meta);
    if ((textAt(meta, "resourceVersion") ?? "") !== "")
      throw new ApiError(500, "", "resourceVersion should not be set on objects to be created");
    this.#giveName(definition, namespace, meta);
    if (definition.custom?.isTerminating === true)
      throw forbidden(definition, nameOf(object), "create not allowed while custom resource definition is terminating");
    admitIntoNamespace(this.#storage, definition, namespace, object);

    setDefaults(definition, object);
    if (options.isApplied !== true) trackFields(definition, undefined, object, options.writer, this.#tracksFromCreation);
    if (definition.builtInKind === "Pod") admitPod(object, this.#random);
    prepareForCreate(definition, object);
    meta["uid"] = generateUid(this.#random);
    meta["creationTimestamp"] = timestamp(this.#clock.now());

    const errors = validateCreate(definition, object);
    if (errors.length > 0) throw invalid(definition, nameOf(object), errors);
    coerceCustom(definition, object);
    admitByQuota({ storage: this.#storage, resources: this.resources }, definition, namespace, object);
    if (this.#storage.get(definition.id, namespace, nameOf(object)) !== undefined) throw alreadyExists(definition, nameOf(object));
    return options.dryRun === true ? object : this.#put(definition, object);
  }

  /** @throws {ApiError} */
  update(definition: ResourceDefinition, update: Update): { readonly object: JsonObject; readonly isCreated: boolean } {
    const { namespace, name, subresource } = update;
    const current = this.find(definition, namespace, name);
    if (current === undefined) {
      if (update.verb !== "update" || !definition.createOnUpdate || subresource !== "") throw notFound(definition, name);
      const created = update.transform({});
      delete ensureObject(created, "metadata")["resourceVersion"];
      const { dryRun = false, writer } = update;
      return { object: this.create(definition, namespace, created, { dryRun, ...(writer && { writer }) }), isCreated: true };
    }
    const object = update.transform(current);
    this.#checkPreconditions(definition, update, object, current);
    setDefaults(definition, object);
    if (update.isApplied !== true) trackFields(definition, current, object, update.writer, this.#tracksFromCreation);
    prepareForUpdate(definition, subresource, object, current);
    const errors = validateUpdate(definition, subresource, object, current);
    if (errors.length > 0) throw invalid(definition, name, errors);
    coerceCustom(definition, object);

    if (this.#completesDeletion(object, current)) {
      if (update.dryRun !== true) this.#write(() => this.#storage.delete(definition.id, namespace, name) ?? object);
      return { object, isCreated: false };
    }
    // A write without changes keeps the resourceVersion and sends no event.
    if (jsonEqual(object, current)) return { object: current, isCreated: false };
    return { object: update.dryRun === true ? object : this.#put(definition, object), isCreated: false };
  }

  /** @throws {ApiError} */
  delete(definition: ResourceDefinition, deletion: Deletion): { readonly object: JsonObject; readonly isGone: boolean } {
    const { namespace, name } = deletion;
    const current = this.find(definition, namespace, name);
    if (current === undefined) throw notFound(definition, name);
    const plan = planDeletion(definition, current, deletion, this.#clock.now());
    if (definition.builtInKind === "Namespace") admitNamespaceDeletion(name);
    if (deletion.dryRun === true) return { object: plan.marked ?? current, isGone: plan.isImmediate };
    let object = current;
    const { marked } = plan;
    if (marked !== undefined) object = this.#put(definition, marked);
    if (plan.isImmediate) object = this.#write(() => this.#storage.delete(definition.id, namespace, name) ?? object);
    return { object, isGone: plan.isImmediate };
  }

  #put(definition: ResourceDefinition, object: JsonObject): JsonObject {
    const stored = this.#write(() => this.#storage.put(definition.id, inStorageVersion(definition, object)));
    return inVersion(definition, stored);
  }

  #write(write: () => JsonObject): JsonObject {
    const object = write();
    for (let events = this.#written; events.length > 0; events = this.#written) {
      this.#written = [];
      for (const event of events) refreshQuotas({ storage: this.#storage, resources: this.resources }, event);
    }
    return object;
  }

  #giveName(definition: ResourceDefinition, namespace: string, meta: JsonObject): void {
    const base = textAt(meta, "generateName") ?? "";
    if ((textAt(meta, "name") ?? "") !== "" || base === "") return;
    for (let tries = 0; tries < GENERATE_NAME_TRIES; tries += 1) {
      const name = generateName(this.#random, base);
      meta["name"] = name;
      if (this.#storage.get(definition.id, namespace, name) === undefined) return;
    }
  }

  #checkPreconditions(definition: ResourceDefinition, update: Update, object: JsonObject, current: JsonObject): void {
    checkKind(definition, object);
    const meta = ensureObject(object, "metadata");
    checkNamespace(definition, update.namespace, meta);
    meta["name"] ??= update.name;
    if (meta["name"] !== update.name)
      throw badRequest(`the name of the object (${nameOf(object)}) does not match the name on the URL (${update.name})`);
    const uid = textAt(meta, "uid") ?? "";
    const currentUid = textAt(metaOf(current), "uid");
    if (update.verb === "update" && uid !== "" && uid !== currentUid) {
      throw conflict(definition, update.name, preconditionFailed(definition, update, uid, currentUid));
    }
    if (uid === "") meta["uid"] = currentUid ?? "";
    const resourceVersion = textAt(meta, "resourceVersion") ?? "";
    const currentVersion = textAt(metaOf(current), "resourceVersion") ?? "";
    if (resourceVersion === "" && !definition.unconditionalUpdate) {
      throw invalid({ group: definition.group, kind: definition.resource }, update.name, [
        { type: "FieldValueInvalid", field: "metadata.resourceVersion", message: "Invalid value: 0: must be specified for an update" },
      ]);
    }
    if (resourceVersion !== "" && resourceVersion !== "0" && resourceVersion !== currentVersion)
      throw conflict(definition, update.name, OBJECT_MODIFIED);
    meta["resourceVersion"] = currentVersion;
  }

  /** Whether the last finalizer was removed from a deleted object. Source: ShouldDeleteDuringUpdate. */
  #completesDeletion(object: JsonObject, current: JsonObject): boolean {
    if (listAt(metaOf(object), "finalizers").length > 0 || metaOf(current)["deletionTimestamp"] === undefined) return false;
    if (listAt(objectAt(object, "spec"), "finalizers").length > 0) return false;
    return (numberAt(metaOf(current), "deletionGracePeriodSeconds") ?? 0) === 0;
  }
}

function checkKind(definition: ResourceDefinition, object: JsonObject): void {
  const kind = textAt(object, "kind");
  if (kind !== undefined && kind !== "" && kind !== definition.kind) {
    const version = textAt(object, "apiVersion")?.split("/").at(-1) ?? "";
    throw badRequest(`${kind} in version "${version}" cannot be handled as a ${definition.kind}`);
  }
}

function checkNamespace(definition: ResourceDefinition, namespace: string, meta: JsonObject): void {
  if (!definition.namespaced) {
    delete meta["namespace"];
    return;
  }
  if ((textAt(meta, "namespace") ?? "") === "") meta["namespace"] = namespace;
  if (meta["namespace"] !== namespace)
    throw badRequest("the namespace of the provided object does not match the namespace sent on the request");
}

/** Source: apiserver/pkg/storage/errors.go (StorageError, NewInvalidObjError). */
function preconditionFailed(
  definition: ResourceDefinition,
  { namespace, name }: Update,
  uid: string,
  currentUid: string | undefined,
): string {
  const key = ["", "registry", definition.resource, namespace, name].filter((part, i) => i === 0 || part !== "").join("/");
  const why = `Precondition failed: UID in precondition: ${uid}, UID in object meta: ${currentUid}`;
  return `StorageError: invalid object, Code: 4, Key: ${key}, ResourceVersion: 0, AdditionalErrorMsg: ${why}`;
}

/** The current object without one finalizer, for garbage collection. */
export function withoutFinalizer(current: JsonObject, finalizer: string): JsonObject {
  const object = clone(current);
  const meta = ensureObject(object, "metadata");
  meta["finalizers"] = listAt(meta, "finalizers").filter((one) => one !== finalizer);
  return object;
}
