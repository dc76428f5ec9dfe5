/**
 * `npm run local`: deltaloop as it is deployed, on this machine, until Ctrl-C or `npm run local -- --stop`.
 *
 *     --kubeconfig FILE   a cluster; by default one in memory with scripted nodes
 *     --act               be that cluster's controller; by default decide and send nothing (the one in memory is always acted on)
 *     --lease-namespace   where the watcher's Lease stands; default kube-system
 *     --log FILE          LocalStack's log and the functions'
 *     --verbose           debug log
 *     --stop              ends the one that runs
 */
import { mkdir, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";

import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { untilSignalled } from "@deltaloop/local/processes";
import { startMemoryCluster } from "./memory-cluster.ts";
import { startLocal } from "./stack.ts";
import { startTakes } from "./venv.ts";
import type { LocalDeltaloop } from "./stack.ts";
import { messageOf } from "@deltaloop/kube/objects";
import { cacheFolder } from "../build/cache-folder.ts";

/** Whoever connects here ends the run; it stays open until the run has ended. */
const STOP_SOCKET = join(cacheFolder(), "local.sock");
const EXIT_FAILED = 1;
const EXIT_USAGE = 2;

interface Flags {
  readonly kubeconfig?: string | undefined;
  readonly act: boolean;
  readonly "lease-namespace": string;
  readonly log?: string | undefined;
  readonly verbose: boolean;
  readonly stop: boolean;
}

async function main(): Promise<void> {
  const flags = readFlags();
  if (flags === undefined) return;
  if (flags.stop) return await stopOther();
  const signalled = untilSignalled();
  const asked = new AbortController();
  const closeSocket = await listenForStop(() => asked.abort());
  say(`ready in ${await startTakes()}`);
  const memory = flags.kubeconfig === undefined ? await startMemoryCluster() : undefined;
  const kubeconfig = memory?.kubeconfig ?? flags.kubeconfig ?? "";
  let local: LocalDeltaloop | undefined;
  try {
    const mode = memory !== undefined || flags.act ? "act" : "shadow";
    local = await startLocal({
      access: (role) => kubeAccess({ kubeconfig }, role, role.replace("deltaloop-", "")),
      kubeconfig,
      mode,
      leaseNamespace: flags["lease-namespace"],
      verbose: flags.verbose,
      ...(flags.log !== undefined && { logFile: flags.log }),
    });
    say(`ready, mode ${mode === "act" ? mode : "shadow (decides and logs, sends nothing)"}\n${whatToTry(kubeconfig, local)}`);
    const ends = AbortSignal.any([signalled, asked.signal]);
    if (!ends.aborted) await new Promise((resolve) => ends.addEventListener("abort", resolve, { once: true }));
  } finally {
    await local?.stop();
    await memory?.stop();
    await closeSocket();
  }
}

function whatToTry(kubeconfig: string, { localStack, redisUrl, queueUrls }: LocalDeltaloop): string {
  return `
It stays up until Ctrl-C or \`npm run local -- --stop\`. In another terminal:
  export KUBECONFIG=${kubeconfig}
  kubectl create deployment web --image=web:v1 --replicas=3 && kubectl rollout status deployment web
  kubectl scale deployment web --replicas=6
  kubectl set image deployment web web=web:v2
  tail -f ${localStack.logFile}
  redis-cli -u ${redisUrl} --scan
  aws --endpoint-url ${localStack.endpoint} sqs get-queue-attributes --attribute-names All --queue-url ${queueUrls.deltas}
  aws --endpoint-url ${localStack.endpoint} lambda list-functions
`;
}

/** @returns what ends it. @throws when another one runs */
async function listenForStop(stop: () => void): Promise<() => Promise<void>> {
  await mkdir(dirname(STOP_SOCKET), { recursive: true });
  if (await reached()) throw new Error("another one runs: npm run local -- --stop");
  await rm(STOP_SOCKET, { force: true });
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", stop);
    // The look of another start comes and goes without a word.
    socket.once("end", () => socket.end());
    open.add(socket);
  });
  const open = new Set<{ destroy(): unknown }>();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(STOP_SOCKET, resolve));
  return async () => {
    for (const socket of open) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
}

async function reached(): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(STOP_SOCKET, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

/** Resolves when the other one has ended. */
async function stopOther(): Promise<void> {
  const stopped = await new Promise<boolean>((resolve) => {
    const socket = connect(STOP_SOCKET, () => socket.write("stop\n"));
    let isThere = false;
    socket.once("ready", () => (isThere = true));
    socket.resume().on("error", () => undefined);
    socket.once("close", () => resolve(isThere));
  });
  say(stopped ? "stopped" : "nothing runs");
}

function readFlags(): Flags | undefined {
  try {
    return parseArgs({
      options: {
        kubeconfig: { type: "string" },
        act: { type: "boolean", default: false },
        "lease-namespace": { type: "string", default: "kube-system" },
        log: { type: "string" },
        verbose: { type: "boolean", default: false },
        stop: { type: "boolean", default: false },
      },
    }).values;
  } catch (error) {
    say(messageOf(error));
    process.exitCode = EXIT_USAGE;
    return undefined;
  }
}

function say(line: string): void {
  process.stderr.write(`local: ${line}\n`);
}

await main().catch((error: unknown) => {
  say(messageOf(error));
  process.exitCode = EXIT_FAILED;
});
process.exit();
