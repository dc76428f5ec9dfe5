/** The rules of each variant. */
export const VARIANTS: Readonly<Record<string, string>>;
/** Runs one schedule and returns its first violation of each kind. */
export function run(seed: number, rules: readonly string[], trace: boolean, only?: readonly string[]): Readonly<Record<string, string>>;
