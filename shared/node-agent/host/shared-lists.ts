/**
 * One list of the runtime for many who ask. Every turn of a pod looks at the pod's sandboxes and containers; when thirty begin at once,
 * the runtime would go through all it has thirty times, and so would the connection to it.
 *
 * LI1 what is answered was listed after it was asked for: who asks while a list is on its way waits for the next one.
 * LI2 one who asks alone is answered as if nothing stood in between.
 */
import type { Cri } from "../ports/cri.ts";
import type { StringMap } from "../ports/cri-types.ts";

/** So many lists of one pod each cost about as much as one list of all pods of a full node. */
const FEW = 3;

interface Filter {
  readonly labelSelector?: StringMap;
}

type List<T, F extends Filter> = (filter?: F) => Promise<readonly T[]>;

interface Asker<T, F> {
  readonly filter: F | undefined;
  readonly answer: (list: Promise<readonly T[]>) => void;
}

export function shareLists(cri: Cri): Cri {
  return { ...cri, listPodSandbox: shared(cri.listPodSandbox), listContainers: shared(cri.listContainers) };
}

function shared<T extends { readonly labels: StringMap }, F extends Filter>(list: List<T, F>): List<T, F> {
  let isListing = false;
  let waiting: Asker<T, F>[] = [];

  /** Never throws: the callers that wait get the error. */
  async function answerAll(): Promise<void> {
    isListing = true;
    while (waiting.length > 0) {
      const askers = waiting;
      waiting = [];
      const isOfAll = askers.length > FEW || askers.some(({ filter }) => filter === undefined);
      const all = isOfAll ? list() : undefined;
      const answers = askers.map(async ({ filter }) => (all === undefined ? await list(filter) : (await all).filter(matching(filter))));
      for (const [index, { answer }] of askers.entries()) answer(answers[index] ?? Promise.resolve([]));
      await Promise.allSettled(answers);
    }
    isListing = false;
  }

  return async (filter) => {
    // Another choice than by labels is the runtime's own.
    if (filter !== undefined && Object.keys(filter).some((key) => key !== "labelSelector")) return await list(filter);
    const answered = new Promise<readonly T[]>((answer) => void waiting.push({ filter, answer }));
    if (!isListing) void answerAll();
    return await answered;
  };
}

function matching({ labelSelector = {} }: Filter = {}): (one: { readonly labels: StringMap }) => boolean {
  const wanted = Object.entries(labelSelector);
  return ({ labels }) => wanted.every(([name, value]) => labels[name] === value);
}
