export { afterPoll, inputDeadline } from "./system/after-poll.ts";
export { createSystemClock } from "./system/clock.ts";
export { createSystemRandom } from "./system/random.ts";
export { replaceFile } from "./system/replace-file.ts";
