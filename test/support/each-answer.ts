/** The items of a stream, each yielded once `answer` has settled it; the stream is closed on every exit. */
export async function* eachAnswer<T>(
  items: AsyncIterable<T>,
  answer: (next: Promise<IteratorResult<T>>) => Promise<IteratorResult<T>>,
): AsyncGenerator<T> {
  const iterator = items[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await answer(iterator.next());
      if (done === true) return;
      yield value;
    }
  } finally {
    await iterator.return?.();
  }
}
