/** `npm run local`: runs deltaloop on this machine as it is deployed, until Ctrl-C or `npm run local -- --stop`. */
import { mkdir, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { dirname, join } from "node:path";

import { kubeAccess } from "@deltaloop/kube/kubeconfig";
import { untilSignalled } from "@deltaloop/local/processes";
import { startMemoryCluster } from "./memory-cluster.ts";
import { startLocal } from "./stack.ts";
import { startTakes } from "./venv.ts";
import type { LocalDeltaloop } from "./stack.ts";
import { messageOf } from "@deltaloop/kube/objects";
import { cacheFolder } from "../build/cache-folder.ts";
import { scriptOptions } from "../build/script-options.ts";

/** A message on this socket stops the run. The socket closes once the run has ended. */
const STOP_SOCKET = join(cacheFolder(), "local.sock");
const EXIT_FAILED = 1;
const USAGE = `Runs deltaloop on this machine as it is deployed: LocalStack, Redis, the functions and a watcher.

Usage: npm run local -- [options]

Options:
  --kubeconfig FILE        cluster to use (default: an in-memory API server with scripted nodes)
  --act                    write to the cluster of --kubeconfig (default: shadow mode, sends no writes)
  --lease-namespace NAME   namespace of the watcher's Lease (default: kube-system)
  --log FILE               log of LocalStack and of the functions (default: a temporary file)
  --verbose                log at debug level (default: off)
  --stop                   stop the running instance
  --help                   print this text

Examples:
  npm run local
  npm run local -- --kubeconfig ~/.kube/config
  npm run local -- --stop
`;

async function main(): Promise<void> {
  const { values: flags } = scriptOptions("local", USAGE, {
    options: {
      kubeconfig: { type: "string" },
      act: { type: "boolean", default: false },
      "lease-namespace": { type: "string", default: "kube-system" },
      log: { type: "string" },
      verbose: { type: "boolean", default: false },
      stop: { type: "boolean", default: false },
    },
  });
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
    say(`ready, mode ${mode === "act" ? mode : "shadow (decides and logs, sends no writes)"}\n${whatToTry(kubeconfig, local)}`);
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
It runs until Ctrl-C or \`npm run local -- --stop\`. In another terminal:
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

/** Returns a function that closes the socket. @throws if another instance is running */
async function listenForStop(stop: () => void): Promise<() => Promise<void>> {
  await mkdir(dirname(STOP_SOCKET), { recursive: true });
  if (await reached()) throw new Error("another instance is running; stop it with npm run local -- --stop");
  await rm(STOP_SOCKET, { force: true });
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", stop);
    // Another start probes the socket: it connects and closes.
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

/** Resolves once the other instance has exited. */
async function stopOther(): Promise<void> {
  const stopped = await new Promise<boolean>((resolve) => {
    const socket = connect(STOP_SOCKET, () => socket.write("stop\n"));
    let isThere = false;
    socket.once("ready", () => (isThere = true));
    socket.resume().on("error", () => undefined);
    socket.once("close", () => resolve(isThere));
  });
  say(stopped ? "stopped" : "no instance is running");
}

function say(line: string): void {
  process.stderr.write(`local: ${line}\n`);
}

await main().catch((error: unknown) => {
  say(messageOf(error));
  process.exitCode = EXIT_FAILED;
});
process.exit();
