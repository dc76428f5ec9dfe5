/**
 * Connects the streams of a client to a command, or to the main process of a container.
 *
 * Source: cri-streaming remotecommand httpstream.go, exec.go ServeExec, attach.go ServeAttach, v4WriteStatusFunc; pkg/kubelet/dockershim
 * docker_streaming_others.go ExecInContainer, docker_streaming.go attachContainer (Kubernetes v1.23).
 */
import { once } from "node:events";
import type { Duplex } from "node:stream";

import type Docker from "dockerode";

import { CriError } from "@deltaloop/node-agent/ports";
import type { AttachRequest, ExecRequest } from "@deltaloop/node-agent/ports";
import { callDocker } from "./connection.ts";
import { demux } from "./demux.ts";
import { exitCodeOf } from "./exec.ts";
import { serveSpdy } from "./streaming/spdy.ts";
import type { SpdyStream } from "./streaming/spdy.ts";
import type { Session } from "./streaming/streaming-server.ts";

const PROTOCOL = "v4.channel.k8s.io";
/** Source: remotecommand DefaultStreamCreationTimeout. */
const STREAMS_MS_MAX = 30_000;

type Streams = ReadonlyMap<string, SpdyStream>;
type Wanted = Pick<AttachRequest, "stdin" | "stdout" | "stderr" | "tty">;

/** A process in a container, with Docker's hijacked stream. */
interface Process {
  readonly stream: Duplex;
  resize(size: { readonly w: number; readonly h: number }): Promise<unknown>;
  /** Called after the stream has ended. */
  exitCode(): Promise<number>;
}

export function execSession(docker: Docker, request: ExecRequest): Session {
  return session("exec", request, async () => {
    const { containerId, cmd, stdin, stdout, stderr, tty } = request;
    const options = { Cmd: [...cmd], AttachStdin: stdin, AttachStdout: stdout, AttachStderr: stderr, Tty: tty };
    const exec = await callDocker((abortSignal) => docker.getContainer(containerId).exec({ ...options, abortSignal }));
    const stream = await callDocker(() => exec.start({ hijack: true, stdin, Tty: tty }));
    return { stream, resize: (size) => exec.resize(size), exitCode: () => exitCodeOf(exec) };
  });
}

/** Reports no exit code, because the pod's status has it. */
export function attachSession(docker: Docker, request: AttachRequest): Session {
  return session("attach", request, async () => {
    const { containerId, stdin, stdout, stderr } = request;
    const container = docker.getContainer(containerId);
    const stream = (await callDocker(() => container.attach({ stream: true, hijack: true, stdin, stdout, stderr }))) as Duplex; // the returned stream is the hijacked connection
    return { stream, resize: (size) => container.resize(size), exitCode: async () => 0 };
  });
}

/** Starts the process after the client has opened all requested streams. */
function session(kind: "exec" | "attach", request: Wanted, start: () => Promise<Process>): Session {
  const wanted = ["error", ...(["stdin", "stdout", "stderr"] as const).filter((name) => request[name]), ...(request.tty ? ["resize"] : [])];
  return {
    kind,
    protocol: PROTOCOL,
    async serve(socket) {
      const streams = new Map<string, SpdyStream>();
      const late = setTimeout(() => socket.destroy(), STREAMS_MS_MAX);
      let isRunning = false;
      await serveSpdy(socket, (stream) => {
        const name = stream.headers.get("streamtype") ?? "";
        if (isRunning || !wanted.includes(name)) return; // ignores streams that were not requested
        streams.set(name, stream);
        if (!wanted.every((one) => streams.has(one))) return;
        isRunning = true;
        clearTimeout(late);
        runAndReport(start, request, streams, socket).then(
          () => socket.end(),
          () => socket.destroy(), // an error means that the client disconnected
        );
      }).finally(() => clearTimeout(late));
    },
  };
}

/** Reports the result on the stream `error`. @throws {Error} when the client disconnects */
async function runAndReport(start: () => Promise<Process>, wanted: Wanted, streams: Streams, client: Duplex): Promise<void> {
  const status = await run(start, wanted, streams, client).then(exited, failed);
  await streams.get("error")?.write(Buffer.from(JSON.stringify(status)));
  for (const name of ["stdout", "stderr", "error"]) await streams.get(name)?.end();
}

async function run(start: () => Promise<Process>, { stdin, tty }: Wanted, streams: Streams, client: Duplex): Promise<number> {
  const process = await start();
  const { stream: command } = process;
  const gone = (): void => void command.destroy();
  client.once("close", gone);
  if (client.destroyed) gone();
  command.on("error", () => undefined); // the loop below receives the error
  const [input, resize] = [streams.get("stdin"), streams.get("resize")];
  if (stdin && input !== undefined) void feed(input, command).catch(() => command.destroy());
  if (tty && resize !== undefined) void follow(resize, process).catch(() => undefined); // a failed resize is harmless
  try {
    for await (const { stream, data } of demux(command, tty)) await streams.get(stream)?.write(data);
  } finally {
    client.off("close", gone);
    command.destroy();
  }
  return await process.exitCode();
}

/** Copies data to the command with backpressure; the end of `from` ends the command's input. */
async function feed(from: SpdyStream, to: Duplex): Promise<void> {
  for await (const chunk of from.input as AsyncIterable<Buffer>) {
    if (!to.writable) return;
    if (!to.write(chunk)) await Promise.race([once(to, "drain"), once(to, "close")]);
  }
  to.end();
}

/** Applies each new terminal size, which the client sends as JSON. */
async function follow(from: SpdyStream, process: Process): Promise<void> {
  for await (const chunk of from.input as AsyncIterable<Buffer>) {
    const last = chunk.toString("utf8").trim().split("\n").at(-1) ?? "";
    const { Width, Height } = JSON.parse(last) as { readonly Width: number; readonly Height: number }; // the client sends a TerminalSize of remotecommand
    await process.resize({ w: Width, h: Height });
  }
}

function exited(code: number): object {
  if (code === 0) return { metadata: {}, status: "Success" };
  return {
    metadata: {},
    status: "Failure",
    message: `command terminated with non-zero exit code: ${code}`,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(code) }] },
  };
}

function failed(error: unknown): object {
  const message = `error executing command in container: ${error instanceof CriError ? error.message : String(error)}`;
  return { metadata: {}, status: "Failure", message, reason: "InternalError", code: 500 };
}
