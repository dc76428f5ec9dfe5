/**
 * Shares one list of the runtime among concurrent callers. Every sync iteration reads the pod's sandboxes and containers; thirty
 * concurrent iterations would make the runtime list everything thirty times.
 *
 * LI1 a caller gets a list that started after its call, so a call during a running list waits for the next one.
 * LI2 a single call is passed through unchanged.
 */
import type { Cri } from "../ports/cri.ts";
import type { StringMap } from "../ports/cri-types.ts";

/** Up to this number of waiting callers, filtered lists cost less than one full list of a full node. */
const FILTERED_MAX = 3;

interface Filter {
  readonly labelSelector?: StringMap;
}

type List<T, F extends Filter> = (filter?: F) => Promise<readonly T[]>;

interface Caller<T, F> {
  readonly filter: F | undefined;
  readonly settle: (list: Promise<readonly T[]>) => void;
}

export function shareLists(cri: Cri): Cri {
  return { ...cri, listPodSandbox: shared(cri.listPodSandbox), listContainers: shared(cri.listContainers) };
}

function shared<T extends { readonly labels: StringMap }, F extends Filter>(list: List<T, F>): List<T, F> {
  let isListing = false;
  let waiting: Caller<T, F>[] = [];

  /** Never throws; the waiting callers receive the error. */
  async function listForAll(): Promise<void> {
    isListing = true;
    while (waiting.length > 0) {
      const callers = waiting;
      waiting = [];
      const isOfAll = callers.length > FILTERED_MAX || callers.some(({ filter }) => filter === undefined);
      const all = isOfAll ? list() : undefined;
      const answers = callers.map(async ({ filter }) => (all === undefined ? await list(filter) : (await all).filter(matching(filter))));
      for (const [index, { settle }] of callers.entries()) settle(answers[index] ?? Promise.resolve([]));
      await Promise.allSettled(answers);
    }
    isListing = false;
  }

  return async (filter) => {
    // Filters other than label selectors cannot be evaluated here.
    if (filter !== undefined && Object.keys(filter).some((key) => key !== "labelSelector")) return await list(filter);
    const listed = new Promise<readonly T[]>((settle) => void waiting.push({ filter, settle }));
    if (!isListing) void listForAll();
    return await listed;
  };
}

function matching({ labelSelector = {} }: Filter = {}): (one: { readonly labels: StringMap }) => boolean {
  const wanted = Object.entries(labelSelector);
  return ({ labels }) => wanted.every(([name, value]) => labels[name] === value);
}
