/** Source: pkg/controller/controller_utils.go SlowStartInitialBatchSize. */
const SLOW_START_INITIAL_BATCH_SIZE = 1;

/**
 * The sizes of the batches in which `count` calls are made, each twice the one before: 10 → 1, 2, 4, 3. A batch with a failure is the last
 * batch, so an exhausted quota costs one call, not 500.
 *
 * Source: pkg/controller/replicaset/replica_set.go slowStartBatch.
 */
export function slowStartBatches(count: number, initialSize = SLOW_START_INITIAL_BATCH_SIZE): readonly number[] {
  const sizes: number[] = [];
  for (let remaining = count, size = Math.min(count, initialSize); size > 0; size = Math.min(2 * size, remaining)) {
    sizes.push(size);
    remaining -= size;
  }
  return sizes;
}
