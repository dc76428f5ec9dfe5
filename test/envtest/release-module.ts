/**
 * The Kubernetes release whose programs the tests run, and its Go module: the pinned release, or the one in DIFFERENTIAL_RELEASE (`npm run
 * releases`).
 */
import { execFile } from "node:child_process";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { cacheFolder } from "../../infra/build/cache-folder.ts";
import type { GoBuild } from "./go-program.ts";
import { builtOnce, go } from "./go-program.ts";
import type { MODULES } from "./pins.ts";
import { repinned, stagingVersion } from "./pins.ts";

export const COMPARED_VERSION = process.env["DIFFERENTIAL_RELEASE"] ?? KUBERNETES_VERSION;

/** The newest patch release of each minor version in the Go proxy that the installed Go can build; v1.38.0-beta.0 needs a newer Go. */
export const BUILDABLE = ["v1.32.13", "v1.33.13", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"];

/** A function of newer releases' kubectl: it reads the verbosity of the log before the command line is parsed. */
const VERBOSITY = "GetLogVerbosity";

async function hasVerbosity(version: string): Promise<boolean> {
  const { Dir } = await downloaded(`k8s.io/kubectl@${stagingVersion(version)}`);
  return (await readFile(join(Dir, "pkg", "cmd", "cmd.go"), "utf8")).includes(`func ${VERBOSITY}(`);
}

/** Removes the call and the import that only it needs. */
function withoutVerbosity(main: string): string {
  return main
    .split("\n")
    .filter((line) => !line.includes(VERBOSITY) && line.trim() !== '"k8s.io/component-base/logs"')
    .join("\n");
}

async function downloaded(module: string): Promise<{ readonly Dir: string; readonly GoMod: string }> {
  const env = { ...process.env, GOTOOLCHAIN: "local", GOWORK: "off" };
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", module], { env });
  return JSON.parse(stdout) as { readonly Dir: string; readonly GoMod: string }; // the format of `go mod download -json`
}

/** Returns the folder of a Go module; for a release other than the pinned one, a copy outside the checkout with that release's versions. */
export async function releaseModule(module: (typeof MODULES)[number], version = COMPARED_VERSION): Promise<string> {
  const pinned = join(import.meta.dirname, module);
  if (version === KUBERNETES_VERSION) return pinned;
  const folder = join(cacheFolder(), `${module}-module-${version}`);
  if ((await readFile(join(folder, "go.sum")).catch(() => undefined)) !== undefined) return folder;
  const { GoMod } = await downloaded(`k8s.io/kubernetes@${version}`);
  const pins = repinned(await readFile(join(pinned, "go.mod"), "utf8"), version, await readFile(GoMod, "utf8"));
  await mkdir(folder, { recursive: true });
  // `go mod tidy` then sets the indirect pins, which for the pinned release would be too new here.
  await writeFile(join(folder, "go.mod"), pins.replaceAll(/^.* \/\/ indirect\n/gm, ""));
  const main = await readFile(join(pinned, "main.go"), "utf8");
  await writeFile(join(folder, "main.go"), main.includes(VERBOSITY) && !(await hasVerbosity(version)) ? withoutVerbosity(main) : main);
  await go(folder, ["mod", "tidy"]);
  return folder;
}

/**
 * `builtOnce` for this release.
 *
 * @throws {Error} if a release was requested and cannot be built: a skipped suite would count as "no difference"
 */
export async function builtOfRelease(what: Omit<GoBuild, "of">, version = COMPARED_VERSION): ReturnType<typeof builtOnce> {
  const built = await builtOnce({ ...what, of: `Kubernetes ${version}` });
  if ("missing" in built && process.env["DIFFERENTIAL_RELEASE"] !== undefined) throw new Error(built.missing);
  return built;
}
