/** Checks of the queues against the attributes in shared/local/queues.ts (the same as in infra/queues.yml; a test compares them). */
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_QUEUE } from "@deltaloop/local";
import { doorbellsVariable } from "@deltaloop/controllers/registry";
import type { QueueSight } from "./facts.ts";
import { failure, notChecked, ok, warning } from "./finding.ts";
import type { Finding } from "./finding.ts";

/** More waiting packs or doorbells than remain for long after any burst. */
const WAITING_MAX = 1_000;

export function judgeQueues(queues: readonly QueueSight[]): readonly Finding[] {
  return queues.flatMap((queue) => {
    const of = { of: queue.name };
    const { seen } = queue;
    if (seen.kind === "unseen") {
      const rest = (["queue.settings", "queue.redrive", "queue.depth", "queue.deadLetters"] as const).map((check) =>
        notChecked(check, "the queue does not answer", of),
      );
      if (/AccessDenied|not authorized/i.test(seen.why)) return [notChecked("queue.answers", `access denied: ${seen.why}`, of), ...rest];
      const url = queue.name === "deltas" ? "DELTALOOP_DELTAS_URL" : doorbellsVariable(queue.name);
      return [
        failure(
          "queue.answers",
          `no answer: ${seen.why}`,
          `Correct ${url}, the region or DELTALOOP_SQS_ENDPOINT, or deploy the queue again.`,
          of,
        ),
        ...rest,
      ];
    }
    return [
      ok("queue.answers", `answers in ${seen.tookMs} ms`, { ...of, number: seen.tookMs }),
      judgeSettings(queue, seen.value.attributes),
      judgeRedrive(queue, seen.value.redrive),
      judgeDepth(queue.name, seen.value),
      judgeDeadLetters(queue),
    ];
  });
}

/** The consequence of a wrong attribute; wrong values of other attributes only cost time. */
const BREAKS: Readonly<Record<string, string>> = {
  FifoQueue: "messages arrive out of order",
  ContentBasedDeduplication: "messages are dropped as duplicates",
  DeduplicationScope: "messages are dropped as duplicates",
};

function judgeSettings({ name }: QueueSight, attributes: Readonly<Record<string, string | undefined>>): Finding {
  const wanted: Readonly<Record<string, string>> = (name === "deltas" ? DELTA_QUEUE : DOORBELL_QUEUE).attributes;
  const differing = Object.keys(wanted).filter((attribute) => attributes[attribute] !== wanted[attribute]);
  const more = { of: name, number: differing.length };
  if (differing.length === 0) return ok("queue.settings", "as generated", more);
  const seen = differing.map((attribute) => `${attribute} ${attributes[attribute] ?? "unset"} instead of ${wanted[attribute]}`).join(", ");
  const broken = differing.flatMap((attribute) => BREAKS[attribute] ?? []);
  const remedy = "Deploy infra/queues.yml again (FifoQueue is fixed at creation: create the queue again)";
  return broken.length > 0
    ? failure("queue.settings", seen, `${remedy}: ${[...new Set(broken)].join(", ")}.`, more)
    : warning("queue.settings", seen, `${remedy}.`, more);
}

function judgeRedrive({ name }: QueueSight, redrive: { readonly maxReceiveCount: number } | undefined): Finding {
  const of = { of: name };
  if (redrive === undefined)
    return failure(
      "queue.redrive",
      "none: a message that cannot be processed is redelivered for four days",
      "Deploy infra/queues.yml again: it gives the queue its dead-letter queue.",
      of,
    );
  const wanted = (name === "deltas" ? DELTA_QUEUE : DOORBELL_QUEUE).maxReceiveCount;
  const more = { ...of, number: redrive.maxReceiveCount };
  if (redrive.maxReceiveCount === wanted) return ok("queue.redrive", "redrive as generated", more);
  return warning(
    "queue.redrive",
    `after ${redrive.maxReceiveCount} receives instead of ${wanted}`,
    "Deploy infra/queues.yml again, unless this stage is meant to give up earlier.",
    more,
  );
}

function judgeDepth(
  name: string,
  { waiting, inFlight, delayed }: { readonly waiting: number; readonly inFlight: number; readonly delayed: number },
): Finding {
  const seen = `${waiting} waiting, ${inFlight} in flight${delayed > 0 ? `, ${delayed} delayed` : ""}`;
  const more = { of: name, number: waiting };
  if (waiting < WAITING_MAX) return ok("queue.depth", seen, more);
  const reader = name === "deltas" ? "apply-deltas" : `sync-${name}`;
  return warning("queue.depth", seen, `Check whether ${reader} runs: its event source mapping, its errors and its throttles.`, more);
}

function judgeDeadLetters({ name, deadLetters }: QueueSight): Finding {
  const of = { of: name };
  if (deadLetters.kind === "unseen") return notChecked("queue.deadLetters", deadLetters.why, of);
  if (deadLetters.value === undefined) return notChecked("queue.deadLetters", "there is no dead-letter queue", of);
  const { waiting, inFlight, attributes } = deadLetters.value;
  const more = { ...of, number: waiting + inFlight };
  if (more.number > 0) {
    const remedy =
      name === "deltas"
        ? "Check whether the function dead-deltas runs: it takes them out and triggers a relist, and until then the gate stays closed or the cache stale."
        : `Read why in the log of sync-${name}, then purge the dead-letter queue: the keys remain in Redis, and the sweeper sends new doorbells.`;
    return failure("queue.deadLetters", `${more.number} messages`, remedy, more);
  }
  const wanted: Readonly<Record<string, string>> = name === "deltas" ? DEAD_DELTA_QUEUE : {};
  const [differing] = Object.keys(wanted).filter((attribute) => attributes[attribute] !== wanted[attribute]);
  if (differing !== undefined)
    return warning(
      "queue.deadLetters",
      `${differing} ${attributes[differing] ?? "unset"} instead of ${wanted[differing]}`,
      "Deploy infra/queues.yml again.",
      more,
    );
  return ok("queue.deadLetters", "no dead letters", more);
}
