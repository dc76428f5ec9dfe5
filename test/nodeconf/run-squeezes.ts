/**
 * `npm run squeezes`: node-pressure tests, with upstream's kubelet and `deltaloop node` on the same machine. Prints the outcome of each
 * side and exits with 1 if the outcomes differ. Takes about eight minutes.
 *
 *     npm run squeezes                         runs all tests
 *     npm run squeezes -- --only nodefs        runs the tests whose name contains the text; repeatable
 */
import { parseArgs } from "node:util";

import { ensureContainerd } from "../containerd/programs.ts";
import { startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { upstreamTests } from "../upstream/program.ts";
import { runSqueeze } from "./squeeze.ts";
import type { Outcome } from "./squeeze-outcome.ts";
import { PRIORITIES, SQUEEZES } from "./squeezes.ts";
import type { Squeeze } from "./squeezes.ts";

const { values: flags } = parseArgs({ options: { only: { type: "string", multiple: true, default: [""] } } });
process.exitCode = await main();

async function main(): Promise<number> {
  const missing = ensureContainerd();
  const upstream = missing === undefined ? await upstreamTests() : { missing };
  if ("missing" in upstream) {
    process.stderr.write(`${upstream.missing}\n`);
    return 2;
  }
  const chosen = SQUEEZES.filter(({ name }) => flags.only.some((text) => name.includes(text)));
  if (chosen.length === 0) {
    process.stderr.write(`no squeeze's name contains ${flags.only.join(" or ")}\n`);
    return 2;
  }
  const cluster = await startCluster({ machines: "scheduler" });
  let differing = 0;
  try {
    await cluster.apply(...Object.entries(PRIORITIES).map(([name, value]) => priorityClass(name, value)));
    for (const squeeze of chosen) {
      const [theirs, ours] = await bothSides(cluster, squeeze, upstream.programs);
      const differs = !isSame(theirs, ours);
      if (differs) differing += 1;
      process.stdout.write(
        `${differs ? "DIFFERS" : "same"}  ${squeeze.name}\n${told("kubelet", theirs)}${differs ? told("ours", ours) : told("ours", { ...ours, said: {} })}`,
      );
      process.stdout.write(`    first after  kubelet ${seconds(theirs)}  ours ${seconds(ours)}\n`);
    }
  } finally {
    await cluster.stop();
  }
  process.stdout.write(`${chosen.length - differing} of ${chosen.length} the same\n`);
  return differing === 0 ? 0 : 1;
}

async function bothSides(
  cluster: Cluster,
  squeeze: Squeeze,
  programs: { readonly kubelet: string },
): Promise<readonly [theirs: Outcome, ours: Outcome]> {
  const settings = await squeeze.settings();
  const theirs = runSqueeze(cluster, "kubelet", squeeze, settings, programs);
  if (squeeze.apart) await theirs;
  return await Promise.all([theirs, runSqueeze(cluster, "ours", squeeze, settings, programs)]);
}

/**
 * Compares two outcomes, without the container states that the kubelet reports as ContainerStatusUnknown: it sometimes removes a container
 * before it reads the container's exit code.
 */
function isSame(theirs: Outcome, ours: Outcome): boolean {
  const forgotten = Object.entries(theirs.said).flatMap(([name, texts]) =>
    texts.flatMap((text) => {
      const container = /^container (\S+) ContainerStatusUnknown /u.exec(text)?.[1];
      return container === undefined ? [] : [`${name} container ${container} `];
    }),
  );
  const known = ({ said, ...rest }: Outcome): Outcome => ({
    ...rest,
    said: Object.fromEntries(
      Object.entries(said).map(([name, texts]) => [
        name,
        texts.filter((text) => !forgotten.some((start) => `${name} ${text}`.startsWith(start))),
      ]),
    ),
  });
  return JSON.stringify(compared(known(theirs))) === JSON.stringify(compared(known(ours)));
}

function compared({ order, said, node, stay, images }: Outcome): Omit<Outcome, "nodeEvents" | "firstAfter"> {
  return { order, said, node, stay, images };
}

function seconds({ firstAfter }: Outcome): string {
  return firstAfter === undefined ? "none" : `${firstAfter.toFixed(0)} s`;
}

function told(side: string, { order, said, node, nodeEvents, stay, images }: Outcome): string {
  const lines = [
    `went   ${order.join(" → ")}`,
    `stay   ${stay.join(" ")}`,
    `images ${images.join(" ")}`,
    ...node,
    ...nodeEvents.map((event) => `event ${event}`),
    ...Object.entries(said).flatMap(([name, texts]) => texts.map((text) => `${name}: ${text}`)),
  ];
  return lines.map((line) => `    ${side.padEnd(8)} ${line}\n`).join("");
}

function priorityClass(name: string, value: number): object {
  return { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name }, value };
}
