/**
 * The generated kinds. Catches: a file that differs from the generator's output, and a kind whose resource or scope differs from the API
 * server's.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

import { sdkKinds } from "../../../infra/sdk-kinds.ts";
import { RESOURCES } from "../../../shared/kube/objects/resources.ts";
import * as kinds from "../../../shared/sdk/kinds.ts";

const INFRA = join(import.meta.dirname, "..", "..", "..", "infra");

it.each(Object.entries(sdkKinds()))("the committed output of infra/%s is current (node infra/generate.ts writes it)", (path, text) => {
  expect(readFileSync(join(INFRA, path), "utf8")).toBe(text);
});

it("kinds equal those in the resource table for resources in both", () => {
  const shared = Object.values(kinds).flatMap(({ plural, group, kind, version }) => {
    const known = Object.entries(RESOURCES).find(([resource]) => resource === plural)?.[1];
    return known ? [{ own: { group, kind, apiVersion: group === "" ? version : `${group}/${version}` }, known }] : [];
  });
  expect(shared.length).toBeGreaterThan(8);
  for (const { own, known } of shared) expect(known).toMatchObject(own);
});

it.each([
  { kind: kinds.Namespace, scope: "Cluster", status: true },
  { kind: kinds.Secret, scope: "Namespaced", status: false },
  { kind: kinds.Deployment, scope: "Namespaced", status: true },
  { kind: kinds.ClusterRole, scope: "Cluster", status: false },
])("$kind.data.kind: scope $scope, status subresource $status", ({ kind, scope, status }) => {
  expect(kind.data).toMatchObject({ scope, status, seen: status ? { status: true } : {} });
});
