#!/usr/bin/env node
/** The deltaloop command: one verb, one file. Exit codes: 0 done, 1 failed, 2 wrong use or configuration, 3 see `dev --act`, 4 see `watch`. */
import { runVerbs } from "./command/run-verbs.ts";
import type { Verbs } from "./command/run-verbs.ts";
import { beginWithSmallYoungHeap, LITTLE_GARBAGE, SMALL_THIRD_MIB } from "./nodejs/young-heap.ts";

const VERBS: Verbs = {
  demo: async () => (await import("./demo.ts")).registerDemo,
  dev: async () => (await import("./dev.ts")).registerDev,
  watch: async () => (await import("./watch.ts")).registerWatch,
  capture: async () => (await import("./capture.ts")).registerCapture,
  import: async () => (await import("./import.ts")).registerImport,
  replay: async () => (await import("./replay.ts")).registerReplay,
  explain: async () => (await import("./explain.ts")).registerExplain,
  shadow: async () => (await import("./shadow.ts")).registerShadow,
  host: async () => (await import("./host.ts")).registerHost,
  node: async () => (await import("./node.ts")).registerNode,
  cost: async () => (await import("./cost.ts")).registerCost,
  keys: async () => (await import("./keys.ts")).registerKeys,
  resume: async () => (await import("./resume.ts")).registerResume,
  rotate: async () => (await import("./rotate.ts")).registerRotate,
  doctor: async () => (await import("./doctor.ts")).registerDoctor,
  queue: async () => (await import("./queue.ts")).registerQueue,
};

if (process.argv[2] === "node") beginWithSmallYoungHeap(SMALL_THIRD_MIB, LITTLE_GARBAGE);
await runVerbs(VERBS);
