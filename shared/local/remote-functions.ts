/**
 * Functions in a separate process, as in Lambda. The poller (function-host.ts) sends each invocation as a line of JSON and
 * gets a line back, so this process does only the work that a deployment pays for.
 *
 * IV1 an invocation whose connection ends before its answer has failed; what it did by then is done.
 * IV2 a process that leaves says so first: it gets nothing new, and answers what it has.
 * IV3 what cannot be read ends the connection: both ends are of one program.
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

interface Invoked {
  /** Of this connection. */
  readonly id: number;
  readonly functionName: string;
  readonly requestId: string;
  readonly event: SQSEvent;
  /** Until its time-out, when it was handed over. */
  readonly remainingMs: number;
}

type Told =
  | { readonly kind: "answer"; readonly id: number; readonly answer?: SQSBatchResponse }
  | { readonly kind: "error"; readonly id: number; readonly message: string }
  | { readonly kind: "leaving" };

/** The functions as their callers see them. */
export interface RemoteFunctions {
  /** Each fails with what its function threw, in its words, or when the connection ends. */
  readonly handlers: FunctionHandlers;
  /** Resolves when they take nothing new: they leave, or the connection has ended. */
  readonly left: Promise<void>;
}

export function remoteFunctions(connection: Duplex): RemoteFunctions {
  const pending = new Map<number, PromiseWithResolvers<SQSBatchResponse | undefined>>();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  let invocations = 0;
  let hasEnded = false;

  readLines(connection, (line) => {
    const message = line as Told;
    if (message.kind === "leaving") return leave();
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    if (message.kind === "answer") waiting?.resolve(message.answer);
    else waiting?.reject(new Error(message.message));
  });
  connection.once("close", () => {
    hasEnded = true;
    for (const { reject } of pending.values()) reject(goneError());
    pending.clear();
    leave();
  });

  function handler(functionName: string): SqsHandler {
    return async (event, context) => {
      if (hasEnded) throw goneError();
      const id = ++invocations;
      const waiting = Promise.withResolvers<SQSBatchResponse | undefined>();
      pending.set(id, waiting);
      writeLine(connection, {
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

/** As their own process has them. */
export interface ServedFunctions {
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;
  /** IV2. */
  leave(): void;
}

export function serveFunctions(connection: Duplex, handlers: FunctionHandlers, { clock }: { readonly clock: Clock }): ServedFunctions {
  const byName = new Map([
    ["apply-deltas", handlers.applyDeltas],
    ["dead-deltas", handlers.deadDeltas],
    ...CONTROLLERS.map((controller) => [syncFunction(controller), handlers.sync[controller]] as const),
  ]);
  const ended = new Promise<void>((resolve) => connection.once("close", () => resolve()));
  const tell = (message: Told): void => writeLine(connection, message);

  async function invoke({ id, functionName, requestId, event, remainingMs }: Invoked): Promise<void> {
    const endsMs = clock.now() + remainingMs;
    try {
      const handler = byName.get(functionName);
      if (handler === undefined) throw new Error(`there is no function ${functionName}`);
      const context = invocationContext({ functionName, requestId, remainingMs: () => Math.max(0, endsMs - clock.now()) });
      const answer = await handler(event, context);
      tell({ kind: "answer", id, ...(answer && { answer }) });
    } catch (error) {
      tell({ kind: "error", id, message: messageOf(error) });
    }
  }

  readLines(connection, (line) => void invoke(line as Invoked));
  return { ended, leave: () => tell({ kind: "leaving" }) };
}

function goneError(): Error {
  return new Error("the process of the functions is gone");
}

function writeLine(connection: Duplex, line: Invoked | Told): void {
  if (connection.writable) connection.write(`${JSON.stringify(line)}\n`);
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
  connection.on("error", () => undefined); // its end says enough
  connection.on("end", () => connection.end());
}
