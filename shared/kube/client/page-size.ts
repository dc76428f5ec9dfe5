import { AnswerTooLargeError } from "./errors.ts";

/** Objects in a page of a list. */
const PAGE_SIZE = 500;

/**
 * Requests the pages of one list. After an AnswerTooLargeError the limit is halved for this page and the following ones. The continue
 * token determines where a page starts, so the limit may change within a list.
 *
 * @throws {AnswerTooLargeError} if a single object is too large, and any error of `page`
 */
export function createPager(): <T>(page: (limit: number) => Promise<T>) => Promise<T> {
  let limit = PAGE_SIZE;
  return async (page) => {
    for (;;) {
      try {
        return await page(limit);
      } catch (error) {
        if (!(error instanceof AnswerTooLargeError) || limit === 1) throw error;
        limit = Math.floor(limit / 2);
      }
    }
  };
}
