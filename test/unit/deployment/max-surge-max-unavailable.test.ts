// Rounding of maxSurge and maxUnavailable, and the bounds of a rollout.
import { describe, expect, it } from "vitest";
import {
  type IntOrPercent,
  maxSurge,
  unavailableOf,
  resolveFenceposts,
} from "../../../shared/controllers/deployment/max-surge-max-unavailable.ts";
import { newRSNewReplicas } from "../../../shared/controllers/deployment/rolling.ts";
import { deployment, replicaSet } from "./builders.ts";

type Value = IntOrPercent | undefined;

describe("resolveFenceposts", () => {
  const table: { id: string; surge: Value; unavailable: Value; replicas: number; want: readonly [number, number]; error?: RegExp }[] = [
    { id: "[deployment T61]", surge: "0%", unavailable: "0%", replicas: 0, want: [0, 1] },
    { id: "[deployment T62]", surge: "39%", unavailable: "39%", replicas: 10, want: [4, 3] },
    { id: "[deployment T63]", surge: "oops", unavailable: "39%", replicas: 10, want: [0, 0], error: /not a percentage/ },
    { id: "[deployment T64]", surge: "55%", unavailable: "urg", replicas: 10, want: [0, 0], error: /not a percentage/ },
    { id: "[deployment T65]", surge: undefined, unavailable: "39%", replicas: 10, want: [0, 3] },
    { id: "[deployment T66]", surge: "39%", unavailable: undefined, replicas: 10, want: [4, 0] },
    { id: "[deployment T67]", surge: undefined, unavailable: undefined, replicas: 10, want: [0, 1] },
  ];
  it.each(table)(
    "$id maxSurge $surge and maxUnavailable $unavailable of $replicas replicas → $want",
    ({ surge, unavailable, replicas, want, error }) => {
      const got = resolveFenceposts(surge, unavailable, replicas);
      expect([got.surge, got.unavailable]).toEqual(want);
      if (error === undefined) expect(got.error).toBeUndefined();
      else expect(got.error).toMatch(error);
    },
  );

  it("returns integers unchanged", () => {
    expect(resolveFenceposts(3, 2, 10)).toEqual({ surge: 3, unavailable: 2 });
  });

  it.each([
    ["x%", 'strconv.Atoi: parsing "x": invalid syntax'],
    ["%", 'strconv.Atoi: parsing "": invalid syntax'],
    ["1_0%", 'strconv.Atoi: parsing "1_0": invalid syntax'],
    ["9223372036854775808%", 'strconv.Atoi: parsing "9223372036854775808": value out of range'],
    ["-9223372036854775809%", 'strconv.Atoi: parsing "-9223372036854775809": value out of range'],
  ])("returns Go's error for %s", (value, why) => {
    expect(resolveFenceposts(value, 2, 10).error).toBe(`invalid value for IntOrString: invalid value "${value}": ${why}`);
  });

  it("accepts a plus sign", () => {
    expect(resolveFenceposts("+20%", 1, 10)).toEqual({ surge: 2, unavailable: 1 });
  });
});

describe("maxUnavailable", () => {
  const table: { replicas: number; unavailable: Value; strategy: string; want: number }[] = [
    { replicas: 10, unavailable: 5, strategy: "RollingUpdate", want: 5 },
    { replicas: 10, unavailable: 10, strategy: "RollingUpdate", want: 10 },
    { replicas: 5, unavailable: 10, strategy: "RollingUpdate", want: 5 },
    { replicas: 0, unavailable: 10, strategy: "RollingUpdate", want: 0 },
    { replicas: 10, unavailable: 5, strategy: "Recreate", want: 0 },
    { replicas: 10, unavailable: "50%", strategy: "RollingUpdate", want: 5 },
    { replicas: 10, unavailable: "100%", strategy: "RollingUpdate", want: 10 },
    { replicas: 5, unavailable: "100%", strategy: "RollingUpdate", want: 5 },
    { replicas: 10, unavailable: "oops", strategy: "RollingUpdate", want: 0 },
  ];
  it.each(table)(
    "[deployment T68] maxUnavailable $unavailable of $replicas replicas, strategy $strategy → $want",
    ({ replicas, unavailable, strategy, want }) => {
      expect(unavailableOf(deployment({ replicas, surge: 1, unavailable: unavailable ?? 0, strategy })).decided).toBe(want);
    },
  );
});

describe("minAvailable", () => {
  const table: { replicas: number; unavailable: IntOrPercent; strategy: string; want: number }[] = [
    { replicas: 10, unavailable: 5, strategy: "RollingUpdate", want: 5 },
    { replicas: 10, unavailable: 10, strategy: "RollingUpdate", want: 0 },
    { replicas: 5, unavailable: 10, strategy: "RollingUpdate", want: 0 },
    { replicas: 0, unavailable: 10, strategy: "RollingUpdate", want: 0 },
    { replicas: 10, unavailable: "60%", strategy: "RollingUpdate", want: 4 },
    { replicas: 10, unavailable: "100%", strategy: "RollingUpdate", want: 0 },
    { replicas: 5, unavailable: "100%", strategy: "RollingUpdate", want: 0 },
  ];
  it.each(table)(
    "[deployment T69] minAvailable for maxUnavailable $unavailable of $replicas replicas, strategy $strategy → $want",
    ({ replicas, unavailable, strategy, want }) => {
      expect(replicas - unavailableOf(deployment({ replicas, surge: 1, unavailable, strategy })).decided).toBe(want);
    },
  );
});

describe("maxSurge", () => {
  it("maxSurge is 0 for Recreate and for an invalid value", () => {
    expect(maxSurge(deployment({ replicas: 10, surge: "25%" }))).toBe(3);
    expect(maxSurge(deployment({ strategy: "Recreate" }))).toBe(0);
    expect(maxSurge(deployment({ replicas: 10, surge: "oops" }))).toBe(0);
  });
});

describe("newRSNewReplicas", () => {
  it("[deployment T46] the new ReplicaSet keeps its size if all ReplicaSets together exceed replicas plus maxSurge", () => {
    expect(newRSNewReplicas(deployment({ replicas: 1, surge: 1 }), 5, [replicaSet("old", { size: 5 })]).decided).toBe(5);
  });
  it("[deployment T47] grows to spec.replicas at most, even if maxSurge allows more", () => {
    expect(newRSNewReplicas(deployment({ replicas: 6, surge: 10 }), 2, [replicaSet("old", { size: 5 })]).decided).toBe(6);
  });
  it("[deployment T48] the new ReplicaSet's size is spec.replicas for Recreate", () => {
    expect(newRSNewReplicas(deployment({ replicas: 3, strategy: "Recreate" }), 1, [replicaSet("old", { size: 5 })]).decided).toBe(3);
  });
  it("throws where upstream returns an error: an invalid maxSurge, an unknown strategy", () => {
    expect(() => newRSNewReplicas(deployment({ replicas: 3, surge: "oops" }), 1, [])).toThrow("not a percentage");
    expect(() => newRSNewReplicas(deployment({ replicas: 3, strategy: "Sometimes" }), 1, [])).toThrow(
      "deployment type Sometimes isn't supported",
    );
  });
});
