/** When a quiet process collects its garbage. Catches collections that delay work, and ones that gain nothing. */
import { expect, it } from "vitest";

import { isCollectionDue } from "../../../shared/local/processes/idle-memory.ts";
import type { Collected, MemoryLook } from "../../../shared/local/processes/idle-memory.ts";

const MIB = 1024 * 1024;
const LAST: Collected = { heapBytes: 30 * MIB, nowMs: 100_000 };
const LOOK: MemoryLook = { cpuShare: 0.06, heapBytes: 50 * MIB, nowMs: 200_000 };

it.each<{ readonly what: string; readonly look: Partial<MemoryLook>; readonly last: Collected | undefined; readonly want: boolean }>([
  { what: "collects when it is quiet for the first time", look: {}, last: undefined, want: true },
  { what: "does not collect while it works", look: { cpuShare: 0.5 }, last: undefined, want: false },
  { what: "does not collect a heap that takes long", look: { heapBytes: 200 * MIB }, last: undefined, want: false },
  { what: "collects again after its heap has grown", look: {}, last: LAST, want: true },
  { what: "does not collect a heap that has hardly grown", look: { heapBytes: 35 * MIB }, last: LAST, want: false },
  { what: "does not collect twice within a minute", look: { nowMs: 130_000 }, last: LAST, want: false },
])("a process $what", ({ look, last, want }) => {
  expect(isCollectionDue({ ...LOOK, ...look }, last)).toBe(want);
});
