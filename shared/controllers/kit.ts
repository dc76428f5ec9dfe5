export type { Reason } from "./kit/reason.ts";
export type { Replaced } from "./kit/replaced.ts";
export type { TraceLine } from "./kit/run.ts";
export type { KeySync } from "./kit/sync/key-sync.ts";
export { createSession } from "./kit/sync/session.ts";
export type { SyncHandler } from "./kit/sync/session.ts";
export type { WriteGateway } from "./kit/write-gateway/gateway.ts";
export { createWriteGateway } from "./kit/write-gateway/write-gateway.ts";
export type { Owner, Write } from "./kit/writes.ts";
