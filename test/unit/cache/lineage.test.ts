// Would catch: a clone that resumes or replaces the current epoch, a cluster that never takes over an abandoned epoch, and an upgrade that
// stops syncs.
import { expect, it } from "vitest";

import {
  decideEpoch,
  finalText,
  lineageText,
  parseFinal,
  parseTerms,
  STILL_MS,
} from "../../../shared/controllers/cache/watcher/lineage.ts";
import type { Decision, OwnLineage, Sighting } from "../../../shared/controllers/cache/watcher/lineage.ts";
import type { Lineage } from "../../../shared/store/ports/store.ts";

const NOW = 1_000_000;
const record = { epoch: "e1", clusterUid: "uid", projection: 1, digestPrefix: "k.f", hashLayout: "v1", fence: "5" };
const at = (term: string | undefined, count = 0, number = 7): Lineage => ({
  record,
  ...(term !== undefined && { token: { term, count } }),
  checkpoint: { fence: "5", number },
});
const own = (listed: string, more: Partial<OwnLineage> & { readonly minted?: string; readonly approved?: string } = {}): OwnLineage => ({
  lease: {
    listed: parseTerms(listed),
    minted: new Set([more.minted ?? "new"]),
    ...(more.approved !== undefined && { approved: more.approved }),
  },
  isSameIdentity: more.isSameIdentity ?? (() => true),
  ...(more.replaces !== undefined && { replaces: more.replaces }),
});
const seen = (lineage: Lineage, agoMs: number): Sighting => ({ text: lineageText(lineage), sinceMs: NOW - agoMs });

interface Row {
  readonly name: string;
  readonly store: Lineage | undefined;
  readonly own: OwnLineage;
  readonly seen?: Sighting;
  readonly want: Partial<Decision>;
}

const ROWS: readonly Row[] = [
  {
    name: "opens an epoch if none exists",
    store: undefined,
    own: own(""),
    want: { kind: "open", over: undefined } as Partial<Decision>,
  },
  {
    name: "resumes the term that the Lease lists",
    store: at("a", 4),
    own: own("a.4"),
    want: { kind: "resume", expected: "a" } as Partial<Decision>,
  },
  { name: "resumes a listed term whose count was raised since", store: at("a", 4), own: own("a.5"), want: { kind: "resume" } },
  {
    name: "resumes an earlier term after a rollback of the Store, and openFence marks the cache suspect",
    store: at("a", 2),
    own: own("a.9 b.3"),
    want: { kind: "resume" },
  },
  {
    name: "resumes a term of this process, whatever the Lease lists",
    store: at("mine", 9),
    own: own("", { minted: "mine" }),
    want: { kind: "resume" },
  },
  {
    name: "waits if the count is above the listed one, because the Lease was restored from an older copy",
    store: at("a", 6),
    own: own("a.5"),
    want: { kind: "wait" },
  },
  { name: "waits if the term is not listed", store: at("x", 1), own: own("a.5"), want: { kind: "wait" } },
  {
    name: "keeps waiting while neither checkpoint nor token changes",
    store: at("x", 1),
    own: own("a.5"),
    seen: seen(at("x", 1), STILL_MS - 1),
    want: { kind: "wait" },
  },
  {
    name: "replaces an epoch that has not changed for the whole waiting time",
    store: at("x", 1),
    own: own("a.5"),
    seen: seen(at("x", 1), STILL_MS),
    want: { kind: "open" },
  },
  {
    name: "exits when the checkpoint changes",
    store: at("x", 1, 8),
    own: own("a.5"),
    seen: seen(at("x", 1, 7), 1),
    want: { kind: "exit" },
  },
  { name: "exits when the token changes", store: at("x", 2), own: own("a.5"), seen: seen(at("x", 1), STILL_MS), want: { kind: "exit" } },
  {
    name: "replaces an epoch immediately if a user has approved that",
    store: at("x", 1),
    own: own("a.5", { approved: "e1" }),
    want: { kind: "open" },
  },
  {
    name: "does not replace an epoch that the user has not approved",
    store: at("x", 2),
    own: own("a.5", { approved: "e0" }),
    want: { kind: "wait" },
  },
  {
    name: "replaces its own epoch if this leader has decided to",
    store: at("a", 4),
    own: own("a.4", { replaces: "e1" }),
    want: { kind: "open" },
  },
  {
    name: "does not replace an epoch of an unlisted term even if this leader has decided to",
    store: at("x", 4),
    own: own("a.4", { replaces: "e1" }),
    want: { kind: "wait" },
  },
  {
    name: "replaces its own epoch if another build opened it",
    store: at("a", 4),
    own: own("a.4", { isSameIdentity: () => false }),
    want: { kind: "open" },
  },
  {
    name: "does not replace an epoch of an unlisted term that another build opened",
    store: at("x", 4),
    own: own("a.4", { isSameIdentity: () => false }),
    want: { kind: "wait" },
  },
  {
    name: "resumes an older build's epoch under an older build's Lease",
    store: at(undefined),
    own: own(""),
    want: { kind: "resume", expected: undefined } as Partial<Decision>,
  },
  {
    name: "treats an older build's epoch as unlisted if the Lease lists terms",
    store: at(undefined),
    own: own("a.4"),
    want: { kind: "wait" },
  },
  { name: "treats no epoch as unlisted without a Lease", store: at("x", 4), own: { isSameIdentity: () => true }, want: { kind: "resume" } },
];

it.each(ROWS)("$name", ({ store, own: mine, seen: sighting, want }) => {
  expect(decideEpoch(store, mine, sighting, NOW)).toMatchObject(want);
});

it("accepts a final checkpoint only if leaseTransitions is the same as when it was written", () => {
  const final = { token: { term: "a", count: 4 }, checkpoint: { fence: "5", number: 7 } };
  const text = finalText(final, 3);
  expect(parseFinal(text, 3)).toEqual({ ...final, isExact: true });
  for (const [damaged, transitions] of [
    [text, 4],
    [undefined, 0],
    ["", 0],
    ["a.4 5", 3],
    ["junk 5 7 3", 3],
  ] as const)
    expect(parseFinal(damaged, transitions)).toBeUndefined();
});

it("omits invalid terms from the list", () => {
  expect(parseTerms("a.1 B.2 c c. .4 d.4x e.0")).toEqual([
    { term: "a", count: 1 },
    { term: "e", count: 0 },
  ]);
});
