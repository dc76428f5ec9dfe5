// Would catch: an object adopted, released or counted against the table of replicaset §6.
import { describe, expect, it } from "vitest";
import { claimObject } from "../../../shared/controller/claim.ts";
import type { Claim } from "../../../shared/controller/claim.ts";

const DT = "2026-03-01T10:00:00Z";

describe("claimObject", () => {
  const table: {
    id: string;
    controller?: string;
    selected: boolean;
    ownerDeleted?: true;
    objectDeleted?: true;
    namespace?: string;
    want: Claim;
  }[] = [
    { id: "[replicaset 35]", controller: "other", selected: true, want: "ignore" },
    { id: "[replicaset 97]", controller: "other", selected: false, want: "ignore" },
    { id: "[replicaset 30]", controller: "me", selected: true, want: "claimed" },
    { id: "[replicaset 96]", controller: "me", selected: true, ownerDeleted: true, want: "claimed" },
    { id: "[replicaset P20]", controller: "me", selected: false, ownerDeleted: true, want: "ignore" },
    { id: "[replicaset 103]", controller: "me", selected: false, want: "release" },
    { id: "[replicaset 37]", selected: true, ownerDeleted: true, want: "ignore" },
    { id: "[replicaset 95]", selected: false, want: "ignore" },
    { id: "[replicaset P19]", selected: true, objectDeleted: true, want: "ignore" },
    { id: "[replicaset P19]", selected: true, namespace: "other", want: "ignore" },
    { id: "(orphan)", selected: true, want: "adopt" },
  ];
  it.each(table)(
    "$id controller $controller, selected $selected, owner deleted $ownerDeleted, object deleted $objectDeleted → $want",
    ({ controller, selected, ownerDeleted, objectDeleted, namespace = "shop", want }) => {
      const claimant = { namespace: "shop", uid: "me", ...(ownerDeleted && { deletionTimestamp: DT }) };
      const object = {
        namespace,
        name: "a",
        uid: "a",
        ...(controller !== undefined && { controllerUid: controller }),
        ...(objectDeleted && { deletionTimestamp: DT }),
      };
      expect(claimObject(claimant, object, selected)).toBe(want);
    },
  );
});
