import { defineController } from "deltaloop";
import { Pod } from "deltaloop/kinds";

const KEPT_MS = 3_600_000;
/** Deletes a pod one hour after it has ended. */
export const podJanitor = defineController({
  name: "pod-janitor",
  for: Pod,
  where: { fields: { "status.phase": ["Succeeded", "Failed"] } },
  see: { status: { containerStatuses: true } },
  sync({ object, now }) {
    const { metadata, status } = object;
    const ends = (status?.containerStatuses ?? []).map(({ state }) => Date.parse(state?.terminated?.finishedAt ?? ""));
    const ended = Math.max(Date.parse(metadata.creationTimestamp), ...ends.filter(Number.isFinite));
    const due = new Date(ended + KEPT_MS);
    return due <= now ? { remove: true } : { again: due };
  },
});
