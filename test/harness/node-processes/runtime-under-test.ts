/** The runtime suite's fixture (test/conformance/cri.ts) for a real runtime with the images of test/containerd. */
import { existsSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

import type { CriUnderTest } from "../../conformance/cri.ts";
import { IMAGES } from "../../containerd/images.ts";

const SERVER = { image: { image: IMAGES.serverV1 } };

/** Returns the fixture without the runtime itself, its shutdown, and its missing features. */
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
