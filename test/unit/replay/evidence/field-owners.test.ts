// Would catch a change in a verdict without its field manager, although the object's managedFields have it.
import { expect, it } from "vitest";
import { managersIn } from "../../../../shared/replay/evidence/field-owners.ts";
import { fieldManagerOf } from "../../../../shared/replay/incident/spec-changes.ts";

const container = { "f:name": {}, "f:envFrom": {}, "f:command": {}, "f:livenessProbe": { "f:periodSeconds": {} }, "f:resources": {} };
const fieldsV1 = {
  "f:spec": {
    "f:template": { "f:spec": { "f:volumes": {}, "f:initContainers": { 'k:{"name":"migrate"}': container } } },
  },
};
const managedFields = [{ manager: "kustomize-controller", operation: "Apply", time: "2026-03-01T10:00:00Z", fieldsV1 }];

it.each([
  "volumes",
  "container migrate",
  "init container migrate",
  "migrate.envFrom",
  "migrate.command",
  "migrate.livenessProbe.periodSeconds",
  "migrate.resources.limits.cpu",
])("knows who changed %s", (field) => {
  const owner = { managers: managersIn({ managedFields }) } as unknown as Parameters<typeof fieldManagerOf>[0]; // has the fields that are read
  expect(fieldManagerOf(owner, field)).toBe("kustomize-controller");
  expect(fieldManagerOf(owner, field.replace("migrate", "main").replace("volumes", "affinity"))).toBeUndefined();
});

it("knows who added a container of which a capture holds only the owned fields, not the name", () => {
  const managers = [{ manager: "kubectl-client-side-apply", time: "2026-03-01T10:00:00Z", owns: ["migrate.image", "migrate.resources"] }];
  const owner = { managers } as unknown as Parameters<typeof fieldManagerOf>[0]; // has the fields that are read
  expect(fieldManagerOf(owner, "init container migrate")).toBe("kubectl-client-side-apply");
  expect(fieldManagerOf(owner, "init container migrat")).toBeUndefined();
});
