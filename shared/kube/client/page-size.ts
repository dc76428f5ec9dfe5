import { AnswerTooLargeError } from "./errors.ts";

/** Objects in a page of a list. */
const PAGE_SIZE = 500;

/**
 * Asks for the pages of one list, each as large as its answer allows: one that is too large is asked for again with half as many objects,
 * and so are those after it. What a page begins at is in its continue token, so a list may change its limit.
 *
 * @throws {AnswerTooLargeError} for one object that alone is too large, and whatever `page` throws
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
