// The page about a rule. Would catch: a link to another controller, and a section of kubernetes.io chosen by a subsection number of our
// spec.
import { expect, it } from "vitest";
import { rulePage } from "../../../shared/timeline/page/rule-page.ts";

it.each([
  ["deployment §11.3", "deployment/#rolling-update-deployment"],
  ["deployment §12", "deployment/#recreate-deployment"],
  ["replicaset §8.1", "replicaset/#scaling-a-replicaset"],
  ["replicaset §12", "replicaset/"],
])("links %s to kubernetes.io", (rule, page) => {
  expect(rulePage(rule)).toBe(`https://kubernetes.io/docs/concepts/workloads/controllers/${page}`);
});
