/** The program that contains upstream's own tests (test/envtest/upstream-tests): lists its tests and runs them. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { buildFlags, go } from "../envtest/go-program.ts";
import { builtOfRelease, COMPARED_VERSION, releaseModule } from "../envtest/release-module.ts";

export interface UpstreamTests {
  /** Upstream's programs, built from the same modules. */
  readonly programs: { readonly kubelet: string; readonly agnhost: string };
  /** Full names of the images that its tests use. */
  images(): Promise<readonly string[]>;
  /** Full names of all tests: `[sig-node] Containers should …`. */
  all(): Promise<readonly string[]>;
  /** Names of all tests of Deployments, ReplicaSets and ReplicationControllers, in the format of tests.ts. */
  names(): Promise<readonly string[]>;
  /**
   * Runs one test in a separate process with its own namespaces, as the kubeconfig's user; several may run at once.
   *
   * @throws when it did not pass, with the failure message and its last lines of output
   */
  run(name: string, options: { readonly kubeconfig: string; readonly signal?: AbortSignal }): Promise<void>;
  /** Runs several tests in one process, one after the other; names as in `all`. Tests that did not finish are "interrupted". */
  runSome(names: readonly string[], options: RunOptions): Promise<readonly TestOutcome[]>;
}

export interface RunOptions {
  readonly kubeconfig: string;
  readonly signal?: AbortSignal;
  /** Keeps the namespace of a failed test. Default false. */
  readonly keepsFailed?: boolean;
}

export interface TestOutcome {
  readonly name: string;
  readonly state: "passed" | "failed" | "skipped" | "interrupted";
  readonly seconds: number;
  /** The failure message, unless the test passed. */
  readonly told?: string;
}

/** The number of concurrent tests, which mostly wait. */
export const TESTS_AT_ONCE = 5;

const PROGRAM = "upstream-tests";
/** Time limit of a test. The slowest test of the three controllers passes in 35 s, but many of upstream's waits last up to 5 minutes. */
const TEST_MINUTES_MAX = 6;
/** Time limit of a test with the label [Slow], which may observe the cluster for 5 minutes or more. */
const SLOW_TEST_MINUTES_MAX = 20;
const TOOLS = ["k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/test/images/agnhost"];
const OUTPUT_BYTES_MAX = 256 * 1024 * 1024;
const LAST_LINES = 40;

/** The result of a test in ginkgo's report. Source: github.com/onsi/ginkgo/v2 types/types.go Report, SpecReport. */
interface SpecReport {
  readonly State: string;
  readonly Failure?: { readonly Message: string; readonly Location: { readonly FileName: string; readonly LineNumber: number } };
  readonly CapturedGinkgoWriterOutput?: string;
  readonly ContainerHierarchyTexts: readonly string[] | null;
  readonly LeafNodeText: string;
  /** Duration in nanoseconds. */
  readonly RunTime: number;
}

/** The program, built if needed, or a one-line reason why it is unavailable. */
export async function upstreamTests(): Promise<UpstreamTests | { readonly missing: string }> {
  const flags = buildFlags(COMPARED_VERSION);
  const module = await releaseModule("upstream-tests");
  const built = await builtOfRelease({
    name: "upstream test program",
    takes: "about 3 minutes",
    module,
    files: [join(module, "main.go")],
    flags,
    program: PROGRAM,
    build: async (folder) => await go(module, ["build", ...flags, "-o", `${folder}/`, ".", ...TOOLS]),
  });
  if ("missing" in built) return built;
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) return binaries;
  const program = join(built.folder, PROGRAM);
  return {
    programs: { kubelet: join(built.folder, "kubelet"), agnhost: join(built.folder, "agnhost") },
    async images() {
      const { output } = await execute(program, ["--list-images"]);
      return output.trim().split("\n");
    },
    async all() {
      const { output } = await execute(program, ["--list-tests"]);
      return [...output.matchAll(/\.go:\d+: (.+)$/gm)].map(([, name = ""]) => name);
    },
    async names() {
      const { output } = await execute(program, ["--list-tests"]);
      return [...output.matchAll(/: \[sig-apps\] ((?:Deployment|ReplicaSet|ReplicationController) .*)$/gm)].map(([, name = ""]) => name);
    },
    async run(name, { kubeconfig, signal }) {
      const scratch = await mkdtemp(join(tmpdir(), "deltaloop-upstream-"));
      try {
        const report = join(scratch, "report.json");
        const ginkgo = [
          `--kubeconfig=${kubeconfig}`,
          "--provider=local",
          `--ginkgo.focus=${`[sig-apps] ${name}`.replace(/[^\w ]/g, "\\$&")}$`,
          `--ginkgo.timeout=${TEST_MINUTES_MAX}m`,
          `--ginkgo.json-report=${report}`,
          "--ginkgo.no-color",
        ];
        const { code, output } = await execute(program, ginkgo, signal);
        const [spec, ...more] = await specsOf(report);
        if (spec === undefined) throw new Error(`no test of this name ran, exit ${code}:\n${lastLines(output)}`);
        if (more.length > 0) throw new Error(`${more.length + 1} tests have this name`);
        if (code !== 0 || spec.State !== "passed") throw new Error(told(spec));
      } finally {
        await rm(scratch, { recursive: true, force: true });
      }
    },
    async runSome(names, { kubeconfig, signal, keepsFailed = false }) {
      const scratch = await mkdtemp(join(tmpdir(), "deltaloop-upstream-"));
      try {
        const report = join(scratch, "report.json");
        const ginkgo = [
          ...[`--kubeconfig=${kubeconfig}`, "--provider=local", "--dump-logs-on-failure=false", "--ginkgo.no-color"],
          ...[`--kubectl-path=${binaries.kubectl}`, `--delete-namespace-on-failure=${!keepsFailed}`],
          `--ginkgo.focus=(${names.map((name) => name.replace(/[^\w ]/g, "\\$&")).join("|")})$`,
          `--ginkgo.timeout=${minutesMax(names)}m`,
          `--ginkgo.json-report=${report}`,
        ];
        // kubectl caches discovery in its user's home.
        const { output } = await execute(program, ginkgo, signal, { HOME: scratch });
        const specs = new Map(
          (await specsOf(report)).map((spec) => [[...(spec.ContainerHierarchyTexts ?? []), spec.LeafNodeText].join(" "), spec]),
        );
        return names.map((name): TestOutcome => {
          const spec = specs.get(name);
          if (spec === undefined) return { name, state: "interrupted", seconds: 0, told: lastLines(output) };
          const seconds = spec.RunTime / 1e9;
          if (spec.State === "passed") return { name, state: "passed", seconds };
          return { name, state: spec.Failure !== undefined && spec.State === "skipped" ? "skipped" : "failed", seconds, told: told(spec) };
        });
      } finally {
        await rm(scratch, { recursive: true, force: true });
      }
    },
  };
}

function minutesMax(names: readonly string[]): number {
  return names.reduce((sum, name) => sum + (name.includes("[Slow]") ? SLOW_TEST_MINUTES_MAX : TEST_MINUTES_MAX), 0);
}

/** The results of the selected tests; empty when the program ended before them. */
async function specsOf(report: string): Promise<readonly SpecReport[]> {
  const text = await readFile(report, "utf8").catch(() => "[]");
  // ginkgo wrote the file; it also contains the suite's own steps, which have no names.
  const [suite] = JSON.parse(text) as readonly { readonly SpecReports: readonly SpecReport[] }[];
  // Omits tests that were not selected; ginkgo reports them as skipped.
  return (suite?.SpecReports ?? []).filter(
    ({ State, LeafNodeText, Failure }) => LeafNodeText !== "" && (State !== "skipped" || (Failure?.Message ?? "") !== ""),
  );
}

function told({ State, Failure, CapturedGinkgoWriterOutput: wrote = "" }: SpecReport): string {
  const { FileName = "", LineNumber = 0 } = Failure?.Location ?? {};
  return `${State}: ${Failure?.Message ?? ""} (${basename(FileName)}:${LineNumber})\nIt wrote last:\n${lastLines(wrote)}`;
}

function lastLines(text: string): string {
  return text.trimEnd().split("\n").slice(-LAST_LINES).join("\n");
}

/** Returns the output of both streams and the exit code; does not throw for a non-zero exit code. */
async function execute(
  program: string,
  flags: readonly string[],
  signal?: AbortSignal,
  environment: Readonly<Record<string, string>> = {},
): Promise<{ readonly code: number; readonly output: string }> {
  const options = { maxBuffer: OUTPUT_BYTES_MAX, cwd: tmpdir(), env: { ...process.env, ...environment }, ...(signal && { signal }) };
  return await new Promise((resolve) => {
    const child = execFile(program, flags, options, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? 1, output: stdout + stderr }),
    );
  });
}
