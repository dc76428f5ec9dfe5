import type { Leadership } from "../../shared/cache/leader-election.ts";

/** Of a watcher that has no rival: it leads as long as it runs, from fence 1 on. */
export function soleLeader(): Leadership {
  let fence = 1;
  return {
    fence: () => String(fence),
    raise: async () => String(++fence),
    lost: new AbortController().signal,
    holds: () => true,
    release: async () => {},
  };
}
