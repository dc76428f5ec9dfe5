/**
 * LocalStack as a plain process: no container engine, no token, one loopback port.
 *
 * LO1 It listens on 127.0.0.1 only. GATEWAY_LISTEN has the address in IPv6 form, since LocalStack ignores an IPv4 host and binds every
 *    interface. On ::1 it could not reach itself, since it calls itself `localhost`.
 * LO2 It writes to one temporary folder only, which is removed when it stops.
 * LO3 It and its functions are one process group. A guard kills the group when this process ends for any reason.
 */
import { spawn } from "node:child_process";
import { mkdtemp, open, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { endOf, startReaper } from "./process-reaper.ts";
import { localStackVenv } from "./venv.ts";
import { messageOf } from "@deltaloop/kube/objects";

export interface LocalStack {
  /** URL for `sqsClient({ endpoint })` and AWS_ENDPOINT_URL. */
  readonly endpoint: string;
  readonly pid: number;
  /** The log of LocalStack and of the functions. */
  readonly logFile: string;
  /** Ends LocalStack and its functions, and removes its folder. */
  stop(): Promise<void>;
}

export interface LocalStackOptions {
  /** Default: a free port. */
  readonly port?: number;
  /** Log file that is kept. Default: a file in the temporary folder. */
  readonly logFile?: string;
  /** Whether LocalStack logs at debug level. */
  readonly debug?: boolean;
}

/** Thrown if this machine cannot run LocalStack; the message gives the reason in one line. */
export class NoLocalStackError extends Error {
  override readonly name = "NoLocalStackError";
}

const EXECUTOR = join(import.meta.dirname, "executor");
const HOST = "127.0.0.1";
const START_MS_MAX = 60_000;
const POLL_MS = 100;
const LOG_LINES_SHOWN = 15;

/** Starts LocalStack. @throws {NoLocalStackError} when this machine cannot run it; {Error} with the end of its log when it does not start */
export async function startLocalStack(options: LocalStackOptions = {}): Promise<LocalStack> {
  const venv = await localStackVenv();
  if ("missing" in venv) throw new NoLocalStackError(venv.missing);
  const port = options.port ?? (await freePort());
  const directory = await mkdtemp(join(tmpdir(), "deltaloop-localstack-"));
  const logFile = options.logFile ?? join(directory, "localstack.log");
  const guard = startReaper({
    name: "localstack-guard",
    script: GUARD,
    parameters: [directory],
    onGone: () => say("the guard process exited; LocalStack keeps running if this process is killed"),
  });
  const log = await open(logFile, "a");
  const child = spawn(venv.python, ["-m", "localstack.runtime.main"], {
    cwd: directory,
    env: environment({ directory, port, debug: options.debug === true }),
    stdio: ["ignore", log.fd, log.fd],
    // Creates a process group (LO3), which Ctrl-C in the terminal does not reach.
    detached: true,
  });
  const ended = endOf(child);
  await log.close();
  const pid = child.pid;
  if (pid !== undefined) guard.tell(String(pid));
  const endpoint = `http://${HOST}:${port}`;

  async function stop(): Promise<void> {
    if (pid !== undefined) {
      // LocalStack has no state to save, and SIGTERM takes ten seconds.
      killGroup(pid);
      await ended;
    }
    await guard.dismiss();
    await rm(directory, { recursive: true, force: true, maxRetries: 5 });
  }

  try {
    const startedAt = performance.now();
    await ready(endpoint, ended);
    say(`ready at ${endpoint} after ${((performance.now() - startedAt) / 1000).toFixed(1)} s, pid ${pid}, log ${logFile}`);
    return { endpoint, pid: pid ?? 0, logFile, stop };
  } catch (error) {
    const lines = (await readFile(logFile, "utf8").catch(() => "")).trimEnd().split("\n").slice(-LOG_LINES_SHOWN);
    await stop();
    throw new Error(`LocalStack did not start: ${messageOf(error)}\n${lines.join("\n")}`, {
      cause: error,
    });
  }
}

function environment({
  directory,
  port,
  debug,
}: {
  readonly directory: string;
  readonly port: number;
  readonly debug: boolean;
}): NodeJS.ProcessEnv {
  return {
    PATH: process.env["PATH"],
    HOME: directory,
    TMPDIR: directory,
    XDG_CACHE_HOME: join(directory, "cache"),
    PYTHONDONTWRITEBYTECODE: "1",
    PYTHONPATH: EXECUTOR,
    // Otherwise LocalStack assumes in any container that it runs in its own image, and writes to /etc and /var/lib.
    OVERRIDE_IN_DOCKER: "0",
    FILESYSTEM_ROOT: join(directory, "root"),
    LOCALSTACK_VOLUME_DIR: join(directory, "volume"),
    GATEWAY_LISTEN: `[::ffff:${HOST}]:${port}`,
    DNS_ADDRESS: "0",
    // Makes queue URLs contain this address instead of localhost.localstack.cloud.
    LOCALSTACK_HOST: `${HOST}:${port}`,
    SQS_ENDPOINT_STRATEGY: "path",
    DISABLE_EVENTS: "1",
    SKIP_SSL_CERT_DOWNLOAD: "1",
    SKIP_INFRA_DOWNLOADS: "1",
    // Makes unsupported resources errors; stage local has none.
    CFN_IGNORE_UNSUPPORTED_RESOURCE_TYPES: "0",
    DEBUG: debug ? "1" : "0",
    LAMBDA_RUNTIME_EXECUTOR: "deltaloop-node",
    DELTALOOP_LOCAL_NODE: process.execPath,
    // By default, event source mappings back off to 10 s between polls of an empty queue.
    LAMBDA_EVENT_SOURCE_MAPPING_POLL_INTERVAL_SEC: "0.02",
    LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_EMPTY_POLL_SEC: "0.2",
    LAMBDA_EVENT_SOURCE_MAPPING_MAX_BACKOFF_ON_ERROR_SEC: "2",
  };
}

async function ready(endpoint: string, ended: Promise<string>): Promise<void> {
  let how: string | undefined;
  void ended.then((end) => (how = end));
  const giveUpAt = performance.now() + START_MS_MAX;
  while (how === undefined) {
    const healthy = await fetch(`${endpoint}/_localstack/health`, { signal: AbortSignal.timeout(START_MS_MAX) }).then(
      async (answer) => answer.ok && (await answer.text()) !== "",
      () => false,
    );
    if (healthy) return;
    if (performance.now() > giveUpAt) throw new Error(`no response within ${START_MS_MAX / 1000} s`);
    await sleep(POLL_MS);
  }
  throw new Error(`the process exited with ${how}`);
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // the process group has already ended
  }
}

/** Kills the last process group that was reported and removes the folder (LO3). */
const GUARD =
  'trap "" INT TERM HUP; while read -r line; do pid=$line; done; [ -z "$pid" ] || kill -KILL "-$pid"; sleep 0.2; rm -rf -- "$1"';

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, HOST, resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === "object" && address !== null ? address.port : 0;
}

function say(line: string): void {
  process.stderr.write(`localstack: ${line}\n`);
}
