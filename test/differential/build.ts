/**
 * Builds the programs of the reference implementation once, from the Go modules of the real control plane, and stores them in the same
 * cache folder.
 */
import { join } from "node:path";

import { go } from "../envtest/go-program.ts";
import type { GoBuild } from "../envtest/go-program.ts";
import { builtOfRelease, releaseModule } from "../envtest/release-module.ts";

const FLAGS = ["-c", "-mod=readonly", "-buildvcs=false", "-trimpath", "-vet=off", "-ldflags", "-s -w"];

type Program = { readonly program: string } | { readonly missing: string };

export async function judgeProgram(): Promise<Program> {
  const files = ["judge_test.go", "life_test.go"].map((file) => join(import.meta.dirname, "judge", file));
  return await testProgram({ name: "judge", takes: "about a minute", files });
}

/**
 * Builds a Go test as a program.
 *
 * @returns its path, or a one-line reason why it cannot be built
 */
export async function testProgram({ name, takes, files }: Pick<GoBuild, "name" | "takes" | "files">): Promise<Program> {
  const module = await releaseModule("control-plane");
  const program = name.replaceAll(" ", "-");
  const build = (folder: string): Promise<void> => go(module, ["test", ...FLAGS, "-o", join(folder, program), ...files]);
  const built = await builtOfRelease({ name, takes, module, files, flags: FLAGS, program, build });
  return "missing" in built ? built : { program: join(built.folder, program) };
}
