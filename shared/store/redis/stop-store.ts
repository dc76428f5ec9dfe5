/**
 * The stored part of the guard (ports/guard-store.ts, informer §11.9): texts of one hash, each `<signature> 0x1F <JSON>`. A script cannot
 * verify a MAC, so texts are verified here and written by compare-and-set. For scripts the existence of a text is a stop (GD6).
 *
 *     stop, resumed             of everything. While only namespaces are stopped, `stop` ends with their number, which concurrent
 *                               reports compare; a build without namespace support then stops everything
 *     stop:shop, resumed:shop   of the namespace shop
 */
import { CACHED_RESOURCES } from "@deltaloop/kube/objects";
import { SIGNATURE_CHARACTERS } from "../signer.ts";
import type { ForeignWrite, GuardState, GuardStore, Stop, StopState } from "../ports/store.ts";
import { afterReport, afterResume, stoppedNamespaces } from "../ports/guard-store.ts";
import { asList, asPairs } from "./connection.ts";
import type { Context } from "./context.ts";
import { US } from "./rows.ts";

/** Attempts of one change. Reports and resumes rarely collide, so more conflicts in a row mean that another client writes the texts. */
const ROUNDS_MAX = 8;
/** The pattern of lib/stop.lua. JSON has no unescaped quotes within a text. */
const OF_NAMESPACES = /"namespaces":\d+\}\}$/;

/** The stored texts by field. */
type Texts = ReadonlyMap<string, string>;

export function createStopStore(context: Context): GuardStore {
  const { names } = context;
  const read = async (): Promise<Texts> =>
    new Map(asPairs(asList(await context.run(context.keys("readStop", { stop: names.stop }).call("", {})))));
  /** Writes the differences between two states. Returns the stored texts if they no longer equal `texts`, otherwise undefined. */
  const write = async (texts: Texts, next: Texts): Promise<Texts | undefined> => {
    const given = (text: string | undefined): string => (text === undefined ? "" : `=${text}`);
    const changed = [...new Set([...texts.keys(), ...next.keys()])].filter((field) => texts.get(field) !== next.get(field));
    if (changed.length === 0) return undefined;
    const fields = [...new Set(["stop", "resumed", ...changed])];
    const call = context.keys("setStop", { stop: names.stop }).call("", {
      texts: fields.map((field) => ({ field, old: given(texts.get(field)), new: given(next.get(field)) })),
    });
    const [kind, stored] = asList(await context.run(call));
    if (kind === "changed") return new Map(asPairs(stored));
    await context.durable();
    return undefined;
  };
  /** Writes the state that `decide` returns; writes nothing for undefined. Returns the resulting state. */
  const change = async (decide: (state: GuardState) => GuardState | undefined): Promise<GuardState | undefined> => {
    let texts = await read();
    for (let round = 0; round < ROUNDS_MAX; round++) {
      const state = stateOf(context, texts);
      const next = decide(state);
      const changed = next && (await write(texts, textsOf(context, { state, texts }, next)));
      if (!changed) return next;
      texts = changed;
    }
    throw new Error(`gave up after ${ROUNDS_MAX} attempts: another process kept changing the stop state; run the command again`);
  };
  return {
    guard: async () => stateOf(context, await read()),
    reportForeignWrites: async (writes, nowMs) => {
      const state = await change((before) => afterReport(before, writes, nowMs));
      if (!state) throw new Error("the Store returned no state for the report"); // afterReport always returns a state
      return state;
    },
    resume: async (request) => ((await change((state) => afterResume(state, request))) ? "resumed" : "changed"),
  };
}

function stateOf(context: Context, texts: Texts): GuardState {
  const of = (suffix: string): StopState => {
    const stop = texts.get(`stop${suffix}`);
    const isStop = stop !== undefined && !(suffix === "" && OF_NAMESPACES.test(stop));
    return {
      ...(isStop && { stop: openStop(context, `stop${suffix}`, stop) }),
      acceptedMs: openAccepted(context, `resumed${suffix}`, texts.get(`resumed${suffix}`)),
    };
  };
  const namespaces = new Set([...texts.keys()].flatMap((field) => (field.includes(":") ? [field.slice(field.indexOf(":") + 1)] : [])));
  return { ...of(""), namespaces: new Map([...namespaces].map((namespace) => [namespace, of(`:${namespace}`)])) };
}

/** Returns the texts of `next`, and reuses unchanged texts. */
function textsOf(context: Context, { state, texts }: { readonly state: GuardState; readonly texts: Texts }, next: GuardState): Texts {
  const all = new Map<string, string>();
  const put = (field: string, isSame: boolean, value: object | undefined): void => {
    const text = isSame ? texts.get(field) : value && seal(context, field, value);
    if (text !== undefined) all.set(field, text);
  };
  const ofNamespaces = next.stop ?? summary(stoppedNamespaces(next));
  put("stop", next.stop !== undefined && next.stop === state.stop, ofNamespaces);
  put("resumed", next.acceptedMs === state.acceptedMs, resumedUntil(next.acceptedMs));
  for (const [namespace, { stop, acceptedMs }] of next.namespaces) {
    const before = state.namespaces.get(namespace);
    put(`stop:${namespace}`, stop !== undefined && stop === before?.stop, stop);
    put(`resumed:${namespace}`, acceptedMs === (before?.acceptedMs ?? 0), resumedUntil(acceptedMs));
  }
  return all;
}

/** The stored content of a resume, whose field has the name that every build reads. */
function resumedUntil(acceptedMs: number): { readonly forgivenMs: number } {
  return { forgivenMs: acceptedMs };
}

/** The text for a build without namespace support. */
function summary(stops: ReadonlyMap<string, Stop>): object | undefined {
  const seen = [...stops.values()].filter((stop) => stop.kind === "seen");
  const [newest] = seen.toSorted((a, b) => b.write.atMs - a.write.atMs);
  const sinceMs = Math.min(...seen.map((stop) => stop.sinceMs));
  return newest && { kind: "seen", sinceMs, write: { ...newest.write, namespaces: stops.size } }; // within `write`, which such a build replaces
}

function seal({ options: { signer, deployment } }: Context, field: string, value: object): string {
  const json = JSON.stringify(value);
  return signer.sign("g", [deployment, field, json]) + US + json;
}

/** Verifies the text and field of a stop that a script has read. */
export function openStop(context: Context, field: string, text: string): Stop {
  const value = open(context, field, text) as Extract<Stop, { kind: "seen" }> | undefined; // `seal` wrote this text
  return value && isForeignWrite(value.write) ? value : { kind: "unbelieved" };
}

function openAccepted(context: Context, field: string, text: string | undefined): number {
  const value = (text === undefined ? undefined : open(context, field, text)) as ReturnType<typeof resumedUntil> | undefined; // `seal` wrote this text
  return value?.forgivenMs ?? 0;
}

function open({ options: { signer, deployment } }: Context, field: string, text: string): object | undefined {
  const json = text.slice(SIGNATURE_CHARACTERS + US.length);
  const verdict = signer.verify("g", [deployment, field, json], text.slice(0, SIGNATURE_CHARACTERS));
  return verdict === "current" || verdict === "former" ? (JSON.parse(json) as object) : undefined;
}

/** Whether this build knows the written resource; a later build may report others. */
function isForeignWrite({ resource }: ForeignWrite): boolean {
  return CACHED_RESOURCES.some((each) => each === resource);
}
