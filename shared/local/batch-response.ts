/** An answer Lambda would not accept; it then takes the whole batch as failed. A bug of the handler. */
class BadBatchResponseError extends Error {
  override readonly name = "BadBatchResponseError";
}

/**
 * Which records a handler reports as failed, by Lambda's rules: nothing, `null` and an empty list mean none; an entry without
 * an id, with an empty one, or with one that is not in the batch makes the answer unreadable.
 *
 * @throws {BadBatchResponseError}
 */
export function failedIds(answer: unknown, ids: readonly string[]): ReadonlySet<string> {
  if (answer === undefined || answer === null || answer === "") return new Set();
  if (typeof answer !== "object" || Array.isArray(answer)) throw new BadBatchResponseError("the answer is no batch response");
  const entries: unknown = "batchItemFailures" in answer ? answer.batchItemFailures : undefined;
  if (entries === undefined || entries === null) return new Set();
  if (!Array.isArray(entries)) throw new BadBatchResponseError("batchItemFailures is no list");
  return new Set(
    entries.map((entry: unknown) => {
      const id = typeof entry === "object" && entry !== null && "itemIdentifier" in entry ? entry.itemIdentifier : undefined;
      if (typeof id !== "string" || !ids.includes(id))
        throw new BadBatchResponseError(`itemIdentifier ${JSON.stringify(id)} is not in the batch`);
      return id;
    }),
  );
}
