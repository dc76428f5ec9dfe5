/** Plausible mistakes in the import of recordings: one list, as decisions.ts has for decisions. */
import type { Mutant } from "./decisions.ts";

const AUDIT = "replay/import/audit.ts";
const WATCH = "replay/import/watch.ts";
const KSHRK = "replay/import/kshrk.ts";
const IMPORTED = "replay/import/imported.ts";

export const IMPORT_MUTANTS: readonly Mutant[] = [
  { what: "a refused write is taken for one", file: AUDIT, from: "code < 200 || code > 299", to: "code < 200" },
  { what: "a dry run is taken for a write", file: AUDIT, from: "/[?&]dryRun=/.test(requestURI)", to: "/[?]never=/.test(requestURI)" },
  { what: "an event is counted before it is answered, too", file: AUDIT, from: ' || stage !== "ResponseComplete"', to: "" },
  {
    what: "a log without answers is read",
    file: AUDIT,
    from: 'level !== "RequestResponse" || responseObject === undefined',
    to: "level === undefined",
  },
  { what: "answers stand in the order of the log", file: AUDIT, from: "return inVersionOrder(states);", to: "return states;" },
  { what: "a deletion is a change", file: AUDIT, from: 'const type = gone ? "DELETED" : last', to: "const type = last" },
  { what: "what a finalizer holds is gone", file: AUDIT, from: " && !isHeld && ", to: " && " },
  { what: "a pod that still runs is gone", file: AUDIT, from: "(deletionGracePeriodSeconds ?? 0) === 0", to: "true" },
  { what: "metadata alone is an object", file: AUDIT, from: "if (last) return spool.keep(", to: "if (last) return kept ?? spool.keep(" },
  { what: "a state is told before it was written", file: AUDIT, from: "(atMs = Math.min(atMs, state.atMs))", to: "state.atMs" },
  { what: "a watch begun anew repeats what it told", file: IMPORTED, from: "if (own.has(id)) again();", to: 'if (id === "") again();' },
  { what: "files are read one behind the other", file: WATCH, from: "eachOnce(inVersionOrder(seen), again)", to: "eachOnce(seen, again)" },
  {
    what: "times run backwards",
    file: WATCH,
    from: "Math.max(latestMs, each.atMs)",
    to: "each.atMs",
  },
  {
    what: "what was there at the beginning comes as new",
    file: WATCH,
    from: "if (wasThere(each)) before",
    to: "if (wasThere(each) && latestMs < 0) before",
  },
  {
    what: "an object that vanishes between two polls stays",
    file: KSHRK,
    from: "if (uidOf(now.get(place)) === uidOf(object)) continue;",
    to: "if (uidOf(object) !== null) continue;",
  },
  {
    what: "an object made anew under its name is the old one",
    file: KSHRK,
    from: "if (uidOf(last) !== uidOf(object)) events.push",
    to: "if (last === undefined) events.push",
  },
  { what: "a poll that was refused is an empty list", file: KSHRK, from: "code !== 200 || !isObject(body)", to: "!isObject(body)" },
  { what: "an import is not redacted", file: IMPORTED, from: "return !redact ? { object }", to: "return redact ? { object }" },
];
