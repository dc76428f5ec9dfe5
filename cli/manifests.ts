/** `deltaloop manifests FILE…`: the CustomResourceDefinitions and permissions of controllers, from their definitions. */
import type { Command } from "commander";
import { UsageError } from "@deltaloop/base";
import { CONTROLLERS } from "@deltaloop/kube/objects";
import { crdManifest, kindsOf, NAMESPACE_MANIFEST, problemsOf, rbacManifests } from "@deltaloop/sdk/definitions";
import type { Manifest } from "@deltaloop/sdk/definitions";
import { withDetails } from "./command/help.ts";
import { loadDefinitions } from "./own/load-definitions.ts";
import { objectText } from "./output/output-option.ts";

export function registerManifests(program: Command): void {
  const command = program
    .command("manifests")
    .description("Prints the CRDs and the RBAC of user controllers as YAML.")
    .argument("<file...>", "TypeScript or JavaScript files that export what defineController returns")
    .action(runManifests);
  withDetails(command, {
    notes: [
      "Roles whose names end in -self serve `self`, `remove` and another kind's status. Remove rules for writes that your `sync` never returns.",
    ],
    examples: ["manifests website.ts | kubectl apply -f -"],
  });
}

async function runManifests(files: readonly string[]): Promise<void> {
  const definitions = await loadDefinitions(files);
  const problems = problemsOf(definitions, CONTROLLERS);
  if (problems.length > 0) throw new UsageError(problems.join("\n"));
  const crds = new Map<string, Manifest>();
  for (const kind of definitions.flatMap(kindsOf)) {
    const crd = crdManifest(kind);
    if (crd !== undefined) crds.set(`${kind.plural}.${kind.group}`, crd);
  }
  const manifests = [...crds.values(), NAMESPACE_MANIFEST, ...definitions.flatMap(rbacManifests)];
  process.stdout.write(manifests.map((manifest) => objectText(manifest, "yaml")).join(""));
}
