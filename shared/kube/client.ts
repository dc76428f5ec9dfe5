export { readClusterIdentity } from "./client/cluster-id.ts";
export type { ClusterIdentity } from "./client/cluster-id.ts";
export { describeError } from "./client/describe-error.ts";
export {
  KubeApiError,
  NotSentError,
  TerminalError,
  NotKubernetesError,
  UnansweredError,
  isAlreadyExists,
  isConflict,
  isForbidden,
  isGone,
  isInvalid,
  isNamespaceTerminating,
  isNotFound,
  isTooLargeResourceVersion,
  isTooManyRequests,
  isUnanswered,
  isUnauthorized,
} from "./client/errors.ts";
export { CALLS_AT_ONCE_MAX, lineOf } from "./client/kube.ts";
export type {
  CreateRequest,
  DeleteRequest,
  Kube,
  KubeList,
  KubeReader,
  KubeWatch,
  KubeWriter,
  ListPage,
  ListQuery,
  PatchRequest,
  PatchType,
  Target,
  WatchFrame,
  WatchQuery,
} from "./client/kube.ts";
export { createPager } from "./client/page-size.ts";
