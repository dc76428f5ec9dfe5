export { LANES, laneOf, lanesOf } from "./lane.ts";
export type { DeltaQueue, MessageSource, QueueEntry, ReceivedMessage, SendResult } from "./ports/delta-queue.ts";
export { doorbellParts } from "./ports/doorbells.ts";
export type { Doorbell, DoorbellMessage, Doorbells } from "./ports/doorbells.ts";
export { LEFT_FIELD } from "./decision-mark.ts";
export { ForgedRowsError } from "./ports/errors.ts";
export { SKEW_MS, STOPS_MAX, describeForeignWrite, describeStop, stoppedNamespaces } from "./ports/guard-store.ts";
export { EPOCHS_MAX, EPOCHS_REASON, EPOCHS_WINDOW_MS, isOlderCheckpoint, lists, UNPROVEN_REASON } from "./ports/lineage.ts";
export { MEMBER_FORGET_MS, MEMBER_SILENT_MS, MOVES_MAX } from "./ports/members.ts";
export type { BeatResult, Member, MemberClaims, Members } from "./ports/members.ts";
export { SecretError } from "./ports/secrets.ts";
export type { SecretValues, Secrets } from "./ports/secrets.ts";
export type {
  AnyTaken,
  ApplyResult,
  Checkpoint,
  CachedEntry,
  DoneResult,
  Effect,
  Ended,
  EpochRecord,
  EpochStore,
  ForeignWrite,
  ForeignWrites,
  Forged,
  Forgery,
  GuardState,
  IndexRequest,
  IndexStore,
  IndexView,
  DecisionMark,
  Intent,
  ItemChange,
  KeyStore,
  KeyUse,
  LastWriteRecord,
  Lineage,
  ManifestRow,
  NamespaceCount,
  Outcome,
  PackHeader,
  ParkedKey,
  Proof,
  QuarantineEntry,
  RecordChange,
  Heartbeat,
  HeartbeatLane,
  ResourceHealth,
  Row,
  SliceRef,
  PodCache,
  Snapshot,
  Stop,
  Store,
  TakeResult,
  Taken,
  TakenLineage,
  TermToken,
  ToldHappening,
  WorkQueue,
  WriteThrough,
} from "./ports/store.ts";
export { FATES } from "./ports/tallies.ts";
export { SIGNATURE_CHARACTERS, createSigner } from "./signer.ts";
export type { SignedDomain, Signer } from "./signer.ts";
export type { StoreIdentity, StoreOptions } from "./store-options.ts";
