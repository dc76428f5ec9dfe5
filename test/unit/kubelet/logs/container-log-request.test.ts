/** Would catch: a misread log option of kubectl, and an accepted request that upstream rejects. */
import { describe, expect, it } from "vitest";

import { parseContainerLogRequest } from "../../../../shared/node-agent/kubelet/logs/container-log-request.ts";
import type { ParsedLogRequest } from "../../../../shared/node-agent/kubelet/logs/container-log-request.ts";

const NOW_MS = Date.parse("2026-03-01T10:00:00Z");
const NONE = { follow: false, previous: false, timestamps: false };
const UNREADABLE: ParsedLogRequest = { kind: "refused", code: 400, text: `{"message": "Unable to decode query."}` };
const INVALID: ParsedLogRequest = { kind: "refused", code: 422, text: `{"message": "Invalid request."}` };

describe("a container log request", () => {
  const served: readonly { readonly name: string; readonly query: string; readonly want: object }[] = [
    { name: "the complete log without follow", query: "", want: NONE },
    {
      name: "boolean parameters as kubectl sends them",
      query: "follow=true&previous=true&timestamps=true",
      want: { follow: true, previous: true, timestamps: true },
    },
    { name: "boolean parameters that are false", query: "follow=false&previous=0&timestamps=FALSE", want: NONE },
    { name: "a boolean parameter without a value, which is true", query: "follow", want: { ...NONE, follow: true } },
    { name: "the first of two values of a parameter", query: "follow=0&follow=1&tailLines=3&tailLines=4", want: { ...NONE, tailLines: 3 } },
    { name: "the last lines by tailLines", query: "tailLines=5", want: { ...NONE, tailLines: 5 } },
    { name: "no lines by tailLines 0", query: "tailLines=0", want: { ...NONE, tailLines: 0 } },
    {
      name: "the last lines by the deprecated `tail`, which takes precedence",
      query: "tail=7&tailLines=5",
      want: { ...NONE, tailLines: 7 },
    },
    { name: "all lines by the deprecated `tail`", query: "tail=all&tailLines=5", want: NONE },
    { name: "the first bytes", query: "limitBytes=1", want: { ...NONE, limitBytes: 1 } },
    { name: "lines of the last N seconds", query: "sinceSeconds=90", want: { ...NONE, sinceMs: NOW_MS - 90_000 } },
    {
      name: "lines since a time in another time zone",
      query: `sinceTime=${encodeURIComponent("2026-03-01T11:30:00+02:00")}`,
      want: { ...NONE, sinceMs: Date.parse("2026-03-01T09:30:00Z") },
    },
    { name: "both streams by name", query: "stream=All", want: NONE },
  ];
  it.each(served)("a log request for $name [node-agent 114]", ({ query, want }) => {
    expect(parseContainerLogRequest(new URLSearchParams(query), NOW_MS)).toEqual({ kind: "request", request: want });
  });

  const refused: readonly { readonly name: string; readonly query: string; readonly want: ParsedLogRequest }[] = [
    { name: "a number of lines that is not a number", query: "tailLines=many", want: UNREADABLE },
    { name: "an empty number of bytes", query: "limitBytes=", want: UNREADABLE },
    { name: "a number above 64 bits", query: "limitBytes=9223372036854775808", want: UNREADABLE },
    { name: "a fraction of a second", query: "sinceSeconds=1.5", want: UNREADABLE },
    { name: "a time that cannot be parsed", query: "sinceTime=yesterday", want: UNREADABLE },
    { name: "a date that does not exist", query: "sinceTime=2026-13-40T00:00:00Z", want: UNREADABLE },
    { name: "a negative number of lines", query: "tailLines=-1", want: INVALID },
    { name: "a limit of 0 bytes", query: "limitBytes=0", want: INVALID },
    { name: "0 seconds", query: "sinceSeconds=0", want: INVALID },
    { name: "two start times", query: "sinceSeconds=5&sinceTime=2026-03-01T10:00:00Z", want: INVALID },
    { name: "an unknown stream", query: "stream=Stdin", want: INVALID },
    { name: "the last lines of a single stream", query: "stream=Stderr&tailLines=1", want: INVALID },
    {
      name: "a single stream while the feature gate is off",
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
