/** `deltaloop init FOLDER`: a project with a controller, its test and a sample object, from the example `website`. */
import type { Command } from "commander";
import { withDetails } from "./command/help.ts";
import { dependencyOf } from "./init/dependency.ts";
import { packageRoot } from "./init/package-root.ts";
import { createProject } from "./init/project.ts";

export function registerInit(program: Command): void {
  const command = program
    .command("init")
    .description("Writes a project with a user controller, its test and a sample object.")
    .argument("<folder>", "new or empty folder; its name becomes the name of the sample object")
    .option("--from <file>", "tarball of deltaloop that the project depends on (default: the one that this command was installed from)")
    .action(async (folder: string, { from }: { readonly from?: string }) => {
      const root = packageRoot();
      const written = await createProject(folder, root, (project) => dependencyOf(root, project, from));
      process.stdout.write(
        `${folder}: ${written.join(", ")}\nnext: cd ${folder} && npm install && npm test && npx deltaloop dev website.ts\n`,
      );
    });
  withDetails(command, { examples: ["init my-controller", "init my-controller --from deltaloop-0.1.0.tgz"] });
}
