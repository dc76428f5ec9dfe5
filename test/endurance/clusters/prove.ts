/**
 * The proof of `npm run prove-clusters` (run.ts): injects one fault after the other, in a random order that the seed decides, while ten
 * clusters have churn, and inspects all clusters at the end.
 *
 * Each cluster has an identity. The names of its objects begin with it, and their pod templates contain it as a canary, so that an object, a
 * request body or a token of another cluster is detected. All clusters begin with the same objects and UIDs, as clones do.
 */
import { loadavg } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

import { createSeededRandom } from "../../../shared/base/memory/random.ts";
import { faultsOf } from "./faults.ts";
import type { Fault, Proved } from "./faults.ts";
import { inspectAll } from "./inspect.ts";
import { rollOut } from "./real-clusters.ts";
import { findingText, linesThatMatter, summary, tableOf } from "./report.ts";
import type { FaultTimes, Finding } from "./report.ts";
import { startStage } from "./stage.ts";
import type { Stage } from "./stage.ts";

export interface ProofOptions {
  readonly minutes: number;
  readonly clusters: number;
  /** Real control planes. */
  readonly real: number;
  readonly seed: number;
  /** Injects only the faults whose name contains this. */
  readonly only: string;
}

const BASELINE = 30;
const CHURN_PAUSE_MS = 500;
const PROBE_PAUSE_MS = 200;
/** Churn changes replicas and pod template of a Deployment that stays, this often. */
const REVISE_EVERY = 3;
const REPLICAS_MAX = 4;
/** Limit of a rollout in one cluster while another one has a fault, and what a rollout may add to a bound. */
const OTHERS_MS_MAX = 20_000;
const [MINUTE_MS, MS_PER_SECOND] = [60_000, 1_000];
const HELD_MS = { min: 12_000, max: 40_000 };
const BEFORE = "before the faults";

/** @returns what was found */
export async function prove(options: ProofOptions): Promise<readonly string[]> {
  const stage = await startStage(options, say);
  const proof = new Proof(stage, options);
  try {
    return await proof.run();
  } finally {
    proof.end();
    await stage.stop();
  }
}

class Proof {
  readonly #stage: Stage;
  readonly #options: ProofOptions;
  readonly #random;
  readonly #ends = new AbortController();
  readonly #findings: Finding[] = [];
  readonly #times = new Map<string, FaultTimes>();
  readonly #fromMs = performance.now();
  /** Rollouts in clusters without a fault since the last line about progress. */
  #recent: number[] = [];
  readonly #real: number[] = [];
  #names = 0;
  #injected = 0;
  /** The fault in progress, and the length of the output when it began. */
  #fault = { name: BEFORE, outputFrom: 0 };

  constructor(stage: Stage, options: ProofOptions) {
    this.#stage = stage;
    this.#options = options;
    this.#random = createSeededRandom(options.seed);
  }

  async run(): Promise<readonly string[]> {
    const { churning, clusters, planes } = this.#stage;
    const churns = [
      ...churning.map(async (cluster) => await this.#churn(cluster)),
      ...[...planes.keys()].map(async (i) => await this.#churnReal(i)),
    ];
    const progress = setInterval(() => void this.#progress(), MINUTE_MS);
    try {
      const alone: number[] = [];
      while (alone.length < BASELINE) await this.#probe(alone);
      say(`POST to pod in the others before the faults: ${summary(alone)}`);
      await this.#inject();
    } finally {
      clearInterval(progress);
    }
    this.end();
    await Promise.all(churns);
    this.#fault = { ...this.#fault, name: "after the faults" };
    await inspectAll(this.#stage, (cluster, what) => this.#found(cluster, what));
    say(tableOf([...this.#times.values()]));
    say(`real control planes, all along: ${summary(this.#real)}`);
    say(`${clusters.length} API servers in memory and ${planes.length} control planes inspected, ${this.#names} Deployments rolled out`);
    return this.#findings.map(findingText);
  }

  end(): void {
    this.#ends.abort(new Error("the faults are over"));
  }

  get #minute(): number {
    return (performance.now() - this.#fromMs) / MINUTE_MS;
  }

  /** Injects each fault once, and again in another order until the time is over. */
  async #inject(): Promise<void> {
    const { minutes, only } = this.#options;
    const faults = faultsOf({ ...this.#stage, random: this.#random }).filter(({ name }) => name.includes(only));
    const heldMs = Math.max(HELD_MS.min, Math.min(HELD_MS.max, (minutes * MINUTE_MS) / faults.length / 2));
    for (let round = 0; round === 0 || this.#minute < minutes; round++) {
      for (const fault of this.#shuffled(faults)) {
        if (round > 0 && this.#minute > minutes) return;
        const from = this.#minute;
        const outcome = await this.#strike(fault, heldMs);
        say(`${from.toFixed(1)} min  ${outcome}`);
      }
    }
  }

  /** Holds a fault of a cluster while others are measured, and waits until each cluster that the fault affects works. */
  async #strike(fault: Fault, heldMs: number): Promise<string> {
    const { clusters, calm, planes, fleet } = this.#stage;
    this.#fault = { name: fault.name, outputFrom: fleet.dev.output().length };
    this.#injected++;
    const times = this.#timesOf(fault);
    times.count++;
    const others: number[] = [];
    const added = await fault.begin();
    if (added) clusters.push(added);
    if (fault.cluster) {
      const from = performance.now();
      while (performance.now() - from < heldMs) await this.#probe(others);
      await fault.end?.();
    }
    times.others.push(...others);
    const affected = [fault.cluster, added].filter((cluster) => cluster !== undefined);
    const recovering =
      affected.length > 0
        ? affected.map(async (cluster) => await this.#recovered(cluster.name, fault, async () => await this.#deploy(cluster)))
        : [
            ...calm.map(async (cluster) => await this.#recovered(cluster.name, fault, async () => await this.#deploy(cluster))),
            ...[...planes.keys()].map(async (i) => await this.#recovered(`real-${i}`, fault, async () => await this.#rollOut(i))),
          ];
    const recoveries = (await Promise.all(recovering)).filter((ms) => ms !== undefined);
    times.recoveries.push(...recoveries);
    const where = fault.cluster ? `${fault.cluster.name} ` : "";
    const works = affected.length > 0 ? "converges" : `all ${recovering.length} clusters without churn converge`;
    return `${where}${fault.name}: ${fault.cluster ? `others: ${summary(others)}; ` : ""}${works} ${seconds(Math.max(...recoveries))} s later`;
  }

  /** Repeats `act` until it succeeds. @returns how long that took in milliseconds */
  async #recovered(cluster: string, { name, boundSeconds }: Fault, act: () => Promise<number>): Promise<number | undefined> {
    const from = performance.now();
    for (;;) {
      const error = await act().then(
        () => undefined,
        (reason: unknown) => String(reason),
      );
      const ms = performance.now() - from;
      const limitMs = boundSeconds * MS_PER_SECOND + OTHERS_MS_MAX;
      if (error === undefined && ms <= limitMs) return ms;
      if (ms > limitMs) {
        this.#found(
          cluster,
          `${error === undefined ? "converged" : "did not converge"} in ${seconds(ms)} s after: ${name}; bound ${boundSeconds} s`,
        );
        return undefined;
      }
      await sleep(PROBE_PAUSE_MS);
    }
  }

  /** Measures a rollout in a random cluster without churn. */
  async #probe(times: number[]): Promise<void> {
    const { calm } = this.#stage;
    const cluster = calm[Math.floor(this.#random.next() * calm.length)];
    if (cluster === undefined) throw new Error("there is no cluster without churn");
    const ms = await this.#deploy(cluster).catch((error: unknown) => this.#found(cluster.name, String(error)));
    if (ms !== undefined) {
      times.push(ms);
      this.#recent.push(ms);
      if (ms > OTHERS_MS_MAX) this.#found(cluster.name, `a rollout took ${seconds(ms)} s while another cluster had a fault`);
    }
    await sleep(PROBE_PAUSE_MS);
  }

  async #deploy({ host, server, identities }: Proved): Promise<number> {
    const identity = identities.at(-1) ?? "";
    return await host.ask({ verb: "deploy", server, name: `${identity}-${this.#names++}`, canary: `canary.${identity}` });
  }

  /** Failures are expected while the cluster has a fault; the inspection at the end finds what stays. */
  async #churn(cluster: Proved): Promise<void> {
    for (let n = 0; !this.#ends.signal.aborted; n++) {
      await (n % REVISE_EVERY === 0 ? this.#revise(cluster, n) : this.#deploy(cluster)).catch(() => undefined);
      await sleep(CHURN_PAUSE_MS);
    }
  }

  async #revise({ host, server, identities }: Proved, n: number): Promise<void> {
    const identity = identities.at(-1) ?? "";
    const replicas = Math.floor(this.#random.next() * (REPLICAS_MAX + 1));
    await host.ask({ verb: "revise", server, name: `${identity}-kept`, canary: `canary.${identity} ${n}`, replicas });
  }

  async #churnReal(i: number): Promise<void> {
    while (!this.#ends.signal.aborted) {
      await this.#rollOut(i).catch((error: unknown) => this.#found(`real-${i}`, String(error)));
      await sleep(CHURN_PAUSE_MS);
    }
  }

  async #rollOut(i: number): Promise<number> {
    const plane = this.#stage.planes[i];
    if (plane === undefined) throw new Error(`no control plane ${i}`);
    const ms = await rollOut(plane, `real-${i}-${this.#names++}`, `canary.real-${i}`);
    this.#real.push(ms);
    return ms;
  }

  #found(cluster: string, what: string): undefined {
    const { name: fault, outputFrom } = this.#fault;
    const output = this.#stage.fleet.dev.output().slice(outputFrom);
    const own = linesThatMatter(output, cluster);
    const lines = own.length > 0 ? own : linesThatMatter(output, undefined);
    this.#findings.push({ cluster, fault, minute: this.#minute, load: loadavg()[0] ?? 0, what, lines });
    say(`FOUND  ${cluster}: ${what}`);
  }

  #timesOf({ name: fault, boundSeconds }: Fault): FaultTimes {
    const times = this.#times.get(fault) ?? { fault, boundSeconds, count: 0, others: [], recoveries: [] };
    this.#times.set(fault, times);
    return times;
  }

  #shuffled<T>(all: readonly T[]): readonly T[] {
    return all
      .map((one) => [this.#random.next(), one] as const)
      .toSorted(([a], [b]) => a - b)
      .map(([, one]) => one);
  }

  async #progress(): Promise<void> {
    const others = this.#recent;
    this.#recent = [];
    const usage = await this.#stage.usageText().catch(() => "a process is being restarted");
    const found = this.#findings.length === 0 ? "" : `, ${this.#findings.length} found`;
    say(
      `${this.#minute.toFixed(0)} min: ${this.#injected} faults, ${this.#names} Deployments, others ${summary(others)}; ${usage}${found}`,
    );
  }
}

function seconds(ms: number): string {
  return (ms / MS_PER_SECOND).toFixed(1);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
