import { defineConfig } from "vitest/config";

/**
 * What every project shares: Node, no globals, no mocked modules. Node itself reads the sources, as it does where they run unbuilt.
 *
 * `isolate: false`: the files of a process share its modules, because loading them again for each file makes test/unit/kubelet take
 * 34 s instead of 6 s (112 files, two processors). A test that changes state of the process restores it.
 */
const node = {
  environment: "node",
  globals: false,
  isolate: false,
  experimental: { viteModuleRunner: false, nodeLoader: false },
} as const;

/** Suites with more cases than a check has time for: some of them run there (test/support/share.ts), all in the project `long`. */
const LONG = [
  "test/simulation/**/*.test.ts",
  "test/conformance/{counting-laws,http-answer-differential,http-answers}.test.ts",
  "test/golden/{closed,shadow,wake-ups}.test.ts",
  "test/unit/kubelet/pod-workers/crashes.test.ts",
  "test/unit/replicaset/faults.test.ts",
];

/** Suites that start a server of another program or many processes, or wait for real seconds; the others need this checkout alone. */
const REAL_COMPONENTS = [
  "test/conformance/**/*{redis,sqs,fault-injecting,logind-bus}*.test.ts",
  "test/attacks/{hostile-api-server,redis-*}.test.ts",
  "test/differential/*.test.ts",
  "test/unit/cli/{*-command,help,messages,redis-away,signals,startup-commands}.test.ts",
  "test/unit/cli/explain/{live,recordings,timeline}.test.ts",
];

/** E2E tests that may run beside the others: of nodes, of user controllers, and of what is packaged, recorded or shown. */
const BESIDE = "test/e2e/{capture,containerd,docker,embedded,node,own-crashes,own-errors,package,pages,timeline,watcher-image}*.test.ts";

/** One file at a time. */
const e2e = { ...node, testTimeout: 300_000, hookTimeout: 600_000, fileParallelism: false, maxWorkers: 1 } as const;

/** All that `npm run check` runs, in one project: its two processes load each module once. The others are for choosing by hand. */
const CHECKED = [
  "examples/*.test.ts",
  ...["attacks", "conformance", "golden", "simulation", "tooling", "unit"].map((folder) => `test/${folder}/**/*.test.ts`),
];

export default defineConfig({
  test: {
    // One less than there are processors would be one, where there are two.
    maxWorkers: 2,
    projects: [
      { test: { ...node, name: "check", include: CHECKED, exclude: REAL_COMPONENTS, testTimeout: 120_000, hookTimeout: 30_000 } },
      { test: { ...node, name: "unit", include: ["test/unit/**/*.test.ts"], testTimeout: 10_000 } },
      {
        test: {
          ...node,
          name: "conformance",
          include: ["test/conformance/**/*.test.ts"],
          exclude: REAL_COMPONENTS,
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
      { test: { ...node, name: "adapters", include: REAL_COMPONENTS, testTimeout: 60_000, hookTimeout: 60_000 } },
      { test: { ...node, name: "tooling", include: ["test/tooling/**/*.test.ts"], testTimeout: 60_000 } },
      { test: { ...node, name: "golden", include: ["test/golden/**/*.test.ts", "examples/*.test.ts"], testTimeout: 20_000 } },
      { test: { ...node, name: "attacks", include: ["test/attacks/**/*.test.ts"], exclude: REAL_COMPONENTS, testTimeout: 60_000 } },
      { test: { ...node, name: "simulation", include: ["test/simulation/**/*.test.ts"], testTimeout: 120_000 } },
      { test: { ...node, name: "long", include: LONG, testTimeout: 300_000, provide: { share: "all" } } },
      // Ten minutes and more, so in no `npm test`: `npm run endure`.
      {
        test: {
          ...node,
          name: "endurance",
          include: ["test/endurance/**/*.test.ts", "test/e2e/cloned-cluster.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 900_000,
          fileParallelism: false,
          maxWorkers: 1,
        },
      },
      { test: { ...e2e, name: "e2e", include: ["test/e2e/**/*.test.ts"] } },
      // The two halves, which `npm test` runs side by side.
      { test: { ...e2e, name: "e2e-controllers", include: ["test/e2e/**/*.test.ts"], exclude: [BESIDE] } },
      { test: { ...e2e, name: "e2e-nodes", include: [BESIDE] } },
    ],
  },
});
