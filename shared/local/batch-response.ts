/** The handler returned a response that Lambda rejects, which fails the whole batch. A bug in the handler. */
class BadBatchResponseError extends Error {
  override readonly name = "BadBatchResponseError";
}

/**
 * Returns the records that a handler reports as failed, by Lambda's rules: no response, `null` and an empty list mean that no record
 * failed. An entry with a missing or empty id, or an id that is not in the batch, makes the response invalid.
 *
 * @throws {BadBatchResponseError}
 */
export function failedIds(answer: unknown, ids: readonly string[]): ReadonlySet<string> {
  if (answer === undefined || answer === null || answer === "") return new Set();
  if (typeof answer !== "object" || Array.isArray(answer)) throw new BadBatchResponseError("the response is not a batch response");
  const entries: unknown = "batchItemFailures" in answer ? answer.batchItemFailures : undefined;
  if (entries === undefined || entries === null) return new Set();
  if (!Array.isArray(entries)) throw new BadBatchResponseError("batchItemFailures is not a list");
  return new Set(
    entries.map((entry: unknown) => {
      const id = typeof entry === "object" && entry !== null && "itemIdentifier" in entry ? entry.itemIdentifier : undefined;
      if (typeof id !== "string" || !ids.includes(id))
        throw new BadBatchResponseError(`itemIdentifier ${JSON.stringify(id)} is not in the batch`);
      return id;
    }),
  );
}
