/** Our own calls of SQS, against a scripted server. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { AwsError } from "../../../../shared/store/aws/aws-json.ts";
import { createAwsSigner } from "../../../../shared/store/aws/aws-signature.ts";
import { sqsCalls } from "../../../../shared/store/sqs/calls.ts";

const SQS = { name: "sqs", target: "AmazonSQS", version: "1.0" } as const;

type Answer = (response: ServerResponse) => void;

const says =
  (status: number, body: string): Answer =>
  (response) =>
    void response.writeHead(status, { "content-type": "application/x-amz-json-1.0" }).end(body);
const done = says(200, '{"Successful":[]}');
const hangsUp: Answer = (response) => void response.socket?.destroy();
const hangsUpHalfway: Answer = (response) => {
  response.writeHead(200, { "content-length": "100" }).write("{");
  setTimeout(() => response.socket?.destroy(), 5);
};
const silent: Answer = () => undefined;

const ends: (() => unknown)[] = [];
afterEach(async () => {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  for (const end of ends.splice(0)) await end();
});

beforeEach(() => void vi.spyOn(Math, "random").mockReturnValue(0)); // no delay between two attempts

/** A server that responds to each request with the next of `answers`, and records requests. */
async function scripted(...answers: readonly Answer[]) {
  const asked: { readonly head: IncomingMessage; readonly body: string; readonly from: number | undefined }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (part: string) => (body += part));
    request.on("end", () => {
      asked.push({ head: request, body, from: request.socket.remotePort });
      (answers[asked.length - 1] ?? done)(response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sqs = sqsCalls({ endpoint });
  ends.push(
    () => sqs.close(),
    () => void server.close(),
    () => server.closeAllConnections(),
  );
  const send = (options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {}) =>
    sqs.call("SendMessageBatch", { QueueUrl: "http://elsewhere.invalid/1/q", Entries: [{ Id: "0", MessageBody: "grüße 🙂" }] }, options);
  return { send, asked };
}

describe("QC1 a call", () => {
  it("a call is one signed POST to the endpoint over a kept-alive connection", async () => {
    const { send, asked } = await scripted(says(200, '{"Successful":[{"Id":"0"}],"Failed":[]}'));
    expect(await send()).toEqual({ Successful: [{ Id: "0" }], Failed: [] });
    await send();
    const [{ head, body, from } = expect.unreachable("nothing was asked"), again] = asked;
    expect([head.method, head.url]).toEqual(["POST", "/"]);
    expect(head.headers).toMatchObject({
      "content-type": "application/x-amz-json-1.0",
      "x-amz-target": "AmazonSQS.SendMessageBatch",
      authorization: expect.stringMatching(/^AWS4-HMAC-SHA256 Credential=test\/\d{8}\/us-east-1\/sqs\/aws4_request, /),
    });
    expect(JSON.parse(body)).toEqual({ QueueUrl: "http://elsewhere.invalid/1/q", Entries: [{ Id: "0", MessageBody: "grüße 🙂" }] });
    expect(again?.from).toBe(from);
  });

  it.each([
    { name: "a closed connection", answer: hangsUp },
    { name: "an incomplete response", answer: hangsUpHalfway },
    { name: "500", answer: says(500, "oops") },
    { name: "503", answer: says(503, '{"__type":"com.amazonaws.sqs#ServiceUnavailable"}') },
    { name: "429", answer: says(429, "") },
    { name: "throttling", answer: says(400, '{"__type":"com.amazonaws.sqs#RequestThrottled"}') },
    { name: "KMS throttling", answer: says(400, '{"__type":"com.amazonaws.sqs#KmsThrottled"}') },
  ])("a call is retried after $name, with three attempts in total", async ({ answer }) => {
    const once = await scripted(answer);
    expect([await once.send(), once.asked.length]).toEqual([{ Successful: [] }, 2]);
    const always = await scripted(answer, answer, answer, answer);
    await expect(always.send()).rejects.toThrow();
    expect(always.asked).toHaveLength(3);
  });

  it.each([
    {
      name: "no such queue",
      answer: says(400, '{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"sec-ret"}'),
      want: "QueueDoesNotExist",
    },
    { name: "a missing permission", answer: says(403, '{"__type":"AccessDeniedException"}'), want: "AccessDeniedException" },
    { name: "a response that is not JSON", answer: says(404, "<html>sec-ret</html>"), want: "AwsError" },
  ])("a call is not retried after a permanent error: $name (QC2)", async ({ answer, want }) => {
    const { send, asked } = await scripted(answer);
    const error: unknown = await send().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(AwsError);
    expect(String(error)).toMatch(new RegExp(`^${want}: SendMessageBatch: 40\\d$`));
    expect(asked).toHaveLength(1);
  });

  it("a call fails at its deadline after three attempts, with the reason", async () => {
    const { send, asked } = await scripted(silent, silent, silent);
    await expect(send({ timeoutMs: 30 })).rejects.toThrow("SendMessageBatch: no response within 30 ms");
    expect(asked).toHaveLength(3);
  });

  it("an aborted call ends with its signal's reason, before and during the call, without a retry", async () => {
    const { send, asked } = await scripted(silent);
    const ending = new AbortController();
    const reason = new Error("over");
    const sent = send({ signal: ending.signal }).catch((error: unknown) => error);
    setTimeout(() => ending.abort(reason), 30);
    expect(await Promise.race([sent, new Promise((resolve) => setTimeout(resolve, 1_000))])).toBe(reason);
    await expect(send({ signal: ending.signal })).rejects.toBe(reason);
    expect(asked).toHaveLength(1);
  });
});

describe("the signature", () => {
  const credentials = {
    accessKeyId: "AKIDEXAMPLE",
    secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    sessionToken: "a session token",
  };

  it("equals botocore's for the same request", async () => {
    vi.useFakeTimers({ now: Date.parse("2026-01-02T03:04:05Z") });
    const body = '{"QueueUrl":"https://sqs.eu-central-1.amazonaws.com/1/q","MaxNumberOfMessages":1,"WaitTimeSeconds":2,"ä":"🙂"}';
    const headers = await createAwsSigner(SQS, { credentials, region: "eu-central-1" })("127.0.0.1:4566", "ReceiveMessage", body);
    // botocore 1.40.40, SigV4Auth.add_auth, with the same headers.
    expect(headers).toMatchObject({
      "x-amz-date": "20260102T030405Z",
      "x-amz-security-token": "a session token",
      "x-amz-content-sha256": "0bafe388886a7d37226b80b5a4dfb805d04fb48f56002e46a505216a163219cf",
      authorization:
        "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260102/eu-central-1/sqs/aws4_request, SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date;x-amz-security-token;x-amz-target, Signature=aa1776c2950d13d7827a0bb7911cbecaeb837945f9a33dbdd20f68b98ff4e4af",
    });
  });

  it.each([
    { host: "sqs.eu-central-1.amazonaws.com", want: "eu-central-1" },
    { host: "sqs.us-gov-west-1.amazonaws.com", want: "us-gov-west-1" },
    { host: "vpce-0a1b-2c3d.sqs.ap-southeast-2.vpce.amazonaws.com", want: "ap-southeast-2" },
    { host: "queue.example.com", want: "eu-west-3" },
  ])("the signature uses the region in the host name, or else the region in the environment: $host", async ({ host, want }) => {
    vi.stubEnv("AWS_REGION", "eu-west-3");
    expect((await createAwsSigner(SQS, { credentials })(host, "SendMessageBatch", "{}"))["authorization"]).toContain(`/${want}/sqs/`);
  });

  it("the signature fails without a region, and the error contains the host", async () => {
    vi.stubEnv("AWS_REGION", undefined);
    vi.stubEnv("AWS_DEFAULT_REGION", undefined);
    await expect(createAwsSigner(SQS, { credentials })("queue.example.com", "SendMessageBatch", "{}")).rejects.toThrow(
      "the region of queue.example.com is not known: set AWS_REGION",
    );
  });

  it("the signature uses the environment's credentials by default", async () => {
    vi.stubEnv("AWS_ACCESS_KEY_ID", "AKIDENVIRONMENT");
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", "s");
    vi.stubEnv("AWS_SESSION_TOKEN", "t");
    const headers = await createAwsSigner(SQS, {})("sqs.eu-central-1.amazonaws.com", "SendMessageBatch", "{}");
    expect([headers["authorization"], headers["x-amz-security-token"]]).toEqual([expect.stringContaining("=AKIDENVIRONMENT/"), "t"]);
  });
});
