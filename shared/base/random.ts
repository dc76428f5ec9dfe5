/**
 * Injected randomness.
 *
 * RN1 `next()` is uniform in [0, 1).
 * RN2 two generators made from one seed give the same sequence; the system adapter is the only one without a seed.
 */
export interface Random {
  next(): number;
}
