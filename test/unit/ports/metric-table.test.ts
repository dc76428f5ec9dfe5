/** Label values in the metric table, compared with the lists in other packages, which the table repeats because it imports none. */
import { describe, expect, it } from "vitest";

import { CACHED_RESOURCES, CONTROLLERS } from "../../../shared/kube/objects/resources.ts";
import type { Cri } from "../../../shared/node-agent/ports/cri.ts";
import { METRICS, RUNTIME_OPERATIONS, WORK_QUEUES } from "../../../shared/base/metrics/metric-table.ts";
import { NODE_TABLES } from "../../../shared/node-agent/ports/node-store.ts";
import { FATES } from "../../../shared/store/ports/tallies.ts";

/** Every verb of the runtime port has a name for metrics. */
RUNTIME_OPERATIONS satisfies { readonly [V in keyof Cri]: string };

describe("label values of the metric table", () => {
  const labels = Object.values(METRICS).flatMap((row) => Object.entries<readonly string[] | string>(row.labels));
  const listsOf = (label: string): readonly (readonly string[])[] =>
    labels.flatMap(([name, values]) => (name === label && typeof values !== "string" ? [values] : []));

  it.each([
    { label: "controller", owned: CONTROLLERS },
    { label: "table", owned: NODE_TABLES },
    { label: "fate", owned: FATES },
  ])("the label $label has the values of the list that defines it", ({ label, owned }) => {
    const lists = listsOf(label);
    expect(lists.length).toBeGreaterThan(0);
    for (const values of lists) expect(values).toEqual(owned);
  });

  it("the label resource has every cached resource as a value, and optionally `unknown`", () => {
    for (const values of listsOf("resource")) expect(values.filter((value) => value !== "unknown")).toEqual(CACHED_RESOURCES);
  });

  it("every controller has a work queue name", () => expect(Object.keys(WORK_QUEUES)).toEqual(CONTROLLERS));
});
