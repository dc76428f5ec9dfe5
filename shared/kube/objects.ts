export {
  BUILT_IN,
  catalogOf,
  checkListed,
  controllerIn,
  infoIn,
  listsPrimaries,
  ownedSlices,
  ownerIdIn,
  slicesIn,
} from "./objects/catalog.ts";
export type { Catalog, CatalogEntry, RowTexts } from "./objects/catalog.ts";
export type {
  Cached,
  CachedDeployment,
  CachedMeta,
  CachedObject,
  CachedPod,
  CachedReplicaSet,
  CachedReplicationController,
  CachedTemplate,
  DeploymentStatus,
  ReplicaSetStatus,
} from "./objects/cached.ts";
export { isKnownSentence, withoutForeignMessages } from "./objects/condition-messages.ts";
export { getCondition, removeCondition, setDeploymentCondition, setReplicaSetCondition } from "./objects/conditions.ts";
export { MalformedObjectError, messageOf } from "./objects/errors.ts";
export { mappedSlice, ownerId, ownerOfCached, podOwnerId, primaryAsOwner, sameOwner } from "./objects/owner-id.ts";
export type { OwnerId } from "./objects/owner-id.ts";
export { controllerRef, isControlledBy, ownerReferenceTo, referencedKey, sameControllerRef } from "./objects/owner-references.ts";
export { isActive, isAvailable, isReady, isTerminal, isTerminating } from "./objects/pod.ts";
export { KUBERNETES_MAJOR, KUBERNETES_MINOR, KUBERNETES_VERSION } from "./objects/release.ts";
export {
  compareResourceVersions,
  isCurrent,
  isResourceVersion,
  maxResourceVersion,
  minResourceVersion,
} from "./objects/resource-version.ts";
export {
  CACHED_RESOURCES,
  EVIDENCE_RESOURCES,
  CONTROLLERS,
  CONTROLLER_INFO,
  RESOURCES,
  controllerOf,
  isBuiltIn,
  isOwnView,
  objectKey,
  resourceId,
  splitKey,
  tableOf,
} from "./objects/resources.ts";
export type {
  CachedResource,
  Controller,
  ControllerInfo,
  ControllerName,
  EvidenceResource,
  ObjectKey,
  OwnController,
  OwnView,
  Resource,
  ResourceInfo,
  SliceInfo,
  View,
} from "./objects/resources.ts";
export { formatTime, parseTime } from "./objects/time.ts";
export type {
  Condition,
  KubeObject,
  LabelSelector,
  Labels,
  Lease,
  ObjectMeta,
  OwnerReference,
  Pod,
  PodTemplateSpec,
  Wire,
} from "./objects/wire.ts";
