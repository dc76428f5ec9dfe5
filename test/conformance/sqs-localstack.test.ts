/**
 * The SQS adapters against LocalStack, a second and independent reading of what SQS does. Catches: what fauxqs forgives, and
 * queue attributes or messages that only one emulator takes.
 */
import { afterAll, beforeAll, it } from "vitest";

import { startLocalStack } from "../../infra/local/localstack.ts";
import type { LocalStack } from "../../infra/local/localstack.ts";
import { localStackVenv } from "../../infra/local/venv.ts";
import { sqsCalls } from "../../shared/adapters/sqs/calls.ts";
import type { SqsCalls } from "../../shared/adapters/sqs/calls.ts";
import { sqsClient } from "../../shared/adapters/sqs/client.ts";
import { sqsPortsConformance } from "./sqs-ports.ts";

const venv = await localStackVenv();
if ("missing" in venv) {
  process.stderr.write(`!!!!  SQS on LocalStack cannot run: ${venv.missing}\n`);
  it.skip(`SQS on LocalStack: ${venv.missing}`);
} else suite();

function suite(): void {
  let localStack: LocalStack;
  let client: ReturnType<typeof sqsClient>;
  let calls: SqsCalls;
  beforeAll(async () => {
    localStack = await startLocalStack();
    client = sqsClient({ endpoint: localStack.endpoint });
    calls = sqsCalls({ endpoint: localStack.endpoint });
  }, 120_000);
  afterAll(async () => {
    client?.destroy();
    calls?.close();
    await localStack?.stop();
  });

  sqsPortsConformance(
    "LocalStack",
    () => client,
    () => calls,
  );
}
