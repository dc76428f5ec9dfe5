/** docs/reference/messages.md, compared with the sources. */
import { globSync, readFileSync } from "node:fs";

import { expect, it } from "vitest";

const MESSAGES = [...readFileSync("docs/reference/messages.md", "utf8").matchAll(/^\| `([^`]+)` \| (debug|info|warn|error) \|/gm)].map(
  ([, message = "", level = ""]) => ({ message, level }),
);
const TEXTS = globSync(["shared/**/*.ts", "functions/**/*.ts", "cli/**/*.ts"]).map((file) => readFileSync(file, "utf8"));

it("finds the messages in docs/reference/messages.md", () => {
  expect(MESSAGES.length).toBeGreaterThan(15);
});

it.each(MESSAGES)("$message is logged, as $level", ({ message, level }) => {
  const literal = JSON.stringify(message); // messages contain no special characters of regular expressions
  // Calls with a level chosen at run time (worker.ts) use `say`.
  const call = new RegExp(`(?:\\.${level}|\\bsay)\\((?:[^;]{0,50}\\? )?\\s*${literal}|(?:\\.${level}|\\bsay)\\([^;]{0,60} : ${literal}`);
  expect(TEXTS.filter((text) => call.test(text)).length).toBeGreaterThan(0);
});
