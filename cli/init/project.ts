/** The files of a new project. Its code is the example `website`, which is part of the package. */
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { UsageError } from "@deltaloop/base";

const EXAMPLE = join("examples", "website");
const COPIED = ["website.ts", "website.test.ts", "tsconfig.json"];
const NAME_LENGTH_MAX = 63;
const SHOWN_MAX = 5;

interface Manifest {
  readonly engines: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

/**
 * Writes the project and returns the names of its files. `dependency` returns what it depends on, given its folder.
 * @throws {UsageError} if the folder holds files, or its name cannot be that of an object
 */
export async function createProject(folder: string, root: string, dependency: (project: string) => string): Promise<readonly string[]> {
  const project = resolve(folder);
  const name = basename(project);
  if (!/^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?$/.test(name) || name.length > NAME_LENGTH_MAX)
    throw new UsageError(`"${name}" cannot be the name of an object: use at most ${NAME_LENGTH_MAX} of a-z, 0-9 and - as in "my-site"`);
  const found = await readdir(project).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw new UsageError(`${folder}: ${error.code === "ENOTDIR" ? "is a file" : error.message}`);
  });
  if (found.length > 0) {
    const others = found.length > SHOWN_MAX ? ` and ${found.length - SHOWN_MAX} more` : "";
    throw new UsageError(`${folder} is not empty: it holds ${found.toSorted().slice(0, SHOWN_MAX).join(", ")}${others}; name a new folder`);
  }
  const example = (file: string): Promise<string> => readFile(join(root, EXAMPLE, file), "utf8");
  const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as Manifest; // a file of this package
  const files = new Map([
    ...(await Promise.all(COPIED.map(async (file) => [file, await example(file)] as const))),
    ["website.yaml", (await example("website.yaml")).replace(/(?<=^ {2}name: ).*$/m, name)],
    ["package.json", `${JSON.stringify(packageOf(name, dependency(project), manifest), null, 2)}\n`],
    [".gitignore", "node_modules/\n.deltaloop/\n"],
    ["README.md", readmeOf(name)],
  ]);
  await mkdir(project, { recursive: true });
  for (const [file, text] of files) await writeFile(join(project, file), text);
  return [...files.keys()];
}

function packageOf(name: string, deltaloop: string, { engines, devDependencies }: Manifest): object {
  return {
    name,
    private: true,
    type: "module",
    engines,
    scripts: { dev: "deltaloop dev website.ts", test: "node --test", types: "tsc" },
    dependencies: { deltaloop },
    devDependencies: { "@types/node": devDependencies["@types/node"], typescript: devDependencies["typescript"] },
  };
}

function readmeOf(name: string): string {
  return `# ${name}

A controller that keeps a Deployment and a Service for each object of the kind Website.

    npm install
    npm test             # tests decisions, and a crash before and after each call; needs no cluster
    npm run dev          # runs it on an in-memory API server, and reloads it after each save
    kubectl apply -f website.yaml   # with the KUBECONFIG that it prints

To use a cluster, run \`npx deltaloop dev website.ts --kubeconfig FILE\`: it prints what the controller would write. With \`--act\`, it writes.
`;
}
