/** `deltaloop queue`: an SQS of our own on loopback (fauxqs) with the queues of one deployment; one of dev's processes. */
import type { Command } from "commander";
import { sqsClient } from "../shared/adapters/sqs/client.ts";
import { startFauxqs } from "../shared/local/fauxqs.ts";
import { createQueues } from "../shared/local/queues.ts";
import { untilSignalled, untilStdinEnds } from "./support/signals.ts";
import { wholeNumber } from "./support/usage-error.ts";

interface QueueFlags {
  readonly port: number;
  readonly prefix: string;
  readonly child?: true;
}

export function registerQueue(program: Command): void {
  program
    .command("queue", { hidden: true })
    .description("run a local SQS with this deployment's queues; prints its URLs as one line of JSON")
    .option("--port <n>", "0 takes a free one", wholeNumber("--port", { min: 0, max: 65_535 }), 0)
    .option("--prefix <name>", "of the queues' names", "deltaloop")
    .option("--child", "end with the parent's pipe")
    .action(runQueue);
}

async function runQueue(flags: QueueFlags): Promise<void> {
  const ends = flags.child ? untilStdinEnds() : untilSignalled();
  const sqs = await startFauxqs({ port: flags.port });
  const client = sqsClient({ endpoint: sqs.endpoint });
  const queues = await createQueues(client, flags.prefix);
  client.destroy();
  process.stdout.write(`${JSON.stringify({ endpoint: sqs.endpoint, queues })}\n`);
  await new Promise<void>((resolve) => ends.addEventListener("abort", () => resolve(), { once: true }));
  await Promise.race([sqs.stop(), new Promise((resolve) => setTimeout(resolve, 1000))]); // long polls may still hang on it
  process.exit();
}
