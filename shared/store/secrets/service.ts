/** One secret from its service, or the problem with it. */
export type Answer = { readonly value: string } | { readonly problem: string };

/** One service: `ids` in its own API's form. Rejects only without a response. */
export interface Service {
  /** Limit per call. */
  readonly idsMax: number;
  read(ids: readonly string[], url: string, timeoutMs: number): Promise<readonly Answer[]>;
  write(id: string, value: string, url: string, timeoutMs: number): Promise<Answer>;
}
