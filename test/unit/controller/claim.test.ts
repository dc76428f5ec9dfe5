// Decisions of claimObject: every row of the table in replicaset §6.
import { describe, expect, it } from "vitest";
import { claimObject, type Claim, type ControlledBy } from "../../../shared/controllers/kit/claim.ts";

const DT = "2026-03-01T10:00:00Z";

describe("claimObject", () => {
  const table: {
    id: string;
    by: ControlledBy;
    selected: boolean;
    ownerDeleted?: true;
    objectDeleted?: true;
    namespace?: string;
    want: Claim;
  }[] = [
    { id: "[replicaset 35]", by: "another", selected: true, want: "ignore" },
    { id: "[replicaset 97]", by: "another", selected: false, want: "ignore" },
    { id: "[replicaset 30]", by: "claimant", selected: true, want: "claimed" },
    { id: "[replicaset 96]", by: "claimant", selected: true, ownerDeleted: true, want: "claimed" },
    { id: "[replicaset P20]", by: "claimant", selected: false, ownerDeleted: true, want: "ignore" },
    { id: "[replicaset 103]", by: "claimant", selected: false, want: "release" },
    { id: "[replicaset 37]", by: "none", selected: true, ownerDeleted: true, want: "ignore" },
    { id: "[replicaset 95]", by: "none", selected: false, want: "ignore" },
    { id: "[replicaset P19]", by: "none", selected: true, objectDeleted: true, want: "ignore" },
    { id: "[replicaset P19]", by: "none", selected: true, namespace: "other", want: "ignore" },
    { id: "an orphan,", by: "none", selected: true, want: "adopt" },
    { id: "an object in another namespace,", by: "claimant", selected: true, namespace: "other", want: "ignore" },
    { id: "an object in another namespace,", by: "claimant", selected: false, namespace: "other", want: "ignore" },
  ];
  it.each(table)(
    "$id controlled by $by, selected: $selected, owner being deleted: $ownerDeleted, object being deleted: $objectDeleted → $want",
    ({ by, selected, ownerDeleted, objectDeleted, namespace = "shop", want }) => {
      const claimant = { namespace: "shop", uid: "me", ...(ownerDeleted && { deletionTimestamp: DT }) };
      const object = {
        namespace,
        name: "a",
        uid: "a",
        ...(objectDeleted && { deletionTimestamp: DT }),
      };
      expect(claimObject(claimant, object, by, selected)).toBe(want);
    },
  );
});
