/** The protocol steps of a schedule: changing calls of the Store, each with the kind of its answer. */
import type { Store } from "../../../shared/store/ports/store.ts";

const CALLS = [
  "openFence",
  "openGeneration",
  "applyPack",
  "applyManifest",
  "checkpoint",
  "take",
  "registerIntents",
  "writeThrough",
  "renew",
  "done",
  "sweep",
] as const satisfies readonly (keyof Store)[];

/** `store`, whose changing calls are reported as `take: ok`. */
export function observed(store: Store, report: (step: string) => void): Store {
  const verbs = store as unknown as Readonly<Record<string, (...args: readonly unknown[]) => Promise<unknown>>>;
  const watched = CALLS.map((name) => [
    name,
    async (...args: readonly unknown[]) => {
      const answer = await verbs[name]?.(...args);
      report(`${name}: ${answerKind(name, answer)}`);
      return answer;
    },
  ]);
  return { ...store, ...(Object.fromEntries(watched) as Pick<Store, (typeof CALLS)[number]>) };
}

function answerKind(name: (typeof CALLS)[number], answer: unknown): string {
  if (Array.isArray(answer)) return answer.length === 0 ? "none" : "some";
  if (typeof answer === "string") return answer;
  if (typeof answer === "number") return "ok"; // of `renew`: the end of the lease
  if (typeof answer !== "object" || answer === null || !("kind" in answer)) return "nothing";
  const kind = String(answer.kind);
  const isSuspect = name === "checkpoint" && "resources" in answer && JSON.stringify(answer.resources).includes("SUSPECT");
  return "why" in answer && name === "applyPack" ? `${kind} by ${String(answer.why)}` : isSuspect ? `${kind}, suspect` : kind;
}
