// Would catch: a setting that is read differently than by the kubelet, an invalid setting that is accepted, and a file system without
// thresholds.
import { expect, it } from "vitest";
import {
  amountOf,
  DEFAULT_EVICTION,
  parseStatements,
  parseThresholds,
  withContainerFs,
} from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";
import type { Threshold } from "../../../../shared/node-agent/kubelet/types/eviction-thresholds.ts";

const statements = (text: string, separator: "<" | "=" = "="): ReadonlyMap<string, string> => parseStatements(text, separator);
interface Settings {
  readonly hard?: string;
  readonly soft?: string;
  readonly grace?: string;
  readonly reclaim?: string;
}
const parsed = ({ hard = "", soft = "", grace = "", reclaim = "" }: Settings): readonly Threshold[] =>
  parseThresholds({
    hard: statements(hard, "<"),
    soft: statements(soft, "<"),
    softGracePeriods: statements(grace),
    minimumReclaims: statements(reclaim),
  });
const hard = (signal: Threshold["signal"], value: Threshold["value"]): Threshold => ({ signal, value, gracePeriodMs: 0 });
const MI = 1024 ** 2;

it.each<Settings & { readonly name: string; readonly want: readonly Threshold[] }>([
  { name: "no flags", want: [] },
  { name: "0% and 100% set no threshold", hard: "memory.available<0%,nodefs.available<100%", want: [] },
  { name: "an absolute amount", hard: "memory.available<150Mi", want: [hard("memory.available", { amount: 150 * MI })] },
  {
    name: "a percentage, as a 32-bit float",
    hard: "nodefs.available<10.5%",
    want: [hard("nodefs.available", { share: Math.fround(0.105) })],
  },
  {
    name: "hard before soft, with or without spaces",
    hard: " memory.available < 150Mi ,pid.available<1k",
    soft: "memory.available<300Mi",
    grace: "memory.available=1m30s",
    want: [
      hard("memory.available", { amount: 150 * MI }),
      hard("pid.available", { amount: 1000 }),
      { signal: "memory.available", value: { amount: 300 * MI }, gracePeriodMs: 90_000 },
    ],
  },
  {
    name: "minimum reclaim for hard and soft thresholds",
    hard: "imagefs.available<150Mi",
    soft: "imagefs.available<20%",
    grace: "imagefs.available=0.5h",
    reclaim: "imagefs.available=10%,memory.available=0",
    want: [
      { ...hard("imagefs.available", { amount: 150 * MI }), minReclaim: { share: Math.fround(0.1) } },
      {
        signal: "imagefs.available",
        value: { share: Math.fround(0.2) },
        gracePeriodMs: 1_800_000,
        minReclaim: { share: Math.fround(0.1) },
      },
    ],
  },
  {
    name: "a grace period of 0 makes a soft threshold hard",
    soft: "memory.available<1",
    grace: "memory.available=0",
    want: [hard("memory.available", { amount: 1 })],
  },
])("[node-agent 200] thresholds: $name", ({ want, ...settings }) => {
  expect(parsed(settings)).toEqual(want);
});

it.each<Settings & { readonly want: string }>([
  { hard: "memory.available=1Gi", want: "malformed pair, expect string<string" },
  { soft: "memory.available<1Gi", grace: "memory.available", want: "malformed pair, expect string=string" },
  { hard: "mem.available<1Gi", want: "unsupported eviction signal mem.available" },
  { hard: "memory.available<-1Gi", want: "eviction threshold memory.available must be positive: -1Gi" },
  { hard: "memory.available<0", want: "eviction threshold memory.available must be positive: 0" },
  { hard: "memory.available<-5%", want: "eviction percentage threshold memory.available must be >= 0%: -5%" },
  { hard: "memory.available<101%", want: "eviction percentage threshold memory.available must be <= 100%: 101%" },
  { hard: "memory.available<a%", want: 'strconv.ParseFloat: parsing "a": invalid syntax' },
  { hard: "memory.available<lots", want: "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'" },
  { soft: "memory.available<1Gi", want: "grace period must be specified for the soft eviction threshold memory.available" },
  { grace: "nothing=1m", want: "unsupported eviction signal nothing" },
  { grace: "memory.available=-1m", want: "invalid eviction grace period specified: -1m, must be a positive value" },
  { grace: "memory.available=1", want: 'time: invalid duration "1"' },
  { reclaim: "nothing=1", want: "unsupported eviction signal nothing" },
  { reclaim: "memory.available=-1", want: "negative eviction minimum reclaim specified for memory.available" },
  { reclaim: "memory.available=0%", want: "eviction percentage minimum reclaim memory.available must be positive: 0%" },
])("[node-agent 201] rejects invalid thresholds: $want", ({ want, ...settings }) => {
  expect(() => parsed(settings)).toThrow(expect.objectContaining({ name: "EvictionSettingError", message: want }));
});

it("[node-agent 249] copies the node's hard memory threshold to allocatableMemory.available if the limit of the kubepods cgroup is enforced", () => {
  const of = (hardOnes: string, enforcesPods: boolean) =>
    parseThresholds({
      hard: parseStatements(hardOnes, "<"),
      soft: parseStatements("memory.available<2Gi", "<"),
      softGracePeriods: parseStatements("memory.available=1m", "="),
      minimumReclaims: parseStatements("memory.available=7", "="),
      enforcesPods,
    }).flatMap(({ signal, value, gracePeriodMs, minReclaim }) =>
      signal === "allocatableMemory.available" ? [{ value, gracePeriodMs, minReclaim }] : [],
    );
  const copied = { gracePeriodMs: 0, minReclaim: { amount: 7 } };
  expect(of("memory.available<100,nodefs.available<5", true)).toEqual([{ ...copied, value: { amount: 100 } }]);
  expect(of("memory.available<10%", true)).toEqual([{ ...copied, value: { share: Math.fround(0.1) } }]);
  expect(of("memory.available<100", false)).toEqual([]);
  expect(of("nodefs.available<5", true)).toEqual([]);
});

it("[node-agent 200] has defaults without flags", () => {
  expect(DEFAULT_EVICTION).toEqual({
    thresholds: parsed({
      hard: "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,imagefs.available<15%,imagefs.inodesFree<5%",
    }),
    maxPodGracePeriodSeconds: 0,
    pressureTransitionMs: 300_000,
  });
});

it("[node-agent 200] truncates a percentage to a whole number", () => {
  expect([amountOf({ share: Math.fround(0.1) }, 1005), amountOf({ amount: 7 }, 1005)]).toEqual([100, 7]);
});

it.each([
  { disks: { hasImageFs: false, splitsContainerFs: false }, want: ["nodefs.available 10", "nodefs.inodesFree 5"] },
  { disks: { hasImageFs: true, splitsContainerFs: true }, want: ["nodefs.available 10", "nodefs.inodesFree 5"] },
  { disks: { hasImageFs: true, splitsContainerFs: false }, want: ["imagefs.available 15", "imagefs.inodesFree 4"] },
])("[node-agent 202] containerfs thresholds with $disks: $want", ({ disks, want }) => {
  const text = "nodefs.available<10,nodefs.inodesFree<5,imagefs.available<15,imagefs.inodesFree<4,containerfs.available<99";
  const like = want[0]?.split(".")[0] ?? "";
  const shown = withContainerFs(parsed({ hard: text }), disks)
    .filter(({ signal }) => signal.startsWith("containerfs."))
    .map(({ signal, value }) => `${signal.replace("containerfs", like)} ${"amount" in value ? value.amount : "?"}`);
  expect(shown).toEqual(want);
});
