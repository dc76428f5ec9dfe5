/** Would catch: bytes that are lost or added between the runtime's log and kubectl's output, and limits that are counted differently. */
import { describe, expect, it } from "vitest";

import { createShowLine } from "../../../../shared/node-agent/server/cri-log-line.ts";

const T1 = "2026-03-01T10:00:00.123456789Z";
const T2 = "2026-03-01T10:00:01.5+02:00";

type Options = Parameters<typeof createShowLine>[0];
const PLAIN: Options = { timestamps: false };

function docker(log: string, stream = "stdout"): string {
  return `${JSON.stringify({ log, stream, time: T1 })}\n`;
}

/** Returns each line's text or result; `!` after the text means that the limit is reached. */
function shown(options: Options, lines: readonly string[]): readonly string[] {
  const show = createShowLine(options);
  return lines.map((line) => {
    const result = show(Buffer.from(line));
    return result.kind === "shown" ? `${result.text.toString()}${result.full ? "!" : ""}` : result.kind;
  });
}

describe("a line of a container's log", () => {
  const cases: readonly {
    readonly name: string;
    readonly options: Options;
    readonly lines: readonly string[];
    readonly want: readonly string[];
  }[] = [
    {
      name: "is shown without time and stream",
      options: PLAIN,
      lines: [`${T1} stdout F one two\n`, `${T1} stderr F  three \n`],
      want: ["one two\n", " three \n"],
    },
    { name: "may be empty", options: PLAIN, lines: [`${T1} stdout F \n`], want: ["\n"] },
    { name: "keeps bytes that are not UTF-8", options: PLAIN, lines: [`${T1} stdout F a\u0000b\r\n`], want: ["a\u0000b\r\n"] },
    {
      name: "is joined when it was written in parts",
      options: PLAIN,
      lines: [`${T1} stdout P one \n`, `${T1} stdout P two \n`, `${T1} stdout F three\n`],
      want: ["one ", "two ", "three\n"],
    },
    {
      name: "may have unknown tags",
      options: PLAIN,
      lines: [`${T1} stdout P:new a\n`, `${T1} stdout F:new:er b\n`, `${T1} stdout X c\n`],
      want: ["a", "b\n", "c\n"],
    },
    {
      name: "gets its time with all digits",
      options: { timestamps: true },
      lines: [`${T1} stdout F a\n`, `${T2} stdout F b\n`],
      want: [`${T1} a\n`, "2026-03-01T10:00:01.500000000+02:00 b\n"],
    },
    {
      name: "gets a time of the same width without a fraction or an offset",
      options: { timestamps: true },
      lines: ["2026-03-01T10:00:01+00:00 stdout F b\n"],
      want: ["2026-03-01T10:00:01.000000000Z b\n"],
    },
    {
      name: "gets its time once, however many parts it has",
      options: { timestamps: true },
      lines: [`${T1} stdout P a\n`, `${T1} stdout F b\n`, `${T1} stdout F c\n`],
      want: [`${T1} a`, "b\n", `${T1} c\n`],
    },
    {
      name: "is omitted when it is too old",
      options: { timestamps: false, sinceMs: Date.parse("2026-03-01T10:00:00.500Z") },
      lines: [`${T1} stdout F old\n`, "2026-03-01T10:00:00.500Z stdout F new\n"],
      want: ["hidden", "new\n"],
    },
    {
      name: "is truncated at the byte limit",
      options: { timestamps: false, limitBytes: 6 },
      lines: [`${T1} stdout F one\n`, `${T1} stdout F two\n`],
      want: ["one\n", "tw!"],
    },
    {
      name: "is the last line when it reaches the byte limit",
      options: { timestamps: false, limitBytes: 4 },
      lines: [`${T1} stdout F one\n`],
      want: ["one\n!"],
    },
    {
      name: "counts its time towards the byte limit",
      options: { timestamps: true, limitBytes: 32 },
      lines: [`${T1} stdout F one\n`],
      want: [`${T1} o!`],
    },
    {
      name: "that is omitted does not count towards the byte limit",
      options: { timestamps: false, limitBytes: 3, sinceMs: Date.parse(T1) + 1 },
      lines: [`${T1} stdout F old\n`, "2026-03-01T10:00:02Z stdout F new\n"],
      want: ["hidden", "new!"],
    },
    {
      name: "is read in Docker's format, a long line in parts",
      options: { timestamps: true },
      lines: [docker("one\n"), docker("tw", "stderr"), docker("o\n", "stderr"), docker("\u00e4\t\n")],
      want: [`${T1} one\n`, `${T1} tw`, "o\n", `${T1} \u00e4\t\n`],
    },
    {
      name: "of Docker without text, stream or time is invalid",
      options: PLAIN,
      lines: ['{"log":"half', "{}\n", docker("a\n", "stdin"), docker("a\n").replace(T1, "yesterday")],
      want: ["unreadable", "unreadable", "unreadable", "unreadable"],
    },
    { name: "without a newline is shown unchanged", options: PLAIN, lines: [`${T1} stdout F half`], want: ["half"] },
    {
      name: "in another format is invalid",
      options: PLAIN,
      lines: ["hello\n", "", `${T1}\n`, `${T1} stdout\n`, `${T1} stdin F a\n`, "yesterday stdout F a\n", `${T1} stdout F\n`],
      want: ["unreadable", "unreadable", "unreadable", "unreadable", "unreadable", "unreadable", "unreadable"],
    },
  ];
  it.each(cases)("a log line $name [node-agent 114]", ({ options, lines, want }) => expect(shown(options, lines)).toEqual(want));
});
