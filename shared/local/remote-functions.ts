/**
 * Functions in a separate process, as in Lambda, so that its measurements exclude polling. The poller (function-host.ts) sends each
 * invocation as a line of JSON and reads the response as a line.
 *
 * IV1 An invocation fails if its connection ends before its response; the writes that it has already made remain.
 * IV2 A process announces that it stops: it gets no new invocations, and answers the pending ones.
 * IV3 A line that is not JSON ends the connection, since both ends belong to the same program.
 */
import type { Duplex } from "node:stream";

import type { SQSBatchResponse, SQSEvent } from "aws-lambda";

import { createLineSplitter } from "@deltaloop/kube/http";
import { messageOf, CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import type { SqsHandler } from "@deltaloop/controllers/lambda";
import type { Clock } from "@deltaloop/base";
import { syncFunction } from "@deltaloop/controllers/registry";
import type { FunctionHandlers } from "./function-host.ts";
import { invocationContext } from "./invocation.ts";

interface InvocationMessage {
  /** Id that is unique within the connection. */
  readonly id: number;
  readonly functionName: string;
  readonly requestId: string;
  readonly event: SQSEvent;
  /** Time until the function's timeout, at the time of sending. */
  readonly remainingMs: number;
}

type ReplyMessage =
  | { readonly kind: "answer"; readonly id: number; readonly answer?: SQSBatchResponse }
  | { readonly kind: "error"; readonly id: number; readonly message: string }
  | { readonly kind: "leaving" };

/** The functions on the caller's side. */
export interface RemoteFunctions {
  /** Handlers, which reject with the message of the function's error, or when the connection ends. */
  readonly handlers: FunctionHandlers;
  /** Resolves when the process accepts no new invocations (IV2) or the connection has ended. */
  readonly left: Promise<void>;
}

/** Returns handlers that invoke the functions at the other end of `connection`. */
export function remoteFunctions(connection: Duplex): RemoteFunctions {
  const pending = new Map<number, PromiseWithResolvers<SQSBatchResponse | undefined>>();
  const write = lineWriter(connection);
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  let invocations = 0;
  let hasEnded = false;

  readLines(connection, (line) => {
    const message = line as ReplyMessage;
    if (message.kind === "leaving") return leave();
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    if (message.kind === "answer") waiting?.resolve(message.answer);
    else waiting?.reject(new Error(message.message));
  });
  connection.once("close", () => {
    hasEnded = true;
    for (const { reject } of pending.values()) reject(connectionClosed());
    pending.clear();
    leave();
  });

  function handler(functionName: string): SqsHandler {
    return async (event, context) => {
      if (hasEnded) throw connectionClosed();
      const id = ++invocations;
      const waiting = Promise.withResolvers<SQSBatchResponse | undefined>();
      pending.set(id, waiting);
      write({
        id,
        functionName,
        requestId: context.awsRequestId,
        event,
        remainingMs: context.getRemainingTimeInMillis(),
      });
      return await waiting.promise;
    };
  }

  return {
    left,
    handlers: {
      applyDeltas: handler("apply-deltas"),
      deadDeltas: handler("dead-deltas"),
      sync: tableOf(CONTROLLERS, (controller) => handler(syncFunction(controller))),
    },
  };
}

/** The functions in their own process. */
export interface ServedFunctions {
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;
  /** Announces that the process accepts no new invocations (IV2). */
  leave(): void;
}

/** Serves invocations of `handlers` on `connection`. */
export function serveFunctions(connection: Duplex, handlers: FunctionHandlers, { clock }: { readonly clock: Clock }): ServedFunctions {
  const byName = new Map([
    ["apply-deltas", handlers.applyDeltas],
    ["dead-deltas", handlers.deadDeltas],
    ...CONTROLLERS.map((controller) => [syncFunction(controller), handlers.sync[controller]] as const),
  ]);
  const ended = new Promise<void>((resolve) => connection.once("close", () => resolve()));
  const reply: (message: ReplyMessage) => void = lineWriter(connection);

  async function invoke({ id, functionName, requestId, event, remainingMs }: InvocationMessage): Promise<void> {
    const endsMs = clock.now() + remainingMs;
    try {
      const handler = byName.get(functionName);
      if (handler === undefined) throw new Error(`unknown function ${functionName}`);
      const context = invocationContext({ functionName, requestId, remainingMs: () => Math.max(0, endsMs - clock.now()) });
      const answer = await handler(event, context);
      reply({ kind: "answer", id, ...(answer && { answer }) });
    } catch (error) {
      reply({ kind: "error", id, message: messageOf(error) });
    }
  }

  readLines(connection, (line) => void invoke(line as InvocationMessage));
  return { ended, leave: () => reply({ kind: "leaving" }) };
}

function connectionClosed(): Error {
  return new Error("the connection to the process of the functions is closed");
}

/** Returns a function that writes a line. The lines of one iteration of the event loop share a write, because each wakes the other process. */
function lineWriter(connection: Duplex): (line: InvocationMessage | ReplyMessage) => void {
  let lines = "";
  return (line) => {
    if (lines === "")
      setImmediate(() => {
        if (connection.writable) connection.write(lines);
        lines = "";
      });
    lines += `${JSON.stringify(line)}\n`;
  };
}

function readLines(connection: Duplex, read: (line: unknown) => void): void {
  const lines = createLineSplitter();
  connection.on("data", (chunk: Buffer) => {
    try {
      for (const line of lines.push(chunk)) read(JSON.parse(line));
    } catch {
      connection.destroy();
    }
  });
  connection.on("error", () => undefined); // a "close" event follows
  connection.on("end", () => connection.end());
}
