#!/usr/bin/env node
/** The deltaloop command; each verb has one file. `deltaloop.js` starts it in the package. */
import { runVerbs } from "./command/run-verbs.ts";
import type { Verbs } from "./command/run-verbs.ts";
import { beginWithSmallYoungHeap, LITTLE_GARBAGE, SMALL_THIRD_MIB } from "./nodejs/young-heap.ts";

const VERBS: Verbs = {
  "Try it:": {
    demo: async () => (await import("./demo.ts")).registerDemo,
    dev: async () => (await import("./dev.ts")).registerDev,
  },
  "Investigate a cluster or an incident:": {
    capture: async () => (await import("./capture.ts")).registerCapture,
    import: async () => (await import("./import.ts")).registerImport,
    explain: async () => (await import("./explain.ts")).registerExplain,
    open: async () => (await import("./open.ts")).registerOpen,
    replay: async () => (await import("./replay.ts")).registerReplay,
    shadow: async () => (await import("./shadow.ts")).registerShadow,
  },
  "Write a controller:": {
    init: async () => (await import("./init.ts")).registerInit,
    "own-host": async () => (await import("./own-host.ts")).registerOwnHost,
    manifests: async () => (await import("./manifests.ts")).registerManifests,
  },
  "Run components:": {
    watch: async () => (await import("./watch.ts")).registerWatch,
    node: async () => (await import("./node.ts")).registerNode,
    host: async () => (await import("./host.ts")).registerHost,
    queue: async () => (await import("./queue.ts")).registerQueue,
  },
  "Operate a deployment:": {
    cluster: async () => (await import("./cluster.ts")).registerCluster,
    doctor: async () => (await import("./doctor.ts")).registerDoctor,
    resume: async () => (await import("./resume.ts")).registerResume,
    keys: async () => (await import("./keys.ts")).registerKeys,
    rotate: async () => (await import("./rotate.ts")).registerRotate,
    cost: async () => (await import("./cost.ts")).registerCost,
  },
};

if (process.argv[2] === "node") beginWithSmallYoungHeap(SMALL_THIRD_MIB, LITTLE_GARBAGE);
await runVerbs(VERBS);
