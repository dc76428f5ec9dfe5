// Would catch: a clone's function that writes, a request for each call, a proof that is still used after its connection or term has ended,
// and a missing alarm.
import { expect, it as base } from "vitest";

import { createVirtualClock } from "../../../shared/base/memory/clock.ts";
import { LEASE_TERMS } from "../../../shared/controllers/cache/watcher/lineage.ts";
import { createLeaseProof, PROOF_MS, provenReader, UnprovenError } from "../../../shared/controllers/kit/lease-proof.ts";
import { withProof } from "../../../shared/controllers/kit/proven-ports.ts";
import { UnansweredError } from "../../../shared/kube/client/errors.ts";
import { CACHED_RESOURCES } from "../../../shared/kube/objects/resources.ts";
import { recordingLog } from "../recording-log.ts";

const TOKEN = { term: "a", count: 4 };

const it = base.extend("s", async () => {
  const clock = createVirtualClock(1_000_000);
  const log = recordingLog();
  const marked: string[] = [];
  const state = { terms: "a.4", gets: 0, isAway: false, failing: 0, pausedMs: [] as number[], connectionFailed: (): void => undefined };
  const get = async (): Promise<never> => {
    state.gets++;
    if (state.failing-- > 0) state.connectionFailed();
    await clock.advance(state.pausedMs.shift() ?? 0);
    if (state.isAway) throw new UnansweredError("unavailable");
    return { metadata: { annotations: { [LEASE_TERMS]: state.terms } } } as never; // the proof reads only this field
  };
  const store = { markSuspect: async (resource: string) => void marked.push(resource) };
  const proof = createLeaseProof({ reader: { get }, store, clock, log }, { namespace: "deltaloop", name: "lease" });
  return { clock, log, marked, state, proof };
});

it("one read of the Lease serves all callers for ten seconds", async ({ s: { proof, clock, state } }) => {
  await Promise.all(Array.from({ length: 50 }, () => proof.require("e1", TOKEN)));
  await clock.advance(PROOF_MS - 1);
  await proof.require("e1", { term: "a", count: 9 }); // the same term
  expect(state.gets).toBe(1);
  await clock.advance(1);
  await proof.require("e1", TOKEN);
  expect(state.gets).toBe(2);
});

it("a verification that the Lease lists a term is valid only for that term and its epoch", async ({ s: { proof, state } }) => {
  await proof.require("e1", TOKEN);
  await expect(proof.require("e1", { term: "b", count: 0 })).rejects.toThrow(UnprovenError);
  state.terms = "a.4 b.0";
  await expect(proof.require("e1", { term: "b", count: 1 })).rejects.toThrow(UnprovenError);
  await proof.require("e2", TOKEN);
  expect(state.gets).toBe(3); // within a second, the first rejection of `b` is returned again
});

it("rejects a term that the Lease lists with a smaller count; an older build's epoch needs no verification", async ({ s }) => {
  await expect(s.proof.require("e1", { term: "a", count: 5 })).rejects.toThrow("does not list a.5");
  await s.proof.require("e1", undefined);
  expect(s.state.gets).toBe(1);
});

it("a write-through with a verification is sent before its caller continues, so that a take that follows it arrives later", async ({
  s,
}) => {
  const sent: string[] = [];
  const store = { writeThrough: () => Promise.resolve(sent.push("writeThrough")) };
  const ports = { reader: {}, gateway: {}, store, proof: s.proof } as never; // only `store` is used
  const run = { epoch: "e1", lineage: { token: TOKEN } } as never; // withProof reads no other field
  const proven = withProof(ports, run).store as unknown as typeof store; // `store` above ignores the parameters
  const first = proven.writeThrough();
  expect(sent).toEqual([]); // the Lease is read first
  await first;
  expect(sent).toHaveLength(1);
  const second = proven.writeThrough();
  expect(sent).toHaveLength(2);
  await second;
  s.proof.connectionFailed();
  s.state.terms = "b.0";
  await expect(proven.writeThrough()).rejects.toThrow(UnprovenError);
  expect(sent).toHaveLength(2);
});

it("LP3 a response that is ten seconds old, because the process was paused, is not used, and the Lease is read again", async ({ s }) => {
  s.state.pausedMs = [PROOF_MS, PROOF_MS - 1];
  await s.proof.require("e1", TOKEN);
  expect(s.state.gets).toBe(2);
});

it("a connection error invalidates the verification, even for a call in flight", async ({ s: { proof, state } }) => {
  await proof.require("e1", TOKEN);
  const away = {
    get: () => Promise.reject(new UnansweredError("unavailable")),
    list: () => Promise.reject(new UnansweredError("unavailable")),
  };
  const reader = provenReader(away, proof, () => proof.require("e1", TOKEN));
  await expect(reader.get("pods", "shop", "a")).rejects.toThrow("unavailable");
  expect(state.gets).toBe(1);
  await expect(reader.list("pods", "shop")).rejects.toThrow("unavailable");
  expect(state.gets).toBe(2);
});

it("reads the Lease again immediately, a few times, if another connection fails during the read", async ({ s: { proof, state } }) => {
  state.connectionFailed = () => proof.connectionFailed();
  state.failing = 2;
  await proof.require("e1", TOKEN);
  expect(state.gets).toBe(3);
  proof.connectionFailed();
  state.failing = 1_000;
  await expect(proof.require("e1", TOKEN)).rejects.toThrow("connections keep failing");
  expect(state.gets).toBe(7);
});

it("a failing verification is retried once a second, and logs an error after 30 s", async ({ s: { proof, clock, state, log } }) => {
  state.isAway = true;
  const alarms = () => log.lines.filter(({ level }) => level === "error").length;
  for (let ms = 0; ms < 30_000; ms += 100) {
    await expect(proof.require("e1", TOKEN)).rejects.toThrow(UnprovenError);
    await clock.advance(100);
  }
  expect([state.gets, alarms()]).toEqual([30, 0]);
  await expect(proof.require("e1", TOKEN)).rejects.toThrow(UnprovenError);
  expect(alarms()).toBe(1);
  state.isAway = false;
  await clock.advance(1_000);
  await proof.require("e1", TOKEN);
});

it("marks all resources SUSPECT when `take` returns an older checkpoint than before", async ({ s: { proof, marked } }) => {
  const shown = (number: number, fence = "100") => ({ token: TOKEN, fence, marks: 0, checkpoint: { fence, number } });
  expect(await proof.compare(proof.seen(), "e1", shown(5))).toBe(false);
  const before = proof.seen();
  expect(await proof.compare(proof.seen(), "e1", shown(6))).toBe(false);
  expect(await proof.compare(before, "e1", shown(5))).toBe(false); // the key was taken before count 6 was read
  expect(await proof.compare(proof.seen(), "e1", shown(1, "101"))).toBe(false);
  expect(await proof.compare(proof.seen(), "e2", shown(1, "7"))).toBe(false);
  expect(marked).toEqual([]);
  await proof.compare(proof.seen(), "e2", shown(2, "7"));
  expect(await proof.compare(proof.seen(), "e2", shown(1, "7"))).toBe(true);
  expect(marked).toEqual([...CACHED_RESOURCES]);
  expect(proof.seen()).toBeUndefined();
});
