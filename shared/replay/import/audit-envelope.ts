/**
 * Audit events as managed clusters export them: as text within a record of the cloud's log service, alone or in a list. AKS resource logs
 * have it in `properties.log`; CloudWatch Logs in `events` of FilterLogEvents and `logEvents` of subscriptions.
 */
import { parseExact } from "@deltaloop/base";
import { isObject } from "../capture-format/capture.ts";
import type { CapturedObject } from "../capture-format/capture.ts";
import type { ImportReport } from "./report.ts";

const LISTS = ["events", "logEvents", "records"] as const;

export function isAuditEvent(value: CapturedObject): boolean {
  return typeof value["apiVersion"] === "string" && value["apiVersion"].startsWith("audit.k8s.io/");
}

/**
 * The audit events in a record of a log service; the value itself if it is not such a record. Skips records of other logs, and reports
 * events whose text the service truncated.
 */
export function auditEventsOf(value: CapturedObject, report: ImportReport): readonly CapturedObject[] {
  // An EventList, the format of audit webhooks.
  if (isAuditEvent(value) || Array.isArray(value["items"]))
    return Array.isArray(value["items"]) ? value["items"].filter(isObject) : [value];
  return isLogRecord(value)
    ? textsOf(value)
        .flatMap((text) => parsed(text, report))
        .filter(isAuditEvent)
    : [value];
}

export function isLogRecord(value: CapturedObject): boolean {
  return textsOf(value).length > 0;
}

function textsOf(value: CapturedObject): readonly string[] {
  const records = LISTS.flatMap((list) => (Array.isArray(value[list]) ? value[list].filter(isObject) : []));
  const logs = [value, ...records].map(({ properties }) => (isObject(properties) ? properties["log"] : undefined));
  return [...logs, ...records.map(({ message }) => message)].filter((text) => typeof text === "string");
}

function parsed(text: string, report: ImportReport): readonly CapturedObject[] {
  try {
    const value = parseExact(text);
    return isObject(value) ? [value] : [];
  } catch {
    if (/^\s*\{/.test(text) && text.includes("audit.k8s.io/"))
      report.lost("an audit event that the log service truncated: the object's next write shows the effect");
    return [];
  }
}
