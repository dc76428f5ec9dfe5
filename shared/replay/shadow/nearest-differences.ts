import { canonical, differencesOf } from "./canonical-write.ts";
import type { Verdict } from "./classify.ts";

/** The differences between an unexplained write and the most similar one of deltaloop's, or the previous object if there is no similar write. */
export function nearestDifferences({ want, ours, before }: Extract<Verdict, { kind: "unexplained" }>): readonly string[] {
  const alike = ours.filter((each) => shapeOf(each) === shapeOf(want)).map((each) => differencesOf(want, each, "deltaloop"));
  const [nearest] = alike.toSorted((a, b) => a.length - b.length);
  return nearest ?? ["deltaloop would have made no similar write", ...(before === undefined ? [] : differencesOf(want, before, "before"))];
}

/** Identifies the object of a canonical write. */
function shapeOf(said: unknown): string {
  const { name, pod } = said as { readonly name?: string; readonly pod?: string };
  return canonical([Object.keys(said as object).toSorted(), name, pod]);
}
