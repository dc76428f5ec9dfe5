export { createVirtualClock } from "./memory/clock.ts";
export type { VirtualClock } from "./memory/clock.ts";
export { createSeededRandom } from "./memory/random.ts";
