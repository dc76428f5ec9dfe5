/** One command between a client's streams and Docker. Source: remotecommand exec.go ServeExec, v4WriteStatusFunc. */
import { once } from "node:events";
import type { Duplex } from "node:stream";

import type Docker from "dockerode";

import { CriError } from "../../../ports/cri-error.ts";
import type { ExecRequest } from "../../../ports/cri-types.ts";
import { asked } from "../connection.ts";
import { demux } from "../demux.ts";
import { exitCodeOf } from "../exec.ts";
import type { SpdyStream } from "./spdy.ts";

type Streams = ReadonlyMap<string, SpdyStream>;

/** Whatever becomes of it is said on the stream `error`. @throws {Error} when the client is gone */
export async function runExec(docker: Docker, request: ExecRequest, streams: Streams, client: Duplex): Promise<void> {
  const status = await run(docker, request, streams, client).then(exited, failed);
  await streams.get("error")?.write(Buffer.from(JSON.stringify(status)));
  for (const name of ["stdout", "stderr", "error"]) await streams.get(name)?.end();
}

async function run(docker: Docker, request: ExecRequest, streams: Streams, client: Duplex): Promise<number> {
  const { containerId, cmd, stdin, stdout, stderr, tty } = request;
  const options = { Cmd: [...cmd], AttachStdin: stdin, AttachStdout: stdout, AttachStderr: stderr, Tty: tty };
  const exec = await asked((abortSignal) => docker.getContainer(containerId).exec({ ...options, abortSignal }));
  const command = await asked(() => exec.start({ hijack: true, stdin, Tty: tty }));
  const gone = (): void => void command.destroy();
  client.once("close", gone);
  command.on("error", () => undefined); // the loop below is told, too
  const [input, resize] = [streams.get("stdin"), streams.get("resize")];
  if (stdin && input !== undefined) void feed(input, command).catch(() => command.destroy());
  if (tty && resize !== undefined) void follow(resize, exec).catch(() => undefined); // the size is a courtesy
  try {
    for await (const { stream, data } of demux(command, tty)) await streams.get(stream)?.write(data);
  } finally {
    client.off("close", gone);
    command.destroy();
  }
  return await exitCodeOf(exec);
}

/** At the command's pace; its end is the command's end of input. */
async function feed(from: SpdyStream, to: Duplex): Promise<void> {
  for await (const chunk of from.input as AsyncIterable<Buffer>) {
    if (!to.writable) return;
    if (!to.write(chunk)) await Promise.race([once(to, "drain"), once(to, "close")]);
  }
  to.end();
}

/** The client says each new size of its terminal, as JSON. */
async function follow(from: SpdyStream, exec: Docker.Exec): Promise<void> {
  for await (const chunk of from.input as AsyncIterable<Buffer>) {
    const last = chunk.toString("utf8").trim().split("\n").at(-1) ?? "";
    const { Width, Height } = JSON.parse(last) as { readonly Width: number; readonly Height: number }; // remotecommand TerminalSize
    await exec.resize({ w: Width, h: Height });
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
