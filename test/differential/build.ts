/** The reference program: built once from the modules of the real control plane, and kept beside it. */
import { execFile } from "node:child_process";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";

import { cacheFolder } from "../../infra/build/cache-folder.ts";
import { KUBERNETES_VERSION } from "../../shared/kube/objects/release.ts";
import { builtOnce, go } from "../envtest/go-program.ts";
import { stagingModules, stagingVersion } from "../envtest/pins.ts";
import { COMPARED_VERSION } from "./release.ts";

const MODULE = join(import.meta.dirname, "..", "envtest", "control-plane");
const SOURCES = ["judge_test.go", "life_test.go"].map((file) => join(import.meta.dirname, "judge", file));
const FLAGS = ["-c", "-mod=readonly", "-buildvcs=false", "-trimpath", "-vet=off", "-ldflags", "-s -w"];

/** Its path; or one line with the reason why it cannot be built here. */
export async function judgeProgram(): Promise<{ readonly program: string } | { readonly missing: string }> {
  const module = COMPARED_VERSION === KUBERNETES_VERSION ? MODULE : await moduleOf(COMPARED_VERSION);
  const built = await builtOnce({
    name: "judge",
    of: `Kubernetes ${COMPARED_VERSION}`,
    takes: "about a minute",
    module,
    files: SOURCES,
    flags: FLAGS,
    program: "judge",
    build: (folder) => go(module, ["test", ...FLAGS, "-o", join(folder, "judge"), ...SOURCES]),
  });
  // A suite is skipped without its reference program, which must not count as "no difference" where a release was requested.
  if ("missing" in built && process.env["DIFFERENTIAL_RELEASE"] !== undefined) throw new Error(built.missing);
  return "missing" in built ? built : { program: join(built.folder, "judge") };
}

/** A module of another release, made of that one's go.mod and kept outside the checkout. */
async function moduleOf(release: string): Promise<string> {
  const folder = join(cacheFolder(), `judge-module-${release}`);
  const goSum = join(folder, "go.sum");
  if ((await readFile(goSum).catch(() => undefined)) !== undefined) return folder;
  const { stdout } = await promisify(execFile)("go", ["mod", "download", "-json", `k8s.io/kubernetes@${release}`], {
    env: { ...process.env, GOTOOLCHAIN: "local", GOWORK: "off" },
  });
  const upstream = await readFile((JSON.parse(stdout) as { readonly GoMod: string }).GoMod, "utf8");
  const replaced = [...stagingModules(upstream)].map((path) => `\t${path} => ${path} ${stagingVersion(release)}\n`);
  const [, language = ""] = /^go (\S+)$/m.exec(await readFile(join(MODULE, "go.mod"), "utf8")) ?? [];
  const required = `require k8s.io/kubernetes ${release}\n\nreplace (\n${replaced.join("")})\n`;
  await mkdir(folder, { recursive: true });
  // The language version decides whether testing/synctest is there; the sources, what `tidy` requires.
  await writeFile(join(folder, "go.mod"), `module judge\n\ngo ${language}\n\n${required}`);
  for (const source of SOURCES) await copyFile(source, join(folder, basename(source)));
  await go(folder, ["mod", "tidy"]);
  return folder;
}
