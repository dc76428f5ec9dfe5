import * as v from "valibot";

/** Describes an invalid field without quoting its value. */
export function issueText(issue: v.BaseIssue<unknown>): string {
  const place = v.getDotPath(issue) ?? "it";
  // For a missing field valibot expects its name.
  return issue.input === undefined ? `${place} is missing` : `${place} is not ${issue.expected ?? "of the expected type"}`;
}
