/** Plausible mistakes in the import of recordings: one list, as decisions.ts has for decisions. */
import type { Mutant } from "./decisions.ts";

const AUDIT = "replay/import/audit.ts";
const WATCH = "replay/import/watch.ts";
const KSHRK = "replay/import/kshrk.ts";
const IMPORTED = "replay/import/imported.ts";

export const IMPORT_MUTANTS: readonly Mutant[] = [
  { what: "a rejected request counts as a write", file: AUDIT, from: "code < 200 || code > 299", to: "code < 200" },
  { what: "a dry run counts as a write", file: AUDIT, from: "/[?&]dryRun=/.test(requestURI)", to: "/[?]never=/.test(requestURI)" },
  { what: "an audit event counts before the stage ResponseComplete, too", file: AUDIT, from: ' || stage !== "ResponseComplete"', to: "" },
  {
    what: "an audit log without response bodies is accepted",
    file: AUDIT,
    from: 'level !== "RequestResponse" || responseObject === undefined',
    to: "level === undefined",
  },
  { what: "responses keep the order of the audit log", file: AUDIT, from: "return inVersionOrder(states);", to: "return states;" },
  { what: "a deletion is imported as MODIFIED", file: AUDIT, from: 'const type = gone ? "DELETED" : last', to: "const type = last" },
  { what: "an object held by a finalizer counts as deleted", file: AUDIT, from: " && !isHeld && ", to: " && " },
  { what: "a pod in its grace period counts as deleted", file: AUDIT, from: "(deletionGracePeriodSeconds ?? 0) === 0", to: "true" },
  {
    what: "a metadata-only response counts as the whole object",
    file: AUDIT,
    from: "if (last) return spool.keep(",
    to: "if (last) return kept ?? spool.keep(",
  },
  {
    what: "a version may have a later time than a newer version",
    file: AUDIT,
    from: "(atMs = Math.min(atMs, state.atMs))",
    to: "state.atMs",
  },
  { what: "a restarted watch repeats its events", file: IMPORTED, from: "if (own.has(id)) again();", to: 'if (id === "") again();' },
  {
    what: "files are read one after another, not in the order of resourceVersions",
    file: WATCH,
    from: "eachOnce(inVersionOrder(seen), again)",
    to: "eachOnce(seen, again)",
  },
  {
    what: "the times of events may decrease",
    file: WATCH,
    from: "Math.max(latestMs, each.atMs)",
    to: "each.atMs",
  },
  {
    what: "existing objects are reported as new",
    file: WATCH,
    from: "if (wasThere(each)) before",
    to: "if (wasThere(each) && latestMs < 0) before",
  },
  {
    what: "an object that is missing from a poll is not deleted",
    file: KSHRK,
    from: "if (uidOf(now.get(place)) === uidOf(object)) continue;",
    to: "if (uidOf(object) !== null) continue;",
  },
  {
    what: "a recreated object counts as the old one",
    file: KSHRK,
    from: "if (uidOf(last) !== uidOf(object)) events.push",
    to: "if (last === undefined) events.push",
  },
  { what: "a rejected poll counts as an empty list", file: KSHRK, from: "code !== 200 || !isObject(body)", to: "!isObject(body)" },
  { what: "an import is not redacted", file: IMPORTED, from: "return !redact ? { object }", to: "return redact ? { object }" },
];
