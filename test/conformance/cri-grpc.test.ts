/** The CRI adapter against a server that misbehaves in ways that containerd does not. */
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http2";
import type { ServerHttp2Stream } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Server, ServerCredentials } from "@grpc/grpc-js";
import type { handleUnaryCall, sendUnaryData, ServerUnaryCall } from "@grpc/grpc-js";
import { message as readerOf, method } from "../../shared/node-agent/cri/load.ts";
import { afterEach, describe, expect, it } from "vitest";

import { connect } from "../../shared/node-agent/cri/connection.ts";
import { createCri } from "../../shared/node-agent/cri/cri.ts";
import type { CriAdapter } from "../../shared/node-agent/cri/cri.ts";
import { textOfBytes } from "../../shared/base/byte-text.ts";
import { isNotFound, isUnavailable } from "../../shared/node-agent/ports/cri-error.ts";

type Call = ServerUnaryCall<Buffer, Buffer>;
/** Receives and responds with raw bytes, so that the test determines exactly what is sent. */
type Answer = (call: Call, answer: sendUnaryData<Buffer>) => void;

/** Decodes a request as a runtime does. */
function requestOf(name: string, bytes: Buffer): { readonly timeout?: unknown } {
  return readerOf(`${name}Request`)(bytes);
}

const NOTHING: Answer = (_call, answer) => answer(null, Buffer.alloc(0));
const sandboxConfig = { metadata: { name: "p", namespace: "n", uid: "u", attempt: 0 } };

describe("cri over gRPC", () => {
  const closing: (() => Promise<void> | void)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  });

  /** Starts a server for the given verbs (`Service/Method`), with an adapter on its socket. */
  const open = async (answers: Readonly<Record<string, Answer>>): Promise<{ cri: CriAdapter; socket: string; server: Server }> => {
    const directory = await mkdtemp(join(tmpdir(), "dl-cri-"));
    closing.push(() => rm(directory, { recursive: true, force: true }));
    const socket = join(directory, "s");
    const server = await serve(socket, answers);
    const cri = createCri(`unix://${socket}`);
    closing.push(
      () => server.forceShutdown(),
      () => cri.close(),
    );
    return { cri, socket, server };
  };

  it("reads unknown enum values as the default state, and skips unknown fields", async () => {
    const [state, unknownField] = [
      [0x18, 9],
      [0xf8, 0x3f, 1],
    ];
    const { cri } = await open({
      "RuntimeService/ContainerStatus": (_call, answer) => answer(null, message(1, [0x0a, 1, 0x78, ...state, ...unknownField])),
      "RuntimeService/ListContainers": (_call, answer) => answer(null, message(1, [0x0a, 1, 0x79, 0x30, 9])),
      "RuntimeService/ListPodSandbox": (_call, answer) => answer(null, message(1, [0x0a, 1, 0x7a, ...state])),
      "RuntimeService/PodSandboxStatus": (_call, answer) => answer(null, message(1, [0x0a, 1, 0x7a, 0x32, 6, 0x0a, 4, 0x12, 2, 0x08, 9])),
    });
    expect(await cri.containerStatus("x")).toMatchObject({ id: "x", state: "CONTAINER_UNKNOWN", labels: {}, exitCode: 0 });
    expect(await cri.listContainers()).toMatchObject([{ id: "y", state: "CONTAINER_UNKNOWN" }]);
    expect(await cri.listPodSandbox()).toMatchObject([{ id: "z", state: "SANDBOX_NOTREADY" }]);
    expect((await cri.podSandboxStatus("z")).namespaceOptions).toEqual({ pid: "POD", ipc: "POD" });
  });

  it.each([10 ** 10, 10 ** 18, 2 ** 63])(
    "[node-agent 502] limits a grace period of %d s to the longest that a runtime can represent",
    async (grace) => {
      const asked: unknown[] = [];
      const note =
        (name: string): Answer =>
        (call, answer) => {
          const { timeout } = requestOf(name, call.request);
          asked.push([name, timeout]);
          answer(null, Buffer.alloc(0));
        };
      const { cri } = await open({ "RuntimeService/StopContainer": note("StopContainer"), "RuntimeService/ExecSync": note("ExecSync") });
      await cri.stopContainer("x", grace);
      await cri.execSync("x", ["y"], grace);
      expect(asked).toEqual([
        ["StopContainer", 9_223_372_036],
        ["ExecSync", 9_223_372_036],
      ]);
    },
  );

  it("carries bytes that are not UTF-8 in environment variables and registry credentials", async () => {
    const bytes = Buffer.from([0x00, 0xff, 0xc3, 0xa9, 0xed, 0xa0, 0x80, 0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82]);
    const asked: object[] = [];
    const note =
      (name: string): Answer =>
      (call, answer) => {
        asked.push(requestOf(name, call.request));
        answer(null, Buffer.alloc(0));
      };
    const { cri } = await open({ "RuntimeService/CreateContainer": note("CreateContainer"), "ImageService/PullImage": note("PullImage") });
    const value = textOfBytes(bytes);
    const config = { metadata: { name: "c", attempt: 0 }, image: { image: "i" }, envs: [{ key: "KEY", value }], logPath: "l" };
    await cri.createContainer("p", config, sandboxConfig);
    await cri.pullImage({ image: "i" }, { auth: { username: "me", password: value, serverAddress: "r.test" } });
    await cri.pullImage({ image: "i" }, { auth: { username: "me", password: "é" } });
    const auth = Buffer.concat([Buffer.from("me:"), bytes]).toString("base64");
    expect(asked).toMatchObject([
      { config: { envs: [{ key: "KEY", value: bytes }] } },
      { auth: { username: "", password: "", auth, serverAddress: "r.test" } },
      { auth: { username: "me", password: "é", auth: "" } },
    ]);
  });

  it("CR1 sets a timeout for every call except pulls and commands without a timeout", async () => {
    const seconds: number[] = [];
    const note: Answer = (call, answer) => {
      const deadline = call.getDeadline();
      const ms = (deadline instanceof Date ? deadline.getTime() : deadline) - Date.now();
      seconds.push(Math.ceil(ms / 10_000) * 10); // rounded up, so the time since the call was sent does not matter
      NOTHING(call, answer);
    };
    const runtime = ["Version", "RunPodSandbox", "StopContainer", "ExecSync"].map((verb) => [`RuntimeService/${verb}`, note] as const);
    const { cri } = await open({ ...Object.fromEntries(runtime), "ImageService/PullImage": note });
    await cri.version();
    await cri.runPodSandbox(sandboxConfig);
    await cri.stopContainer("c", 30);
    await cri.execSync("c", ["true"], 10);
    await cri.execSync("c", ["true"], 0);
    await cri.pullImage({ image: "i" });
    expect(seconds).toEqual([120, 240, 150, 130, Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY]);
  });

  it("CR1 CR2 reports the gRPC status, and treats NotFound as success for stop and remove", async () => {
    const refuse =
      (code: number): Answer =>
      (_call, answer) =>
        answer({ code, details: `code ${code}` });
    const { cri } = await open({
      "RuntimeService/Version": refuse(2),
      "RuntimeService/Status": refuse(12),
      "RuntimeService/StartContainer": refuse(5),
      "RuntimeService/StopContainer": refuse(5),
      "RuntimeService/RemovePodSandbox": refuse(5),
      "RuntimeService/RemoveContainer": refuse(13),
    });
    await expect(cri.version()).rejects.toMatchObject({ name: "CriError", code: "Unknown", message: "code 2" });
    await expect(cri.status()).rejects.toMatchObject({ code: "Unimplemented" });
    expect(await cri.startContainer("c").catch(isNotFound)).toBe(true);
    await cri.stopContainer("c", 0);
    await cri.removePodSandbox("p");
    await expect(cri.removeContainer("c")).rejects.toMatchObject({ code: "Internal" });
    await expect(cri.podSandboxStatus("p")).rejects.toMatchObject({ code: "Unimplemented" });
  });

  it("CR1 cancels a pull when its AbortSignal aborts", async () => {
    const { cri } = await open({ "ImageService/PullImage": () => {} });
    const abort = new AbortController();
    const pull = cri.pullImage({ image: "i" }, { signal: abort.signal });
    setImmediate(() => abort.abort());
    await expect(pull).rejects.toMatchObject({ code: "Canceled" });
    await expect(cri.pullImage({ image: "i" }, { signal: abort.signal })).rejects.toMatchObject({ code: "Canceled" });
  });

  it("[node-agent 485] CR10 cancels the ExecSync call to the runtime when the AbortSignal of a command aborts", async () => {
    const told = Promise.withResolvers<void>();
    const { cri } = await open({ "RuntimeService/ExecSync": (call) => void call.on("cancelled", () => told.resolve()) });
    const abort = new AbortController();
    const command = cri.execSync("c", ["sleep"], 2_147_483_647, { signal: abort.signal });
    setTimeout(() => abort.abort(), 50);
    await expect(command).rejects.toMatchObject({ code: "Canceled" });
    await told.promise;
  });

  it("accepts responses of many megabytes", async () => {
    const text = Buffer.alloc(8_000_000, "a");
    const length = Buffer.from([
      0x12,
      0x80 | (text.length & 0x7f),
      0x80 | ((text.length >> 7) & 0x7f),
      0x80 | ((text.length >> 14) & 0x7f),
      text.length >> 21,
    ]);
    const { cri } = await open({ "RuntimeService/Version": (_call, answer) => answer(null, Buffer.concat([length, text])) });
    expect((await cri.version()).runtimeName).toHaveLength(8_000_000);
  });

  it("reconnects soon after a server restart", async () => {
    const answers = { "RuntimeService/Version": NOTHING };
    const { cri, socket, server } = await open(answers);
    await cri.version();
    server.forceShutdown();
    await rm(socket, { force: true });
    expect(await cri.version().catch(isUnavailable)).toBe(true);
    const next = await serve(socket, answers);
    closing.push(() => next.forceShutdown());
    const giveUpAt = performance.now() + 5_000;
    while ((await cri.version().catch(() => undefined)) === undefined) {
      if (performance.now() > giveUpAt) throw new Error("still unavailable");
      await sleep(20);
    }
  });

  it("returns the message of an error unchanged", async () => {
    const { cri } = await open({ "RuntimeService/Version": (_call, answer) => answer({ code: 3, details: "größer als 100 %" }) });
    await expect(cri.version()).rejects.toMatchObject({ code: "InvalidArgument", message: "größer als 100 %" });
  });

  it("CR1 fails a call at its deadline, and serves later calls", async () => {
    let times = 0;
    const hangs: Answer = (call, answer) => void (times++ > 0 && NOTHING(call, answer));
    const { socket } = await open({ "RuntimeService/Version": hangs });
    const connection = connect(socket);
    closing.push(() => connection.close());
    const version = method("RuntimeService", "Version");
    await expect(connection.call(version, {}, { timeoutMs: 50 })).rejects.toMatchObject({ code: "DeadlineExceeded" });
    expect(await connection.call(version, {}, { timeoutMs: 5_000 })).toMatchObject({ runtimeName: "" });
  });

  /** Invalid behaviour of a gRPC server. */
  it.each<{ readonly name: string; readonly code: string; readonly act: (stream: ServerHttp2Stream) => void }>([
    { name: "compresses its response", code: "Internal", act: answering([1, 0, 0, 0, 0]) },
    { name: "announces more bytes than it sends", code: "Internal", act: answering([0, 0, 0, 0, 2, 0x0a]) },
    { name: "sends an undecodable message", code: "Internal", act: answering([0, 0, 0, 0, 1, 0x0f]) },
    { name: "sends nothing, with status OK", code: "Internal", act: answering([]) },
    { name: "sends more than the limit", code: "ResourceExhausted", act: answering(Buffer.alloc(17 * 1024 * 1024)) },
    { name: "sends no status", code: "Internal", act: (stream) => (stream.respond(), stream.end()) },
    { name: "is not a gRPC server", code: "Unknown", act: (stream) => (stream.respond({ ":status": 404 }), stream.end()) },
    {
      name: "returns an unknown status code",
      code: "Unknown",
      act: (stream) => stream.respond({ "grpc-status": "77" }, { endStream: true }),
    },
    { name: "accepts no more calls", code: "Unavailable", act: (stream) => stream.close(7) },
    { name: "cancels the call", code: "Canceled", act: (stream) => stream.close(8) },
    { name: "breaks the connection", code: "Unavailable", act: (stream) => stream.session?.destroy() },
  ])("reports the runtime as the cause when it $name", async ({ code, act }) => {
    const directory = await mkdtemp(join(tmpdir(), "dl-cri-"));
    closing.push(() => rm(directory, { recursive: true, force: true }));
    const server = createServer().on("stream", (stream) => {
      stream.on("error", () => undefined);
      act(stream);
    });
    server.on("session", (session) => session.on("error", () => undefined));
    await new Promise<void>((resolve) => void server.listen(join(directory, "s"), resolve));
    const cri = createCri(`unix://${join(directory, "s")}`);
    closing.push(
      () => void server.close(),
      () => cri.close(),
    );
    await expect(cri.version()).rejects.toMatchObject({ name: "CriError", code });
    await expect(cri.listContainers()).rejects.toMatchObject({ name: "CriError", code });
  });

  it("connects only to Unix sockets", () => {
    expect(() => createCri("tcp://127.0.0.1:1")).toThrow(TypeError);
    expect(() => createCri("unix://relative.sock")).toThrow("unix:///path");
  });
});

/** Responds with these bytes and status OK. */
function answering(bytes: readonly number[] | Buffer): (stream: ServerHttp2Stream) => void {
  return (stream) => {
    stream.respond({}, { waitForTrailers: true });
    stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
    stream.end(Buffer.from(bytes));
  };
}

async function serve(socket: string, answers: Readonly<Record<string, Answer>>): Promise<Server> {
  const server = new Server({ "grpc.max_send_message_length": -1 });
  const asIs = (bytes: Buffer): Buffer => bytes;
  for (const [name, answer] of Object.entries(answers)) {
    const handler: handleUnaryCall<Buffer, Buffer> = answer;
    server.register(`/runtime.v1.${name}`, handler, asIs, asIs, "unary");
  }
  await new Promise<void>((resolve, reject) => {
    server.bindAsync(`unix:${socket}`, ServerCredentials.createInsecure(), (error) => (error ? reject(error) : resolve()));
  });
  return server;
}

/** Returns an embedded message of less than 128 bytes in field `number`. */
function message(number: number, bytes: readonly number[]): Buffer {
  return Buffer.from([(number << 3) | 2, bytes.length, ...bytes]);
}
