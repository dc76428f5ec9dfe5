export { clientTemplate, servingTemplate } from "./kubelet/certificate/rotation.ts";
export { PodSources } from "./kubelet/config/pod-sources.ts";
export { kubepodsCgroup, reservedCgroup } from "./kubelet/container-manager/cgroup-name.ts";
export { ContainerManager } from "./kubelet/container-manager/container-manager.ts";
export { ReservedError, parseReserved, together } from "./kubelet/container-manager/reserved.ts";
export { noEvents, recordEvent } from "./kubelet/events/event-recorder.ts";
export type { EventRequest, NodeEvent } from "./kubelet/events/event-recorder.ts";
export { podEventRecorder } from "./kubelet/events/pod-events.ts";
export { Evictor } from "./kubelet/eviction/eviction-manager.ts";
export { housekeep } from "./kubelet/housekeeping/housekeeping.ts";
export { parseProviders } from "./kubelet/images/credential-provider.ts";
export type { CredentialProvider } from "./kubelet/images/credential-provider.ts";
export { ImageCollector } from "./kubelet/images/image-gc-manager.ts";
export { ImagePuller } from "./kubelet/images/image-puller.ts";
export { DEFAULT_IMAGE_PULLS, imagePullMistakes, serializesByDefault } from "./kubelet/images/pull-policy.ts";
export { LogRotation, collectGarbage } from "./kubelet/kuberuntime/collect-garbage.ts";
export { KnownStatuses } from "./kubelet/node-ports/known-statuses.ts";
export type { NodeCondition, NodeHandler, NodePorts, NodeQueue } from "./kubelet/node-ports/node-ports.ts";
export { ObjectCache } from "./kubelet/node-ports/object-cache.ts";
export { Operations } from "./kubelet/node-ports/operations.ts";
export { NodeIdentity } from "./kubelet/node/node-identity.ts";
export type { MachineFacts } from "./kubelet/node/node-object.ts";
export { RegistrationError, parseNodeLabels, parseTaints } from "./kubelet/node/registration.ts";
export { shutdownGracePeriods, shutdownMistakes } from "./kubelet/nodeshutdown/grace-periods.ts";
export type { ShutdownSettings } from "./kubelet/nodeshutdown/grace-periods.ts";
export { NodeShutdown } from "./kubelet/nodeshutdown/nodeshutdown-manager.ts";
export { checkRuntime, relistPods } from "./kubelet/pleg/pleg.ts";
export { LostSyncError, enqueuePod, enqueueDue } from "./kubelet/pod-workers/update-worker.ts";
export { PodCertificates } from "./kubelet/podcertificate/pod-certificates.ts";
export { PodManager } from "./kubelet/pod/pod-manager.ts";
export { runProbe } from "./kubelet/prober/prober-manager.ts";
export { SummaryProvider } from "./kubelet/stats/summary-provider.ts";
export { flushStatus, flushStatuses } from "./kubelet/status/status-manager.ts";
export type { FlushStatusPorts } from "./kubelet/status/status-manager.ts";
export { syncPod } from "./kubelet/sync.ts";
export {
  DEFAULT_EVICTION,
  DEFAULT_EVICTION_HARD,
  EvictionSettingError,
  parseStatements,
  parseThresholds,
} from "./kubelet/types/eviction-thresholds.ts";
export type { EvictionPolicy, Statements } from "./kubelet/types/eviction-thresholds.ts";
export { goDuration } from "./kubelet/types/go-duration.ts";
export type { PodSource } from "./kubelet/types/labels.ts";
export { ENFORCEMENTS, reservedTooMuch } from "./kubelet/types/node-options.ts";
export type {
  CgroupPolicy,
  ImageGcPolicy,
  ImagePullPolicy,
  NodeAllocatableEnforcement,
  NodeOptions,
  ReservedGroup,
  ShutdownGracePeriod,
} from "./kubelet/types/node-options.ts";
export type { NodePod } from "./kubelet/types/pod.ts";
export { VolumeMeasures } from "./kubelet/volume/volume-measures.ts";
