/**
 * Forwards a client's connections to ports of a pod, including ports on the pod's loopback interface.
 *
 * Each connection runs a relay process in the sandbox's network namespace, because Node cannot change its own namespace. dockershim used
 * socat, which a machine may lack.
 *
 * Source: cri-streaming pkg/streaming/portforward/httpstream.go; pkg/kubelet/dockershim docker_streaming.go portForward (Kubernetes v1.23).
 */
import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { pipeline } from "node:stream/promises";

import { serveSpdy, STREAMS_MAX } from "./spdy.ts";
import type { SpdyStream } from "./spdy.ts";
import type { Session } from "./streaming-server.ts";

const PROTOCOL = "portforward.k8s.io";
const PORT = /^[1-9]\d{0,4}$/u;
const STDERR_CHARS_MAX = 1_000;

/** The relay program. Its argument is the port. It ends when both sides have ended, and writes connection errors to stderr. */
const RELAY = `
const { connect } = require("node:net");
const [port] = process.argv.slice(1).map(Number);
const dial = (host, otherwise) => {
  const socket = connect({ port, host, allowHalfOpen: true });
  socket.once("connect", () => {
    socket.off("error", otherwise).on("error", fail).once("close", () => process.stdin.destroy());
    process.stdin.pipe(socket);
    socket.pipe(process.stdout);
  }).once("error", otherwise);
};
const fail = (error) => {
  process.stderr.write(error.message);
  process.exitCode = 1;
  process.stdin.destroy();
};
dial("127.0.0.1", (error) => dial("::1", () => fail(error)));
`;

/** @param network the file of the sandbox's network namespace */
export function portForwardSession(podSandboxId: string, network: string): Session {
  return {
    kind: "portforward",
    protocol: PROTOCOL,
    async serve(socket) {
      const running = new Set<ChildProcess>();
      const waiting = new Map<string, SpdyStream>();
      await serveSpdy(socket, (stream) => {
        const id = stream.headers.get("requestid") ?? "";
        const other = waiting.get(id);
        if (other === undefined) {
          if (waiting.size >= STREAMS_MAX) return void socket.destroy(); // bounds the streams that wait for the other stream of their pair
          return void waiting.set(id, stream);
        }
        waiting.delete(id);
        const [data, error] = stream.headers.get("streamtype") === "error" ? [other, stream] : [stream, other];
        void connection(data, error, { podSandboxId, network, running }).catch(() => socket.destroy());
      }).finally(() => {
        for (const relay of running) relay.kill("SIGKILL");
      });
    },
  };
}

interface Target {
  readonly podSandboxId: string;
  readonly network: string;
  readonly running: Set<ChildProcess>;
}

/** @throws {Error} when the client disconnects */
async function connection(data: SpdyStream, error: SpdyStream, { podSandboxId, network, running }: Target): Promise<void> {
  const port = data.headers.get("port") ?? "";
  const why = PORT.test(port) ? await relayed(data, network, port, running) : "invalid port";
  if (why !== undefined) await error.write(Buffer.from(`error forwarding port ${port} to pod ${podSandboxId}, uid : ${why}`));
  await data.end();
  await error.end();
}

/** Relays one connection. @returns its error, if any */
async function relayed(data: SpdyStream, network: string, port: string, running: Set<ChildProcess>): Promise<string | undefined> {
  const relay = spawn("nsenter", [`--net=${network}`, "--", process.execPath, "-e", RELAY, port], {
    env: {},
    stdio: ["pipe", "pipe", "pipe"],
  });
  running.add(relay);
  let stderr = "";
  relay.stderr.setEncoding("utf8").on("data", (text: string) => (stderr = (stderr + text).slice(0, STDERR_CHARS_MAX)));
  const ended = new Promise<string | undefined>((resolve) => {
    relay.once("error", (failure) => resolve(failure.message));
    relay.once("close", (code) => resolve(code === 0 ? undefined : stderr || `relay exited with code ${code}`));
  });
  pipeline(data.input, relay.stdin).catch(() => relay.stdin.destroy()); // when either side ends, this direction ends too
  try {
    for await (const chunk of relay.stdout as AsyncIterable<Buffer>) await data.write(chunk);
    return await ended;
  } finally {
    running.delete(relay);
    relay.kill("SIGKILL");
  }
}
