/**
 * `deltaloop queue`: the local replacement of AWS, started by `dev`. A local SQS (fauxqs) with the queues of one deployment;
 * and a poller that invokes the functions of each process (cli/host.ts) that connects.
 */
import { rmSync } from "node:fs";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { setTimeout as after } from "node:timers/promises";
import type { Command } from "commander";
import { createSqsMessageSource, sqsClient } from "@deltaloop/store/sqs";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import type { MessageSource } from "@deltaloop/store/ports";
import { CONTROLLERS, tableOf } from "@deltaloop/kube/objects";
import { startFauxqs, startFunctionHost, createQueues, remoteFunctions } from "@deltaloop/local";
import type { OwnSqs, LocalQueues } from "@deltaloop/local";
import { consoleLog } from "@deltaloop/base/output";
import { untilSignalled, untilStdinEnds } from "@deltaloop/local/processes";
import { wholeNumber } from "@deltaloop/base";
import { claimOfDoorbell } from "@deltaloop/controllers/clusters";

interface QueueFlags {
  readonly port: number;
  readonly prefix: string;
  readonly invocations?: string;
  readonly concurrency: number;
  readonly fair?: true;
  readonly child?: true;
}

export function registerQueue(program: Command): void {
  program
    .command("queue", { hidden: true })
    .description("Runs a local SQS and prints its URLs as one line of JSON; a component of `dev`.")
    .option("--port <n>", "port; 0 selects a free port", wholeNumber("--port", { min: 0, max: 65_535 }), 0)
    .option("--prefix <name>", "prefix of the queues' names", "deltaloop")
    .option("--invocations <socket>", "socket where functions connect to be invoked; without it nothing polls the queues")
    .option("--concurrency <n>", "concurrent invocations of each sync function", wholeNumber("--concurrency", { min: 1, max: 50 }), 5)
    .option("--fair", "serve doorbells of clusters with fewer messages in flight first")
    .option("--child", "exit when standard input ends")
    .action(runQueue);
}

async function runQueue(flags: QueueFlags): Promise<void> {
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const sqs = await startFauxqs({ port: flags.port });
  try {
    const client = sqsClient({ endpoint: sqs.endpoint });
    const queues = await createQueues(client, flags.prefix);
    client.destroy();
    if (flags.invocations !== undefined) await invokeThere(flags.invocations, (functions) => void poll(functions, sqs, queues, flags));
    process.stdout.write(`${JSON.stringify({ endpoint: sqs.endpoint, queues })}\n`);
    await new Promise<void>((resolve) => (ends.aborted ? resolve() : ends.addEventListener("abort", () => resolve(), { once: true })));
  } finally {
    await Promise.race([sqs.stop(), new Promise((resolve) => setTimeout(resolve, 1000))]); // open long polls may delay the stop
  }
  process.exit();
}

/** Listens at `path` for functions. Removes a socket file that an earlier process left. */
async function invokeThere(path: string, connected: (functions: Socket) => void): Promise<void> {
  rmSync(path, { force: true });
  const server = createServer(connected);
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(path, resolve));
}

/** Maximum delay of a poll while several processes poll. */
const POLL_JITTER_MS = 50;
const random = createSystemRandom();
let connections = 0;

/** SQS gives a message to any of its pollers, fauxqs to the one that polled first, which would always be the same process. */
function shared(source: MessageSource): MessageSource {
  return {
    ...source,
    async receive(options) {
      if (connections > 1) await after(random.next() * POLL_JITTER_MS);
      return await source.receive(options);
    },
  };
}

/** Polls while the functions are connected. Several connected processes share the messages, like Lambda's execution environments. */
async function poll(functions: Socket, { calls }: OwnSqs, { deltas, doorbells }: LocalQueues, flags: QueueFlags): Promise<void> {
  const source = (queueUrl: string) => shared(createSqsMessageSource(calls, { queueUrl }));
  connections++;
  const { handlers, left } = remoteFunctions(functions);
  const polling = startFunctionHost({
    sources: {
      deltas: source(deltas.url),
      deadDeltas: source(deltas.deadLetterUrl),
      doorbells: tableOf(CONTROLLERS, (controller) => source(doorbells[controller].url)),
    },
    handlers,
    clock: createSystemClock(),
    log: consoleLog(flags.child ? "queue " : "", "info"),
    concurrency: flags.concurrency,
    ...(flags.fair && { fairGroupOf: ({ body }) => claimOfDoorbell(body) ?? "" }),
  });
  await left;
  connections--;
  await polling.stop();
  functions.end();
}
