import * as v from "valibot";

/** What is wrong with a file or an answer, without what stands there. */
export function issueText(issue: v.BaseIssue<unknown>): string {
  const place = v.getDotPath(issue) ?? "it";
  // Of a field that is missing valibot expects its name.
  return issue.input === undefined ? `${place} is missing` : `${place} is not ${issue.expected ?? "what it should be"}`;
}
