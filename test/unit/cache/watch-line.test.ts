// Classification of watch lines, including the flat pods of captures.
import { expect, test } from "vitest";
import type { DecodedEvent } from "../../../shared/kube/client/kube.ts";
import { parseWatchLine } from "../../../shared/kube/list-watch/watch-line.ts";

const whole = { kind: "Pod", metadata: { namespace: "shop", name: "web-1", uid: "u", resourceVersion: "7" } };
const flat = { namespace: "shop", name: "web-1", uid: "u", resourceVersion: "7" };

test.each([
  { name: "parses a complete object", line: { type: "ADDED", object: whole }, want: { kind: "change", type: "A", object: whole, rv: "7" } },
  {
    name: "parses the flat pod of a stripped capture",
    line: { type: "DELETED", object: flat },
    want: { kind: "change", type: "D", object: flat, rv: "7" },
  },
  {
    name: "parses an object without a resourceVersion",
    line: { type: "MODIFIED", object: {} },
    want: { kind: "change", type: "M", object: {}, rv: undefined },
  },
  {
    name: "parses a bookmark",
    line: { type: "BOOKMARK", object: { metadata: { resourceVersion: "9" } } },
    want: { kind: "bookmark", rv: "9", endsInitialEvents: false },
  },
  {
    name: "parses the bookmark that ends a list",
    line: { type: "BOOKMARK", object: { metadata: { resourceVersion: "9", annotations: { "k8s.io/initial-events-end": "true" } } } },
    want: { kind: "bookmark", rv: "9", endsInitialEvents: true },
  },
  { name: "rejects a line without an object", line: { type: "ADDED" }, want: { kind: "undecodable", why: "not a watch event" } },
])("$name", ({ line, want }) => {
  expect(parseWatchLine(JSON.stringify(line))).toEqual(want);
  expect(parseWatchLine(line as DecodedEvent)).toEqual(want); // one of them has no object
});
