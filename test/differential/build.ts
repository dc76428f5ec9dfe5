/** The judge's program: built once of the modules that the real control plane is built of, and kept beside that. */
import { join } from "node:path";

import { builtOnce, go } from "../envtest/go-program.ts";

const MODULE = join(import.meta.dirname, "..", "envtest", "control-plane");
const SOURCES = ["judge_test.go", "life_test.go"].map((file) => join(import.meta.dirname, "judge", file));
const FLAGS = ["-c", "-mod=readonly", "-buildvcs=false", "-trimpath", "-vet=off", "-ldflags", "-s -w"];

/** Where it stands; or, in one line for people, why it cannot be built here. */
export async function judgeProgram(): Promise<{ readonly program: string } | { readonly missing: string }> {
  const built = await builtOnce({
    name: "judge",
    takes: "about a minute",
    module: MODULE,
    files: SOURCES,
    flags: FLAGS,
    program: "judge",
    build: (folder) => go(MODULE, ["test", ...FLAGS, "-o", join(folder, "judge"), ...SOURCES]),
  });
  return "missing" in built ? built : { program: join(built.folder, "judge") };
}
