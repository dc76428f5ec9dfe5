/** The history of a ReplicaSet whose own writes race with their events: the events arrive before the responses, or long after them. */
import type { Dice } from "../dice.ts";
import type { Act, Script } from "./script.ts";

const NAME = "web";
const ACTS = 8;
const CALM_MS = 9_000;

export function raceScript(dice: Dice): Script {
  const labels = { app: NAME };
  const podsLagMs = dice.pick([0, 1_200]);
  const answersLateMs = podsLagMs === 0 ? 700 : 0;
  const template = { metadata: { labels }, spec: { containers: [{ name: "c", image: "i" }] } };
  const spec = { replicas: dice.int(2, 4), selector: { matchLabels: labels }, template };
  const body = { apiVersion: "apps/v1", kind: "ReplicaSet", metadata: { name: NAME, labels }, spec };
  const acts: (Act & { readonly atMs: number })[] = [];
  let atMs = 0;
  const pass = (ms: number): number => (atMs += ms);
  const add = (act: Act): number => acts.push({ ...act, atMs });
  const scale = (): number => add({ kind: "spec", resource: "replicasets", name: NAME, change: { replicas: dice.int(0, 7) } });
  for (let nth = 0; nth < ACTS; nth++) {
    pass(CALM_MS);
    if (dice.chance(0.5)) {
      scale();
      // The object is deleted before its creator gets the response.
      pass(200);
      add({ kind: "snatch" });
    } else {
      add({ kind: "touch", resource: "pods", note: String(nth) });
      // The changed object is deleted before its change is delivered.
      pass(200);
      scale();
    }
  }
  return {
    controllers: ["replicaset"],
    begin: [{ resource: "replicasets", body }],
    acts,
    endMs: pass(podsLagMs + 45_000),
    podsLagMs,
    answersLateMs,
    // Time for three batches of creates and their follow-ups.
    apartMs: 1_100 + 5 * answersLateMs,
  };
}
