/** Would catch: a log option that kubectl sends read as another one, or a request let through that upstream refuses. */
import { describe, expect, it } from "vitest";

import { parseContainerLogRequest } from "../../../../shared/node-agent/kubelet/logs/container-log-request.ts";
import type { ParsedLogRequest } from "../../../../shared/node-agent/kubelet/logs/container-log-request.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
const NONE = { follow: false, previous: false, timestamps: false };
const UNREADABLE: ParsedLogRequest = { kind: "refused", code: 400, text: `{"message": "Unable to decode query."}` };
const INVALID: ParsedLogRequest = { kind: "refused", code: 422, text: `{"message": "Invalid request."}` };

describe("a container log request", () => {
  const served: readonly { readonly name: string; readonly query: string; readonly want: object }[] = [
    { name: "everything, once", query: "", want: NONE },
    {
      name: "switches as kubectl sends them",
      query: "follow=true&previous=true&timestamps=true",
      want: { follow: true, previous: true, timestamps: true },
    },
    { name: "switches that say no", query: "follow=false&previous=0&timestamps=FALSE", want: NONE },
    { name: "a switch without a value, which is on", query: "follow", want: { ...NONE, follow: true } },
    { name: "the first of two values", query: "follow=0&follow=1&tailLines=3&tailLines=4", want: { ...NONE, tailLines: 3 } },
    { name: "the last lines", query: "tailLines=5", want: { ...NONE, tailLines: 5 } },
    { name: "no line at all", query: "tailLines=0", want: { ...NONE, tailLines: 0 } },
    { name: "the last lines by the old name, which wins", query: "tail=7&tailLines=5", want: { ...NONE, tailLines: 7 } },
    { name: "all lines by the old name", query: "tail=all&tailLines=5", want: NONE },
    { name: "the first bytes", query: "limitBytes=1", want: { ...NONE, limitBytes: 1 } },
    { name: "what is not older than so many seconds", query: "sinceSeconds=90", want: { ...NONE, sinceMs: NOW_MS - 90_000 } },
    {
      name: "what is not older than a time in another zone",
      query: `sinceTime=${encodeURIComponent("2026-03-01T11:30:00+02:00")}`,
      want: { ...NONE, sinceMs: Date.parse("2026-03-01T09:30:00Z") },
    },
    { name: "both streams by their name", query: "stream=All", want: NONE },
  ];
  it.each(served)("a log request for $name [node-agent 114]", ({ query, want }) => {
    expect(parseContainerLogRequest(new URLSearchParams(query), NOW_MS)).toEqual({ kind: "request", request: want });
  });

  const refused: readonly { readonly name: string; readonly query: string; readonly want: ParsedLogRequest }[] = [
    { name: "lines that are no number", query: "tailLines=many", want: UNREADABLE },
    { name: "an empty number", query: "limitBytes=", want: UNREADABLE },
    { name: "a number that 64 bits do not hold", query: "limitBytes=9223372036854775808", want: UNREADABLE },
    { name: "a fraction of a second", query: "sinceSeconds=1.5", want: UNREADABLE },
    { name: "a time that is none", query: "sinceTime=yesterday", want: UNREADABLE },
    { name: "a day that is none", query: "sinceTime=2026-13-40T00:00:00Z", want: UNREADABLE },
    { name: "fewer than no lines", query: "tailLines=-1", want: INVALID },
    { name: "no byte", query: "limitBytes=0", want: INVALID },
    { name: "nothing older than now", query: "sinceSeconds=0", want: INVALID },
    { name: "two beginnings", query: "sinceSeconds=5&sinceTime=2026-03-01T10:00:00Z", want: INVALID },
    { name: "a stream that there is not", query: "stream=Stdin", want: INVALID },
    { name: "the last lines of one stream", query: "stream=Stderr&tailLines=1", want: INVALID },
    {
      name: "one stream alone, whose gate is off",
      query: "stream=Stderr",
      want: {
        kind: "refused",
        code: 400,
        text: `unable to return the given log stream: "Stderr". Please enable PodLogsQuerySplitStreams feature gate in kubelet`,
      },
    },
  ];
  it.each(refused)("a log request is rejected: $name", ({ query, want }) => {
    expect(parseContainerLogRequest(new URLSearchParams(query), NOW_MS)).toEqual(want);
  });
});
