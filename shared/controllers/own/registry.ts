/** Registry entries of user controllers. */
import { RESOURCES } from "@deltaloop/kube/objects";
import type { OwnController, View } from "@deltaloop/kube/objects";
import { kindsOf } from "@deltaloop/sdk/definitions";
import type { Definition } from "@deltaloop/sdk/definitions";
import type { Registry } from "../registry/cache-of.ts";
import { ownAffectedKeys } from "./affected-keys.ts";
import { contractOf } from "./contract.ts";
import { infoOfKind, resourceOfKind } from "./resources.ts";
import { ROW_TEXTS } from "./row-texts.ts";
import { viewsOf } from "./views.ts";
import type { OwnViewOf } from "./views.ts";

/** A definition with what is derived from it. */
export interface OwnControllerEntry {
  readonly name: OwnController;
  readonly definition: Definition;
  readonly views: readonly [OwnViewOf, ...OwnViewOf[]];
}

export function ownControllers(definitions: readonly Definition[]): readonly OwnControllerEntry[] {
  // each name was checked by problemsOf
  return definitions.map((definition) => ({ name: definition.name as OwnController, definition, views: viewsOf(definition) }));
}

/** A registry of user controllers alone. */
export function registryOf(controllers: readonly OwnControllerEntry[]): Registry {
  const kinds = controllers.flatMap(({ definition }) => kindsOf(definition));
  return {
    controllers: controllers.map(({ name, definition, views }) => ({
      name,
      primary: views[0].name,
      slices: views.flatMap((view) => (view.by === undefined ? [] : [{ view: view.name as View, by: view.by }])),
      reads: [...new Set(views.map((view) => view.name as View))],
      affectedKeys: ownAffectedKeys(name, views),
      contract: contractOf(definition),
    })),
    resources: { ...RESOURCES, ...Object.fromEntries(kinds.map((kind) => [resourceOfKind(kind), infoOfKind(kind)])) },
    views: controllers.flatMap(({ views }) => views),
    rowTexts: ROW_TEXTS,
  };
}

/** Features that a definition may use but this version does not support, one line each. */
export function unsupportedBy({ name, primary, watches }: Definition): readonly string[] {
  return watches.flatMap(({ kind, by }) =>
    "all" in by && by.all === "cluster" && primary.scope === "Namespaced"
      ? [
          `${name}: \`watches\` of ${kind.kind}: { all: "cluster" } is not yet possible for a namespaced ${primary.kind}: use { all: "namespace" }`,
        ]
      : [],
  );
}
