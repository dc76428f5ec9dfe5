// Would catch: a token that expires in its volume, a token that is requested too often, and simultaneous requests of all pods.
import { describe, expect, it } from "vitest";
import { tokenRenewalAtMs } from "../../../../shared/node-agent/kubelet/volume/volume-payload.ts";
import { NOW_MS } from "../fixtures.ts";

const MINUTE_MS = 60_000;

describe("tokenRenewalAtMs", () => {
  const table: { name: string; lifeMinutes: number; random: number; wantMs: number }[] = [
    { name: "is 80 % of an hour", lifeMinutes: 60, random: 0, wantMs: 48 * MINUTE_MS },
    { name: "is 80 % of the shortest lifetime", lifeMinutes: 10, random: 0, wantMs: 8 * MINUTE_MS },
    { name: "is up to ten seconds earlier", lifeMinutes: 60, random: 0.5, wantMs: 48 * MINUTE_MS - 5_000 },
    { name: "is 24 hours for a token with a longer lifetime", lifeMinutes: 48 * 60, random: 0, wantMs: 24 * 60 * MINUTE_MS },
    { name: "is 80 % of 30 hours, which equals 24 hours", lifeMinutes: 30 * 60, random: 0, wantMs: 24 * 60 * MINUTE_MS },
    { name: "is up to ten seconds earlier than 24 hours", lifeMinutes: 31 * 60, random: 0.9, wantMs: 24 * 60 * MINUTE_MS - 9_000 },
  ];
  it.each(table)("a token's renewal time $name", ({ lifeMinutes, random, wantMs }) => {
    expect(tokenRenewalAtMs(NOW_MS, NOW_MS + lifeMinutes * MINUTE_MS, random) - NOW_MS).toBe(wantMs);
  });
});
