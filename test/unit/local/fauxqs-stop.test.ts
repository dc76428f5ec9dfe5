/** The local SQS while it stops. Catches: a poller that keeps the event loop from running, so that an orphaned process spins forever. */
import { expect, it } from "vitest";

import { startFauxqs } from "../../../shared/local/fauxqs.ts";
import { createQueues } from "../../../shared/local/queues.ts";
import { sqsClient } from "../../../shared/store/sqs/client.ts";

const POLLS_MAX = 20_000;

it("lets a poller that asks again at once wait once the queue has stopped", async () => {
  const sqs = await startFauxqs();
  const client = sqsClient({ endpoint: sqs.endpoint });
  const { deltas } = await createQueues(client, "a");
  client.destroy();
  const ends = new AbortController();
  let polls = 0;
  const polling = (async (): Promise<void> => {
    while (!ends.signal.aborted && polls < POLLS_MAX) {
      polls++;
      await sqs.calls.call("ReceiveMessage", { QueueUrl: deltas.url, WaitTimeSeconds: 1 }, { signal: ends.signal });
    }
  })().catch(() => undefined);
  await sqs.stop();
  const stoppedAfter = polls;
  ends.abort(new Error("stopped"));
  await polling;
  expect(stoppedAfter).toBeLessThan(10);
});
