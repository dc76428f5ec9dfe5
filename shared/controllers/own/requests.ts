/** The requests of one sync to the API server: each write as one call, its preconditions, and its rejections as answers. */
import { controllerRef } from "@deltaloop/kube/objects";
import type { KubeObject } from "@deltaloop/kube/objects";
import type { CreateRequest, DeleteRequest, PatchRequest } from "@deltaloop/kube/client";
import { apiVersionOf } from "@deltaloop/sdk/definitions";
import { idText, managerOf, upgradePatch } from "@deltaloop/sdk/writes";
import type { ObjectBody, ObjectId, OwnAnswer, OwnWrite } from "@deltaloop/sdk/writes";
import type { SyncPorts } from "../kit/run.ts";
import type { Answer, RunGateway, SeenRow } from "../kit/write-gateway/gateway.ts";
import { answerOf, isOutdated } from "./answers.ts";
import { cachedOf } from "./observed.ts";
import type { OwnObserved } from "./observed.ts";
import { ownFields } from "./project.ts";
import type { OwnControllerEntry } from "./registry.ts";
import { resourceOfKind } from "./resources.ts";
import type { OwnViewOf } from "./views.ts";

const APPLY = "application/apply-patch+yaml";

/** `deleted`: the API server's response to a prune. */
export type RequestAnswer = OwnAnswer | { readonly kind: "gone"; readonly deleted: KubeObject | undefined };

interface Place {
  readonly namespace: string;
  readonly name: string;
}

export class OwnRequests {
  readonly #reader: SyncPorts["reader"];
  readonly #gateway: RunGateway;
  readonly #entry: OwnControllerEntry;
  readonly #observed: OwnObserved;
  /** Versions that `#turned` has written; they do not count as reverts by another client. */
  readonly #turnedVersions = new Map<string, string>();

  constructor(reader: SyncPorts["reader"], gateway: RunGateway, entry: OwnControllerEntry, observed: OwnObserved) {
    this.#reader = reader;
    this.#gateway = gateway;
    this.#entry = entry;
    this.#observed = observed;
  }

  /** The view of an owned object's kind. */
  viewOf(id: ObjectId): OwnViewOf {
    const view = this.#entry.views.find((each) => each.role === "owned" && each.resource === resourceOfKind(id.kind));
    if (view === undefined) throw new TypeError(`${id.kind.kind} is not owned`); // wantedBy has rejected this case
    return view;
  }

  /** A quorum read. */
  async readLive({ resource }: OwnViewOf, { namespace, name }: Place): Promise<KubeObject | undefined> {
    return await this.#reader.get(resource, namespace, name);
  }

  /** The version of an object after its managedFields entry was replaced. */
  turnedVersion(id: string): string | undefined {
    return this.#turnedVersions.get(id);
  }

  /** One request; its rejections as answers. @param version of the primary after this run's last write on it */
  async attempt(write: OwnWrite, version: string, isForced: boolean): Promise<RequestAnswer> {
    try {
      return await this.#call(write, version, isForced);
    } catch (error) {
      return answerOf(error, write);
    }
  }

  async #call(write: OwnWrite, version: string, isForced: boolean): Promise<RequestAnswer> {
    const force = isForced ? { force: true as const } : {};
    const { definition, views } = this.#entry;
    const { primary } = this.#observed;
    switch (write.kind) {
      case "create": {
        const { resource } = this.viewOf(write.id);
        const request: CreateRequest = { resource, namespace: write.id.namespace, body: write.body, fieldValidation: "Strict" };
        return okOf(await this.#gateway.create(request));
      }
      case "apply": {
        if (!(await this.#turned(write))) return { kind: "changed" };
        const body = { ...write.body, metadata: { ...write.body.metadata, uid: write.uid } };
        const request = patchOf(this.viewOf(write.id), write.id, body);
        return okOf(await this.#gateway.patch({ ...request, ...force }, this.#seen(write.id)));
      }
      case "prune": {
        const request: DeleteRequest = {
          ...{ resource: this.viewOf(write.id).resource, namespace: write.id.namespace, name: write.id.name },
          preconditions: { uid: write.uid, resourceVersion: write.resourceVersion },
        };
        const answer = await this.#gateway.delete(request, this.#seen(write.id));
        return { kind: "gone", deleted: answer.kind === "stored" ? answer.object : undefined };
      }
      case "self":
      case "status": {
        const { metadata, ...fields } = write.body as { readonly metadata?: object; readonly [field: string]: unknown }; // wantedBy has checked it
        const identity = {
          name: primary.name,
          ...(primary.namespace !== "" && { namespace: primary.namespace }),
          uid: write.uid,
          resourceVersion: version,
        };
        const { apiVersion, kind } = { apiVersion: apiVersionOf(definition.primary), kind: definition.primary.kind };
        const body =
          write.kind === "self"
            ? { apiVersion, kind, metadata: { ...metadata, ...identity }, ...fields }
            : { apiVersion, kind, metadata: identity, status: write.body };
        const request = patchOf(views[0], primary, body);
        return okOf(
          await this.#gateway.patch({ ...request, ...force, ...(write.kind === "status" && { subresource: "status" as const }) }),
        );
      }
      case "remove": {
        const { namespace, name } = primary;
        const preconditions = { uid: write.uid, resourceVersion: version };
        await this.#gateway.delete({ resource: views[0].resource, namespace, name, preconditions }, undefined);
        return { kind: "gone" };
      }
    }
  }

  /**
   * Replaces the managedFields entry of a create by one of an apply, so that a later apply removes fields that the controller no longer
   * sets. Returns false for another object.
   */
  async #turned(write: Extract<OwnWrite, { readonly kind: "apply" }>): Promise<boolean> {
    const row = this.#observed.rows.get(idText(write.id));
    if (row === undefined || ownFields(cachedOf(row)).isCreated !== true) return true;
    const view = this.viewOf(write.id);
    const live = await this.readLive(view, write.id);
    if (live?.metadata.uid !== write.uid) return false;
    const patch = upgradePatch(live as unknown as ObjectBody, managerOf(this.#entry.definition.name)); // a whole object
    if (patch === undefined) return true;
    try {
      const turned = await this.jsonPatch(view, live, patch, this.#seen(write.id));
      this.#turnedVersions.set(idText(write.id), turned?.metadata.resourceVersion ?? "");
      return true;
    } catch (error) {
      if (isOutdated(error)) return false;
      throw error;
    }
  }

  /** Patches the object that was read, and no other of its name. */
  async jsonPatch({ resource }: OwnViewOf, live: KubeObject, patch: readonly object[], row?: SeenRow): Promise<KubeObject | undefined> {
    const { namespace = "", name, uid } = live.metadata;
    const body = [{ op: "test", path: "/metadata/uid", value: uid }, ...patch];
    return storedBy(await this.#gateway.patch({ resource, namespace, name, type: "application/json-patch+json", body }, row));
  }

  #seen(id: ObjectId): SeenRow | undefined {
    const row = this.#observed.rows.get(idText(id));
    const controller = row && controllerRef(cachedOf(row).metadata);
    return row && { namespace: id.namespace, name: id.name, uid: row.uid, ...(controller && { controller }) };
  }
}

function patchOf({ resource }: OwnViewOf, { namespace, name }: Place, body: object): PatchRequest {
  return { resource, namespace, name, type: APPLY, body, fieldValidation: "Strict" };
}

function okOf(answer: Answer): OwnAnswer {
  const object = storedBy(answer);
  if (object === undefined) throw new Error("the API server answered a write without the object");
  return { kind: "ok", object: object as unknown as ObjectBody }; // a whole object
}

/** @throws {Error} if nothing was sent, which is a bug: shadow mode ends before any call */
function storedBy(answer: Answer): KubeObject | undefined {
  if (answer.kind === "notSent") throw new Error("a controller in shadow mode called the API server");
  return answer.object;
}
