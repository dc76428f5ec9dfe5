/**
 * Catches: a report that hides failures among other output, repeats itself for a healthy system, corrupts a terminal, or prints a secret.
 */
import { expect, it } from "vitest";

import { failure, notChecked, ok, warning } from "../../../../cli/doctor/finding.ts";
import { judge } from "../../../../cli/doctor/judge.ts";
import { objectText } from "../../../../cli/output/output-option.ts";
import { reportAsObject, reportForPeople, withoutSecrets } from "../../../../cli/doctor/report.ts";
import type { Report } from "../../../../cli/doctor/report.ts";
import { HEALTHY } from "./facts.ts";

const report = (findings: Report["findings"]): Report => ({
  deployment: "prod",
  cluster: "0123456789ab",
  mode: "act",
  tookMs: 812,
  findings,
});

it("lists the worst finding first with its remedy, a common cause once, and the rest in one line per section", () => {
  const text = reportForPeople(
    report([
      ok("api.answers", "responds in 3 ms"),
      notChecked("redis.role", "Redis does not answer"),
      notChecked("redis.policy", "Redis does not answer"),
      notChecked("work.due", "Redis does not answer", { of: "replicaset" }),
      notChecked("work.due", "Redis does not answer", { of: "deployment" }),
      notChecked("permissions", "no credentials", { of: "deltaloop-watcher" }),
      ok("permissions", "9 of 9", { of: "deltaloop-sync-replicaset" }),
      warning("queue.depth", "1000 waiting", "Look.", { of: "deltas" }),
      ok("queue.settings", "as generated", { of: "deltas" }),
      ok("queue.settings", "as generated", { of: "replicaset" }),
      ok("queue.redrive", "after 1000", { of: "deltas" }),
      ok("queue.redrive", "after 5", { of: "replicaset" }),
      failure("work.parked", "shop/web", "Repair it.", { of: "deployment" }),
    ]),
    100,
  );
  expect(text).toBe(
    [
      "deltaloop doctor: deployment prod, cluster 0123456789ab, mode act",
      "",
      "failure      work.parked deployment: shop/web",
      "             -> Repair it.",
      "",
      "warning      queue.depth deltas: 1000 waiting",
      "             -> Look.",
      "",
      "not checked  Redis does not answer: redis.role, redis.policy, work.due",
      "not checked  no credentials: permissions deltaloop-watcher",
      "ok           API server: responds in 3 ms",
      "ok           permissions: 9 of 9",
      "ok           queues: as generated; deltas after 1000, replicaset after 5",
      "",
      "1 failure, 1 warning, 5 not checked, 6 ok; 0.8 s",
      "",
    ].join("\n"),
  );
});

it("fits a healthy system into one page and the terminal's width", () => {
  const lines = reportForPeople(report(judge(HEALTHY)), 100).split("\n");
  expect(lines.length).toBeLessThanOrEqual(20);
  expect(Math.max(...lines.map(({ length }) => length))).toBeLessThanOrEqual(100);
});

it("escapes names of other users' objects", () => {
  const findings = [failure("cache.quarantine", "web\x1b[2J", "Look.")];
  expect(reportForPeople(report(findings), 80)).toContain("web\\x1b[2J");
  expect(objectText(reportAsObject(report(findings)), "json")).not.toContain("\x1b");
});

it("--json has each finding with its measurements, section and unit", () => {
  const parsed: unknown = JSON.parse(
    JSON.stringify(reportAsObject(report([failure("work.parked", "shop/web", "Repair it.", { of: "deployment", number: 1 })]))),
  );
  expect(parsed).toEqual({
    version: 1,
    deployment: "prod",
    cluster: "0123456789ab",
    mode: "act",
    tookMs: 812,
    counts: { failure: 1, warning: 0, notChecked: 0, ok: 0 },
    findings: [
      {
        check: "work.parked",
        section: "work",
        looked: "parked keys",
        unit: "keys",
        of: "deployment",
        number: 1,
        state: "failure",
        seen: "shop/web",
        remedy: "Repair it.",
      },
    ],
  });
});

it("redacts a secret in an error message; an empty secret redacts nothing", () => {
  const findings = [failure("redis.answers", "no answer: WRONGPASS for hunter22, hunter22", "Look.")];
  expect(withoutSecrets(findings, ["hunter22", ""])[0]?.seen).toBe("no answer: WRONGPASS for ***, ***");
});
