/**
 * Checks the output of `kubectl top` for a node with a busy and an idle pod. Detects a metric that metrics-server does not find or
 * misreads, a wrong unit, timestamps that yield a wrong rate, and a rejected scrape.
 */
import { eventually } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { podOf, podReady, shell, STAY } from "../harness/node-processes/pods.ts";
import { RESOLUTION_SECONDS } from "./metrics-server.ts";
import type { MetricsServer } from "./metrics-server.ts";
import { NAME } from "../harness/node-processes/compared-node.ts";

/** Resource usage of a container or of the node. */
export interface Use {
  readonly cpuMillis: number;
  readonly memoryMiB: number;
}

export interface Top {
  /** The output of kubectl. */
  readonly text: string;
  readonly node: Use | undefined;
  /** Usage by `pod/container`. */
  readonly containers: Readonly<Record<string, Use>>;
  /** Number of scrapes since metrics-server started. */
  readonly scrapes: number;
}

const BUSY_LIMIT_MILLIS = 200;
/** The limit ±25 %: a scrape takes time, and the kernel enforces the limit in slices of 100 ms. */
const BUSY_MILLIS = { min: 150, max: 250 };
const IDLE_MILLIS_MAX = 20;
/** Tolerance for a node whose cores are all busy: reading the statistics takes a moment after their timestamp is taken. */
const RATE_ERROR = 0.05;
/** MiB that each shell holds in a variable; the memory of the shell itself is negligible. */
const HELD_MIB = 12;
const SHOWN_MIB = { min: 10, max: 24 };
/** metrics-server needs two scrapes to compute a rate. */
const SCRAPES_MAX = 2;
const BUSY = "busy/main";
const IDLE = ["idle/main", "idle/side"];

/** Creates the two pods and waits until they are ready. */
export async function startTopPods(cluster: Cluster): Promise<void> {
  const limits = { cpu: `${BUSY_LIMIT_MILLIS}m` };
  await cluster.apply(
    podOf("busy", { containers: [holding("main", "while true; do :; done", { resources: { limits } })] }),
    podOf("idle", { containers: [holding("main", STAY), holding("side", STAY)] }),
  );
  await Promise.all(["busy", "idle"].map((name) => podReady(cluster, name)));
}

/** The startup probe succeeds once the shell holds its memory, so that allocating it does not count in the CPU rate. */
function holding(name: string, script: string, more: object = {}): object {
  const hold = `held=$(busybox head -c ${HELD_MIB * 2 ** 20} /dev/zero | busybox tr '\\0' x); echo >/tmp/held; ${script}`;
  return shell(name, hold, { ...more, startupProbe: { exec: { command: ["ls", "/tmp/held"] }, periodSeconds: 1, failureThreshold: 60 } });
}

/**
 * Returns the output once it contains the node and all containers, or after SCRAPES_MAX + 1 scrapes.
 * @throws {Error} if metrics-server does not scrape in time
 */
export async function topOf({ plane }: Cluster, metricsServer: MetricsServer): Promise<Top> {
  const look = async (): Promise<Top | false> => {
    const [nodes, pods] = [await plane.kubectl(["top", "node"]), await plane.kubectl(["top", "pod", "--containers"])];
    const top = {
      text: [nodes, pods].map(({ stdout, stderr }) => stdout + stderr).join(""),
      node: usesIn(nodes.stdout, 1)[NAME],
      containers: usesIn(pods.stdout, 2),
      scrapes: await metricsServer.scrapes(),
    };
    const isWhole = top.node !== undefined && [BUSY, ...IDLE].every((name) => name in top.containers);
    return (isWhole || top.scrapes > SCRAPES_MAX) && top;
  };
  return await eventually(`${SCRAPES_MAX + 1} scrapes of metrics-server`, look, (SCRAPES_MAX + 1) * RESOLUTION_SECONDS * 1000);
}

/** Returns a sentence for each wrong value. */
export function wrongIn({ node, containers, scrapes }: Top, machine: Use): readonly string[] {
  const wrong: string[] = [];
  const check = (holds: boolean, sentence: string): void => void (holds || wrong.push(sentence));
  const shown = (name: string, look: (use: Use) => void): void => {
    const use = containers[name];
    if (use === undefined) wrong.push(`kubectl top pod shows no ${name}`);
    else look(use);
  };
  check(scrapes <= SCRAPES_MAX, `not all of it is shown within ${SCRAPES_MAX} scrapes`);
  const { min, max } = BUSY_MILLIS;
  shown(BUSY, ({ cpuMillis: cpu }) => check(cpu >= min && cpu <= max, `${BUSY} uses ${cpu}m, not ${min}m to ${max}m`));
  for (const name of IDLE)
    shown(name, ({ cpuMillis: cpu }) => check(cpu < IDLE_MILLIS_MAX, `${name} uses ${cpu}m, not less than ${IDLE_MILLIS_MAX}m`));
  const memory = Object.entries(containers).map(([name, use]) => [name, use.memoryMiB] as const);
  for (const [name, mebibytes] of memory)
    check(
      mebibytes >= SHOWN_MIB.min && mebibytes <= SHOWN_MIB.max,
      `${name} uses ${mebibytes} MiB, not ${SHOWN_MIB.min} to ${SHOWN_MIB.max}`,
    );
  if (node === undefined) return [...wrong, `kubectl top node shows no ${NAME}`];
  const { cpuMillis, memoryMiB } = node;
  const most = machine.cpuMillis * (1 + RATE_ERROR);
  check(cpuMillis >= min && cpuMillis <= most, `the node uses ${cpuMillis}m, not ${min}m to ${most}m`);
  const least = memory.reduce((sum, [, mebibytes]) => sum + mebibytes, 0);
  check(
    memoryMiB > least && memoryMiB <= machine.memoryMiB,
    `the node uses ${memoryMiB} MiB, not more than its pods' ${least} and at most ${machine.memoryMiB}`,
  );
  return wrong;
}

/** Parses rows such as `judged 412m 20% 1833Mi 23%` and `busy main 200m 0Mi`; the first `words` words are the name. */
function usesIn(table: string, words: number): Readonly<Record<string, Use>> {
  const lines = table.trimEnd().split("\n").slice(1);
  return Object.fromEntries(
    lines.map((line) => {
      const fields = line.trim().split(/\s+/u);
      const [cpu = "", memory = ""] = fields.slice(words).filter((field) => !field.endsWith("%"));
      return [fields.slice(0, words).join("/"), { cpuMillis: amount(cpu, "m"), memoryMiB: amount(memory, "Mi") }];
    }),
  );
}

/** Returns NaN if the unit differs. */
function amount(text: string, unit: string): number {
  return text.endsWith(unit) ? Number(text.slice(0, -unit.length)) : Number.NaN;
}
