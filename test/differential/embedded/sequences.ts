/** Random writes of several managers to one object, on both servers. */
import { clone, isObject, type Json, type JsonObject } from "../../../shared/base/json.ts";
import { type Dice, diceOf } from "../dice.ts";
import { agree, type Answer, APPLY, ask, MERGE, type Request, type Servers } from "./servers.ts";
import { type Subject, SUBJECTS } from "./subjects.ts";

export interface Difference {
  readonly seed: number;
  readonly step: string;
  readonly request: Request;
  readonly real: Answer;
  readonly ours: Answer;
}

const MANAGERS = ["alice", "bob", "carol"];
const STEPS_MIN = 4;
const STEPS_MAX = 9;

/** @returns the first step in which the servers differ */
export async function playSequence(
  servers: Servers,
  seed: number,
  trace?: (kind: string, real: { readonly request: Request; readonly answer: Answer }) => void,
): Promise<Difference | undefined> {
  const dice = diceOf(seed);
  const subject = dice.pick(SUBJECTS);
  const name = `s${seed}`;
  const steps = dice.int(STEPS_MIN, STEPS_MAX);
  for (let i = 0; i < steps; i += 1) {
    const step = nextStep(dice, subject, name, i);
    const [real, ours] = await Promise.all(
      [servers.real, servers.ours].map(async (send) => await step.play(async (request) => await ask(send, request))),
    );
    if (real === undefined || ours === undefined) throw new Error("a server gave no answer");
    trace?.(step.kind, real);
    if (!agree(real.answer, ours.answer))
      return { seed, step: `${i} ${step.kind}`, request: real.request, real: real.answer, ours: ours.answer };
  }
  return undefined;
}

type Send = (request: Request) => Promise<Answer>;

interface Step {
  readonly kind: string;
  play(send: Send): Promise<{ readonly request: Request; readonly answer: Answer }>;
}

function nextStep(dice: Dice, subject: Subject, name: string, i: number): Step {
  const manager = dice.pick(MANAGERS);
  const path = `${subject.path}/${name}`;
  const head = { apiVersion: subject.apiVersion, kind: subject.kind, metadata: { name } };
  const query = `fieldManager=${manager}`;
  const once = (kind: string, request: Request): Step => ({ kind, play: async (send) => ({ request, answer: await send(request) }) });
  if (i === 0 && dice.chance(0.5))
    return once("create", { method: "POST", path: `${subject.path}?${query}`, body: withPieces(head, subject.whole(dice)) });
  switch (i === 0 ? "apply" : dice.pick(["apply", "apply", "apply", "update", "update", "merge", "status", "scale", "delete finalizers"])) {
    case "update":
      return changed("update", path, query, withPieces({}, subject.some(dice)), removals(dice));
    case "merge":
      return once("merge", { method: "PATCH", path: `${path}?${query}`, body: withPieces({}, subject.some(dice)), contentType: MERGE });
    case "status":
      if (subject.status === undefined) return once("get", { method: "GET", path });
      return dice.chance(0.5)
        ? once("status", { method: "PATCH", path: `${path}/status?${query}`, body: { status: subject.status(dice) }, contentType: MERGE })
        : once("status apply", {
            method: "PATCH",
            path: `${path}/status?${query}&force=${dice.chance(0.5)}`,
            body: { ...head, status: subject.status(dice) },
            contentType: APPLY,
          });
    case "scale": {
      if (!subject.hasScale) return once("get", { method: "GET", path });
      const scale = { apiVersion: "autoscaling/v1", kind: "Scale", metadata: { name }, spec: { replicas: dice.int(0, 5) } };
      return dice.chance(0.5)
        ? once("scale", { method: "PATCH", path: `${path}/scale?${query}`, body: { spec: scale.spec }, contentType: MERGE })
        : once("scale apply", {
            method: "PATCH",
            path: `${path}/scale?${query}&force=${dice.chance(0.5)}`,
            body: scale,
            contentType: APPLY,
          });
    }
    case "delete finalizers":
      return once("get", { method: "GET", path });
    default: {
      const pieces = i === 0 ? subject.whole(dice) : dice.chance(0.6) ? subject.whole(dice) : subject.some(dice);
      const force = dice.chance(0.4) ? "&force=true" : "";
      return once("apply", { method: "PATCH", path: `${path}?${query}${force}`, body: withPieces(head, pieces), contentType: APPLY });
    }
  }
}

/** A PUT of the server's current object with changes. */
function changed(kind: string, path: string, query: string, change: JsonObject, removed: readonly string[]): Step {
  return {
    kind,
    play: async (send) => {
      const get: Request = { method: "GET", path };
      const live = await send(get);
      if (live.code !== 200 || !isObject(live.body)) return { request: get, answer: live };
      const body = merged(clone(live.body), change) as JsonObject; // merging two objects yields an object
      for (const field of removed) remove(body, field.split("."));
      const request: Request = { method: "PUT", path: `${path}?${query}`, body };
      return { request, answer: await send(request) };
    },
  };
}

const REMOVABLE = [
  "metadata.labels",
  "metadata.annotations",
  "metadata.labels.a",
  "spec.list",
  "spec.map",
  "data.a",
  "spec.selector.tier",
  "metadata.managedFields",
];

function removals(dice: Dice): string[] {
  return dice.chance(0.4) ? [dice.pick(REMOVABLE)] : [];
}

function remove(object: JsonObject, path: readonly string[]): void {
  const [first = "", ...rest] = path;
  const child = object[first];
  if (rest.length === 0) delete object[first];
  else if (isObject(child)) remove(child, rest);
}

function withPieces(head: JsonObject, pieces: readonly JsonObject[]): JsonObject {
  return pieces.reduce((object, piece) => merged(object, piece) as JsonObject, head); // merging two objects yields an object
}

function merged(a: Json, b: Json): Json {
  if (!isObject(a) || !isObject(b)) return b;
  const out = { ...a };
  for (const [key, value] of Object.entries(b)) out[key] = merged(out[key] ?? null, value);
  return out;
}
