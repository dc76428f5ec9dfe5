/** Functions in another process, over a socket. */
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";

import type { Context, SQSEvent } from "aws-lambda";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { CONTROLLERS, tableOf } from "../../../shared/kube/objects/resources.ts";
import type { SqsHandler } from "../../../shared/controllers/lambda/sqs-handler.ts";
import type { FunctionHandlers } from "../../../shared/local/function-host.ts";
import { invocationContext, sqsEvent } from "../../../shared/local/invocation.ts";
import { remoteFunctions, serveFunctions, type RemoteFunctions, type ServedFunctions } from "../../../shared/local/remote-functions.ts";

const nothing: SqsHandler = () => Promise.resolve();

function eventOf(body: string): SQSEvent {
  return sqsEvent([{ messageId: "m", receipt: "r", body, receiveCount: 1, sentAtMs: 0 }], "arn:aws:sqs:eu-central-1:000000000000:q");
}

const context = (remainingMs = 1_000): Context =>
  invocationContext({ functionName: "f", requestId: "f-7", remainingMs: () => remainingMs });

function bodyOf(event: SQSEvent): string {
  return event.Records[0]?.body ?? "none";
}

interface Connected {
  readonly here: RemoteFunctions;
  readonly there: ServedFunctions;
  readonly connection: Socket;
  readonly other: Socket;
}

let server: Server;
beforeAll(async () => {
  server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterAll(() => server.close());

async function connected(given: SqsHandler | FunctionHandlers, clock = createVirtualClock(0)): Promise<Connected> {
  const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
  const other = connect((server.address() as AddressInfo).port, "127.0.0.1"); // a listening TCP server has an AddressInfo
  const connection = await accepted;
  const handlers =
    typeof given === "function" ? { applyDeltas: given, deadDeltas: nothing, sync: tableOf(CONTROLLERS, () => nothing) } : given;
  return { here: remoteFunctions(connection), there: serveFunctions(other, handlers, { clock }), connection, other };
}

describe("functions in a separate process", () => {
  it("return each response to its own request, in any order", async () => {
    const waits: (() => void)[] = [];
    const { here } = await connected(async (event) => {
      await new Promise<void>((resolve) => waits.push(resolve));
      return { batchItemFailures: [{ itemIdentifier: bodyOf(event) }] };
    });
    const answers = ["first", "second"].map((body) => here.handlers.applyDeltas(eventOf(body), context()));
    await vi.waitFor(() => expect(waits).toHaveLength(2));
    for (const end of waits.toReversed()) end();
    expect(await Promise.all(answers)).toEqual(["first", "second"].map((itemIdentifier) => ({ batchItemFailures: [{ itemIdentifier }] })));
  });

  it("are each called under their own name", async () => {
    const called: string[] = [];
    const named = (name: string): SqsHandler => {
      return () => Promise.resolve(void called.push(name));
    };
    const { here } = await connected({ applyDeltas: named("apply"), deadDeltas: named("dead"), sync: tableOf(CONTROLLERS, named) });
    const { applyDeltas, deadDeltas, sync } = here.handlers;
    for (const handler of [applyDeltas, deadDeltas, ...CONTROLLERS.map((controller) => sync[controller])])
      expect(await handler(eventOf("b"), context())).toBeUndefined();
    expect(called).toEqual(["apply", "dead", ...CONTROLLERS]);
  });

  it.each(["a\nb", "a\u2028b", "\u{1f600}".repeat(40_000)])("receive any text unchanged", async (body) => {
    const { here } = await connected((event) => Promise.resolve({ batchItemFailures: [{ itemIdentifier: bodyOf(event) }] }));
    expect(await here.handlers.applyDeltas(eventOf(body), context())).toEqual({ batchItemFailures: [{ itemIdentifier: body }] });
  });

  it("receive the caller and the remaining time", async () => {
    const clock = createVirtualClock(0);
    const left: unknown[] = [];
    const { here } = await connected(async (_event, { awsRequestId, functionName, getRemainingTimeInMillis }) => {
      left.push(awsRequestId, functionName, getRemainingTimeInMillis());
      await clock.after(600);
      left.push(getRemainingTimeInMillis());
      await clock.after(600);
      left.push(getRemainingTimeInMillis());
    }, clock);
    const answer = here.handlers.applyDeltas(eventOf("b"), context(900));
    await vi.waitFor(() => expect(left).toHaveLength(3));
    await clock.advance(2_000);
    await answer;
    expect(left).toEqual(["f-7", "apply-deltas", 900, 300, 0]);
  });

  it.each<[what: string, handler: SqsHandler]>([
    ["reject", () => Promise.reject(new Error("the Store is unavailable"))],
    [
      "throw at once",
      () => {
        throw new Error("the Store is unavailable");
      },
    ],
  ])("calls fail with the function's own message when they %s", async (_what, handler) => {
    const { here } = await connected(handler);
    await expect(here.handlers.applyDeltas(eventOf("b"), context())).rejects.toThrow("the Store is unavailable");
  });

  it("running and later calls fail when the connection ends", async () => {
    const { here, there, other } = await connected(() => new Promise(() => undefined));
    const running = here.handlers.applyDeltas(eventOf("b"), context());
    other.destroy();
    await expect(running).rejects.toThrow("is closed");
    await here.left;
    await there.ended;
    await expect(here.handlers.applyDeltas(eventOf("b"), context())).rejects.toThrow("is closed");
  });

  it("return the results of running calls when they are stopped", async () => {
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const { here, there, connection } = await connected(() => ended);
    const running = here.handlers.applyDeltas(eventOf("b"), context());
    there.leave();
    await here.left;
    end();
    expect(await running).toBeUndefined();
    connection.end();
    await there.ended;
  });

  it("close the connection on an invalid line", async () => {
    const { here, there, connection } = await connected(nothing);
    connection.write("GET / HTTP/1.1\r\n");
    await Promise.all([there.ended, here.left]);
    await expect(here.handlers.applyDeltas(eventOf("b"), context())).rejects.toThrow("is closed");
  });
});
