/** Owner references: the controller, and references for creates. */
import { describe, expect, it } from "vitest";
import { controllerRef, isControlledBy, ownerReferenceTo, sameControllerRef } from "../../../shared/kube/objects/owner-references.ts";
import { RESOURCES } from "../../../shared/kube/objects/resources.ts";
import type { OwnerReference } from "../../../shared/kube/objects/wire.ts";

const reference = (change: Partial<OwnerReference> = {}): OwnerReference => ({
  apiVersion: "apps/v1",
  kind: "ReplicaSet",
  name: "web",
  uid: "u1",
  controller: true,
  blockOwnerDeletion: true,
  ...change,
});

describe("controllerRef", () => {
  it.each<{ name: string; references: readonly OwnerReference[] | undefined; uid: string | undefined }>([
    { name: "undefined without references", references: undefined, uid: undefined },
    {
      name: "undefined if no reference is a controller",
      references: [reference({ controller: false }), { apiVersion: "v1", kind: "X", name: "x", uid: "u2" }],
      uid: undefined,
    },
    { name: "the reference that is a controller", references: [reference({ uid: "u2", controller: false }), reference()], uid: "u1" },
    { name: "the first of two controllers", references: [reference(), reference({ uid: "u2" })], uid: "u1" },
  ])("controllerRef returns $name", ({ references, uid }) => {
    const metadata = references === undefined ? {} : { ownerReferences: references };
    expect(controllerRef(metadata)?.uid).toBe(uid);
    expect(isControlledBy(metadata, "u1")).toBe(uid === "u1");
  });
});

describe("ownerReferenceTo", () => {
  it.each([
    { resource: "deployments", apiVersion: "apps/v1", kind: "Deployment" },
    { resource: "replicasets", apiVersion: "apps/v1", kind: "ReplicaSet" },
    { resource: "replicationcontrollers", apiVersion: "v1", kind: "ReplicationController" },
  ] as const)("returns a controller reference for an object of $resource", ({ resource, apiVersion, kind }) => {
    const want = { apiVersion, kind, name: "web", uid: "u1", controller: true, blockOwnerDeletion: true };
    expect(ownerReferenceTo(RESOURCES[resource], { metadata: { name: "web", uid: "u1" } })).toEqual(want);
  });
});

describe("sameControllerRef", () => {
  it.each<{ name: string; b: OwnerReference | undefined; same: boolean }>([
    { name: "equal fields", b: reference(), same: true },
    { name: "no reference", b: undefined, same: false },
    { name: "another apiVersion", b: reference({ apiVersion: "apps/v2" }), same: false },
    { name: "another kind", b: reference({ kind: "Deployment" }), same: false },
    { name: "another name", b: reference({ name: "api" }), same: false },
    { name: "another uid", b: reference({ uid: "u2" }), same: false },
    { name: "another controller flag", b: reference({ controller: false }), same: false },
    { name: "another blockOwnerDeletion", b: reference({ blockOwnerDeletion: false }), same: false },
  ])("sameControllerRef is $same for $name", ({ b, same }) => {
    expect(sameControllerRef(reference(), b)).toBe(same);
    expect(sameControllerRef(b, reference())).toBe(same);
  });

  it("treats two absent references as the same", () => {
    expect(sameControllerRef(undefined, undefined)).toBe(true);
  });
});
