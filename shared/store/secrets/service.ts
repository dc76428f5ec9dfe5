/** One secret as its service answers it, or what is wrong with it. */
export type Answer = { readonly value: string } | { readonly problem: string };

/** One service: `ids` as its own API calls them. Fails as a whole only when there was no answer. */
export interface Service {
  /** Of one call. */
  readonly idsMax: number;
  read(ids: readonly string[], url: string, timeoutMs: number): Promise<readonly Answer[]>;
  write(id: string, value: string, url: string, timeoutMs: number): Promise<Answer>;
}
