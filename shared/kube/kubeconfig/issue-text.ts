import * as v from "valibot";

/** Describes an invalid field without quoting its value. */
export function issueText(issue: v.BaseIssue<unknown>): string {
  const place = v.getDotPath(issue) ?? "it";
  // For a missing field, valibot reports the field's name as expected.
  return issue.input === undefined ? `${place} is missing` : `${place} is not ${issue.expected ?? "of the expected type"}`;
}
