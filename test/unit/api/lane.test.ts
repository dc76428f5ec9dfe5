/** Lanes: a stable hash, so that an upgrade does not move objects between lanes. */
import { describe, expect, it } from "vitest";
import { LANES, laneOf } from "../../../shared/store/lane.ts";

describe("laneOf", () => {
  it("the lane is the CRC-32 (whose check value is cbf43926) modulo the number of lanes", () => {
    expect(laneOf("123456789", 2 ** 32)).toBe(0xcbf43926);
    expect(laneOf("shop/web-7f8fb-x2x4z", LANES.pods)).toBe(8);
    expect(laneOf("shop/web", LANES.replicationcontrollers)).toBe(0);
  });

  it("every lane is used, and none for more than twice its share", () => {
    const counts = Array.from({ length: LANES.pods }, () => 0);
    for (let index = 0; index < 1600; index++) {
      const lane = laneOf(`shop/web-${index}`, LANES.pods);
      counts[lane] = (counts[lane] ?? 0) + 1;
    }
    expect(Math.min(...counts)).toBeGreaterThan(50);
    expect(Math.max(...counts)).toBeLessThan(200);
  });

  it("each cached resource has a number of lanes", () => {
    expect(LANES).toEqual({ pods: 16, replicasets: 4, deployments: 2, replicationcontrollers: 1 });
  });
});
