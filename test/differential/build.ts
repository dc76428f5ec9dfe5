/** The reference program: built once from the modules of the real control plane, and kept beside it. */
import { join } from "node:path";

import { go } from "../envtest/go-program.ts";
import { builtOfRelease, releaseModule } from "../envtest/release-module.ts";

const SOURCES = ["judge_test.go", "life_test.go"].map((file) => join(import.meta.dirname, "judge", file));
const FLAGS = ["-c", "-mod=readonly", "-buildvcs=false", "-trimpath", "-vet=off", "-ldflags", "-s -w"];

/** Its path; or one line with the reason why it cannot be built here. */
export async function judgeProgram(): Promise<{ readonly program: string } | { readonly missing: string }> {
  const module = await releaseModule("control-plane");
  const built = await builtOfRelease({
    name: "judge",
    takes: "about a minute",
    module,
    files: SOURCES,
    flags: FLAGS,
    program: "judge",
    build: (folder) => go(module, ["test", ...FLAGS, "-o", join(folder, "judge"), ...SOURCES]),
  });
  return "missing" in built ? built : { program: join(built.folder, "judge") };
}
