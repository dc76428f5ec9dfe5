export { afterAnswer, afterTaken, contestedBackOffMs } from "./writes/after-answer.ts";
export { decideWrites } from "./writes/decide-writes.ts";
export { contentOf, isContested, isManagedBy, managerOf, recordOf, sentText, statusContentOf, upgradePatch } from "./writes/last-write.ts";
export { stagesOf } from "./writes/stages.ts";
export { idText, wantedBy } from "./writes/wanted.ts";
export type { AfterAnswer, OwnAnswer } from "./writes/after-answer.ts";
export type { CachedOwned, Decided, Observed, OwnWrite, Reason } from "./writes/decide-writes.ts";
export type { Digest, LastWrite, SentWrite } from "./writes/last-write.ts";
export type { ObjectBody, ObjectId, OwnerReference, Primary, Wanted } from "./writes/wanted.ts";
