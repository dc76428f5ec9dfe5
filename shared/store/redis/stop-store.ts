/**
 * The guard (informer §11.9): two texts of one hash, each `<signature> 0x1F <JSON>`. A script cannot verify a MAC, so texts are verified
 * here and written by compare-and-set. Scripts stop if a text of `stop` exists at all (GD6).
 */
import { SIGNATURE_CHARACTERS } from "../signer.ts";
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import type { ForeignWrite, GuardState, GuardStore, Stop } from "../ports/store.ts";
import { stopAfter } from "../ports/guard-store.ts";
import { asList } from "./connection.ts";
import type { Reply } from "./connection.ts";
import type { Context } from "./context.ts";
import { US } from "./rows.ts";

/** Reports and resumes rarely collide; more rounds in a row are no manual writes. */
const ROUNDS_MAX = 8;

/** The stored texts; undefined: absent. */
interface Texts {
  readonly stop: string | undefined;
  readonly resumed: string | undefined;
}

export function createStopStore(context: Context): GuardStore {
  const { names, options } = context;
  const { signer, deployment } = options;
  const seal = (field: keyof Texts, value: object): string => {
    const json = JSON.stringify(value);
    return signer.sign("g", [deployment, field, json]) + US + json;
  };
  const read = async (): Promise<Texts> => textsOf(asList(await context.run(context.keys("readStop", { stop: names.stop }).call("", {}))));
  /** The stored texts if they differ from `seen`, or undefined if `next` was written. */
  const write = async (seen: Texts, next: Texts): Promise<Texts | undefined> => {
    const given = (text: string | undefined): string => (text === undefined ? "" : `=${text}`);
    const [kind, ...standing] = asList(
      await context.run(
        context.keys("setStop", { stop: names.stop }).call("", {
          oldStop: given(seen.stop),
          oldResumed: given(seen.resumed),
          newStop: given(next.stop),
          newResumed: given(next.resumed),
        }),
      ),
    );
    if (kind === "changed") return textsOf(standing);
    await context.durable();
    return undefined;
  };
  const stateOf = ({ stop, resumed }: Texts): GuardState => ({
    ...(stop !== undefined && { stop: openStop(context, stop) }),
    forgivenMs: openForgiven(context, resumed),
    version: JSON.stringify([stop, resumed]),
  });
  return {
    guard: async () => stateOf(await read()),

    async reportForeignWrite(foreign, nowMs) {
      let texts = await read();
      for (let round = 0; round < ROUNDS_MAX; round++) {
        const state = stateOf(texts);
        if (foreign.atMs <= state.forgivenMs) return { kind: "forgiven", forgivenMs: state.forgivenMs };
        const stop = stopAfter(state, foreign, nowMs);
        const changed = stop && (await write(texts, { ...texts, stop: seal("stop", stop) }));
        if (!changed) return { kind: "stopped" };
        texts = changed;
      }
      throw new Error("reportForeignWrite: the guard changes with every call");
    },

    async resume({ version, forgivenMs }) {
      const texts = await read();
      const state = stateOf(texts);
      if (state.version !== version) return "changed";
      const resumed = seal("resumed", { forgivenMs: Math.max(state.forgivenMs, forgivenMs) });
      return (await write(texts, { stop: undefined, resumed })) ? "changed" : "resumed";
    },
  };
}

function textsOf([stop, resumed]: readonly Reply[]): Texts {
  return { stop: typeof stop === "string" ? stop : undefined, resumed: typeof resumed === "string" ? resumed : undefined };
}

/** Verifies the text of `stop` that a script has read. */
export function openStop(context: Context, text: string): Stop {
  const value = open(context, "stop", text) as Extract<Stop, { kind: "seen" }> | undefined; // `seal` wrote it
  return value && isForeignWrite(value.write) ? value : { kind: "unbelieved" };
}

function openForgiven(context: Context, text: string | undefined): number {
  const value = (text === undefined ? undefined : open(context, "resumed", text)) as { readonly forgivenMs: number } | undefined; // `seal` wrote it
  return value?.forgivenMs ?? 0;
}

function open({ options: { signer, deployment } }: Context, field: keyof Texts, text: string): object | undefined {
  const json = text.slice(SIGNATURE_CHARACTERS + US.length);
  const verdict = signer.verify("g", [deployment, field, json], text.slice(0, SIGNATURE_CHARACTERS));
  return verdict === "current" || verdict === "former" ? (JSON.parse(json) as object) : undefined;
}

/** A later build may know more resources. */
function isForeignWrite({ resource }: ForeignWrite): boolean {
  return CACHED_RESOURCES.includes(resource);
}
