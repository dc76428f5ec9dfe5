/** What the runtime suite (test/conformance/cri.ts) is told of a real runtime whose images are those of test/containerd. */
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import type { CriUnderTest } from "../../conformance/cri.ts";
import { IMAGES } from "../../containerd/images.ts";

const SERVER = { image: { image: IMAGES.serverV1 } };

/** All but the runtime itself, how it is ended, and what it has not. */
export function realRuntime(node: {
  readonly cgroupParent: string;
  readonly logDirectory: string;
}): Omit<CriUnderTest, "cri" | "absentImage" | "restart" | "close"> {
  const { cgroupParent, logDirectory } = node;
  return {
    programs: { serve: SERVER, stubborn: { ...SERVER, args: ["stubborn"] }, exit: { ...SERVER, args: ["exit", "3", "1500"] } },
    failingCommand: ["/server", "exit", "3"],
    longCommand: ["/server", "exit", "0", "5000"],
    sandboxBase: () => ({ logDirectory, linux: { cgroupParent: `${cgroupParent}/suite` } }),
    readLog: async (path) => (existsSync(path) ? readFileSync(path, "utf8") : ""),
    within: (promise) => promise,
    elapse: sleep,
    nowMs: () => Date.now(),
  };
}
