/** Runs commands in a running container. Source: pkg/kubelet/dockershim exec.go NativeExecHandler (Kubernetes v1.23). */
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { ExecSyncOptions, ExecSyncResponse } from "@deltaloop/node-agent/ports";
import { callDocker } from "./connection.ts";
import { demux } from "./demux.ts";

/** Maximum output per stream; further output is discarded. Source: cri ExecSync. */
const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;
/** Polling interval for the exit code, which Docker may report some time after the last output. */
const EXIT_POLL_MS = 20;
const EXIT_MS_MAX = 10_000;
/** Maximum delay of a Node.js timer; a longer timer fires immediately. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/**
 * Docker cannot stop an exec, so a timed-out or aborted command is killed by its process id in the shared PID namespace.
 * Differs from upstream: dockershim leaves the command running.
 */
export async function execSync(
  docker: Docker,
  containerId: string,
  cmd: readonly string[],
  { timeoutSeconds, signal }: ExecSyncOptions & { readonly timeoutSeconds: number },
): Promise<ExecSyncResponse> {
  const options = { Cmd: [...cmd], AttachStdout: true, AttachStderr: true };
  const exec = await callDocker((abortSignal) => docker.getContainer(containerId).exec({ ...options, abortSignal }));
  const stream = await callDocker(() => exec.start({ hijack: true, stdin: false }));
  const output = { stdout: collector(), stderr: collector() };
  let ended: CriError | undefined;
  const end = async (why: CriError): Promise<void> => {
    ended ??= why;
    await kill(exec, containerId).catch(() => undefined); // the kill fails if the daemon is unavailable
    stream.destroy();
  };
  const late = new CriError("DeadlineExceeded", `timeout ${timeoutSeconds}s exceeded: context deadline exceeded`);
  const timer = timeoutSeconds === 0 ? undefined : setTimeout(() => void end(late), Math.min(timeoutSeconds * 1_000, TIMER_MS_MAX));
  const onAbort = (): void => void end(new CriError("Canceled", "aborted by the caller"));
  signal?.addEventListener("abort", onAbort, { once: true });
  if (signal?.aborted) onAbort();
  try {
    for await (const piece of demux(stream)) output[piece.stream].add(piece.data);
  } catch (error) {
    if (ended === undefined)
      throw new CriError("Unavailable", `the connection broke during the command: ${String(error)}`, { cause: error });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", onAbort);
    stream.destroy();
  }
  if (ended !== undefined) throw ended;
  return { stdout: output.stdout.text(), stderr: output.stderr.text(), exitCode: await exitCodeOf(exec) };
}

/** @throws {CriError} if Docker does not report the exit code in time */
export async function exitCodeOf(exec: Docker.Exec): Promise<number> {
  for (const giveUpAt = performance.now() + EXIT_MS_MAX; performance.now() < giveUpAt; await sleep(EXIT_POLL_MS)) {
    const { Running, ExitCode } = await callDocker((abortSignal) => exec.inspect({ abortSignal }));
    if (!Running && ExitCode !== null) return ExitCode;
  }
  throw new CriError("Internal", "Docker did not report the exit code of the command");
}

/** Kills the process only if the pid still belongs to the container, because pids are reused. */
async function kill(exec: Docker.Exec, containerId: string): Promise<void> {
  const { Pid: pid, Running } = await callDocker((abortSignal) => exec.inspect({ abortSignal }));
  if (!Running || pid === 0) return;
  const cgroups = await readFile(`/proc/${pid}/cgroup`, "utf8").catch(() => "");
  if (cgroups.includes(containerId)) process.kill(pid, "SIGKILL");
}

function collector(): { add(data: Buffer): void; text(): string } {
  const chunks: Buffer[] = [];
  let bytes = 0;
  return {
    add(data) {
      const kept = data.subarray(0, OUTPUT_BYTES_MAX - bytes);
      bytes += kept.length;
      if (kept.length > 0) chunks.push(Buffer.from(kept));
    },
    text: () => Buffer.concat(chunks).toString("utf8"),
  };
}
