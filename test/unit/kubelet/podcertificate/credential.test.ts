/**
 * Would catch: a request that is repeated or lost, a key that is used with another key's certificate, and a late certificate that is not
 * reported.
 */
import { describe, expect, it, test } from "vitest";
import { pemBlock } from "../../../../shared/node-agent/kubelet/certificate/pem.ts";
import { nextAct, reportLate, requestCreated, requestRead } from "../../../../shared/node-agent/kubelet/podcertificate/credential.ts";
import type { CertificateAnswer, Credential, Issued, Pending } from "../../../../shared/node-agent/kubelet/podcertificate/credential.ts";

const MINUTE = 60_000;
const BEGIN = Date.parse("2026-03-01T10:00:00Z");
const END = BEGIN + 60 * MINUTE;
const [LEAF, AUTHORITY] = ["leaf", "authority"].map((text) => pemBlock("CERTIFICATE", Buffer.from(text)));
const ISSUED: Issued = {
  privateKey: "old key",
  certificateChain: "old chain",
  beginRefreshAtMs: BEGIN,
  notAfterMs: END,
  isReportedOverdue: false,
  isReportedExpired: false,
};
const REQUEST = { name: "req-1", privateKey: "new key" };
const WAIT: Pending = { kind: "Wait", request: REQUEST };
const FRESH: Credential = { kind: "Fresh", issued: ISSUED };
const WAIT_REFRESH: Pending = { kind: "WaitRefresh", issued: ISSUED, request: REQUEST };

function answer(status?: CertificateAnswer["status"]): CertificateAnswer {
  return { metadata: { name: "req-1", namespace: "shop", uid: "u", resourceVersion: "1" }, ...(status && { status }) };
}

describe("[node-agent 510] the next action", () => {
  test.each<{ name: string; credential: Credential; nowMs: number; want: string }>([
    { name: "a create of the first request", credential: { kind: "Initial" }, nowMs: 0, want: "create" },
    { name: "a read while the request is pending", credential: WAIT, nowMs: 0, want: "read" },
    { name: "nothing before the refresh is due", credential: FRESH, nowMs: BEGIN - 1, want: "none" },
    { name: "a create of a request once the refresh is due", credential: FRESH, nowMs: BEGIN, want: "create" },
    { name: "a read while the refresh is pending", credential: WAIT_REFRESH, nowMs: END, want: "read" },
    { name: "nothing after a denial", credential: { kind: "Refused", message: "no" }, nowMs: END, want: "none" },
  ])("is $name", ({ credential, nowMs, want }) => {
    expect(nextAct(credential, nowMs)).toBe(want);
  });

  it("after a create keeps the issued certificate while its refresh is pending", () => {
    expect(requestCreated({ kind: "Initial" }, REQUEST)).toEqual(WAIT);
    expect(requestCreated(FRESH, REQUEST)).toEqual(WAIT_REFRESH);
  });
});

describe("[node-agent 510] the outcome of a PodCertificateRequest", () => {
  const denied = answer({ conditions: [{ type: "Denied", reason: "No", message: 'not "you"\n' }] });
  const failed = answer({ conditions: [{ type: "Failed" }] });

  test.each([WAIT, WAIT_REFRESH])("is permanent if it is denied or failed, in state $kind", (credential) => {
    const why = String.raw`reason="No"`;
    const text = String.raw`message="not \"you\"\n"`;
    expect(requestRead(credential, denied, 0)).toEqual({
      credential: { kind: "Refused", message: `PodCertificateRequest was permanently denied: ${why} ${text}` },
      events: [{ type: "Warning", reason: "Denied", message: `PodCertificateRequest shop/req-1 was denied, ${why}, ${text}` }],
    });
    expect(requestRead(credential, failed, 0)).toEqual({
      credential: { kind: "Refused", message: 'PodCertificateRequest was permanently failed: reason="" message=""' },
      events: [{ type: "Warning", reason: "Failed", message: 'PodCertificateRequest shop/req-1 failed, reason="", message=""' }],
    });
  });

  test.each([WAIT, WAIT_REFRESH])(
    "is a certificate for the request's key, whose refresh is spread over five minutes, in state $kind",
    (credential) => {
      const issued = answer({
        conditions: [{ type: "Issued" }],
        certificateChain: `leaf:\n${LEAF}and\n${AUTHORITY}.`,
        beginRefreshAt: "2026-03-01T10:00:00Z",
        notAfter: "2026-03-01T11:00:00Z",
      });
      expect(requestRead(credential, issued, 0.5)).toEqual({
        credential: {
          kind: "Fresh",
          issued: { ...ISSUED, privateKey: "new key", certificateChain: `${LEAF}${AUTHORITY}`, beginRefreshAtMs: BEGIN + 2.5 * MINUTE },
        },
        events: [],
      });
    },
  );

  test.each([answer(), answer({}), answer({ conditions: [{ type: "Other" }] })])("is pending without a final condition", (pending) => {
    expect(requestRead(WAIT, pending, 0)).toEqual({ credential: WAIT, events: [] });
    expect(requestRead(WAIT_REFRESH, pending, 0)).toEqual({ credential: WAIT_REFRESH, events: [] });
  });

  it("is a return to the previous state if the request was deleted, so that another is created", () => {
    expect(requestRead(WAIT, undefined, 0).credential).toEqual({ kind: "Initial" });
    expect(requestRead(WAIT_REFRESH, undefined, 0).credential).toEqual(FRESH);
  });
});

describe("[node-agent 510] an overdue certificate", () => {
  const overdue = { type: "Warning", reason: "CertificateOverdueForRefresh", message: "PodCertificate refresh overdue" };
  const expired = { type: "Warning", reason: "CertificateExpired", message: "PodCertificate expired" };

  test.each([FRESH, WAIT_REFRESH])(
    "is reported ten minutes after its refresh was due, and when it expires, each once, in state $kind",
    (first) => {
      const times = [BEGIN + 10 * MINUTE, BEGIN + 10 * MINUTE + 1, END, END + 1, END + MINUTE];
      const reported: unknown[] = [];
      times.reduce<Credential>((credential, nowMs) => {
        const step = reportLate(credential, nowMs);
        reported.push(step.events);
        return step.credential;
      }, first);
      expect(reported).toEqual([[], [overdue], [], [expired], []]);
    },
  );

  it("is reported as overdue and as expired at once after a long pause, but only if it was issued", () => {
    expect(reportLate(FRESH, END + 1).events).toEqual([overdue, expired]);
    for (const credential of [WAIT, { kind: "Initial" }, { kind: "Refused", message: "no" }] as const)
      expect(reportLate(credential, END + 1)).toEqual({ credential, events: [] });
  });
});
