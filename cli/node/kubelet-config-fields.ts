/**
 * The fields of a KubeletConfiguration (node-agent §14.7): each maps to an option, is fixed to one value, or is rejected as unsupported.
 *
 * Source: k8s.io/kubelet config/v1beta1/types.go; pkg/kubelet/apis/config/v1beta1/defaults.go.
 */

/** The form of a value, and its form on the command line. */
export type Form =
  | "text"
  | "number"
  | "boolean"
  | "duration"
  | "list"
  | "repeated"
  | "headers"
  | "taints"
  | "periods"
  | { readonly map: "=" | "<" };

export type Field =
  | {
      readonly kind: "option";
      readonly option: string;
      readonly form: Form;
      /**
       * An empty value is significant. For other fields it means upstream's default, because Go cannot distinguish it from an absent field.
       */
      readonly zeroCounts?: true;
    }
  /** The agent supports only these values. */
  | { readonly kind: "fixed"; readonly values: readonly unknown[]; readonly zeroCounts?: true }
  | { readonly kind: "fields"; readonly fields: Fields }
  | { readonly kind: "unsupported" };

export type Fields = Readonly<Record<string, Field>>;

const option = (name: string, form: Form, zeroCounts?: true): Field => ({
  kind: "option",
  option: name,
  form,
  ...(zeroCounts && { zeroCounts }),
});
const only = (...values: readonly unknown[]): Field => ({ kind: "fixed", values });
const exactly = (value: unknown): Field => ({ kind: "fixed", values: [value], zeroCounts: true });
const unsupported = (...names: readonly string[]): Fields => Object.fromEntries(names.map((name) => [name, { kind: "unsupported" }]));

const AUTHENTICATION: Fields = {
  x509: { kind: "fields", fields: { clientCAFile: option("--client-ca-file", "text") } },
  webhook: { kind: "fields", fields: { enabled: only(true), cacheTTL: only("2m") } },
  anonymous: { kind: "fields", fields: { enabled: only(false) } },
};
const AUTHORIZATION: Fields = {
  mode: only("Webhook"),
  webhook: { kind: "fields", fields: { cacheAuthorizedTTL: only("5m"), cacheUnauthorizedTTL: only("30s") } },
};

export const FIELDS: Fields = {
  apiVersion: only("kubelet.config.k8s.io/v1beta1"),
  kind: only("KubeletConfiguration"),
  // Sources
  staticPodPath: option("--manifests", "text"),
  staticPodURL: option("--manifest-url", "text"),
  staticPodURLHeader: option("--manifest-url-header", "headers"),
  syncFrequency: only("1m"),
  fileCheckFrequency: only("20s"),
  httpCheckFrequency: only("20s"),
  // Server
  enableServer: only(true),
  address: option("--listen", "text"),
  port: option("--port", "number"),
  readOnlyPort: only(0),
  tlsCertFile: option("--tls-cert-file", "text"),
  tlsPrivateKeyFile: option("--tls-private-key-file", "text"),
  tlsMinVersion: only("VersionTLS12"),
  rotateCertificates: option("--rotate-certificates", "boolean"),
  serverTLSBootstrap: option("--rotate-server-certificates", "boolean"),
  authentication: { kind: "fields", fields: AUTHENTICATION },
  authorization: { kind: "fields", fields: AUTHORIZATION },
  enableDebuggingHandlers: only(true),
  enableContentionProfiling: only(false),
  enableProfilingHandler: only(false),
  enableDebugFlagsHandler: only(false),
  enableSystemLogHandler: only(false),
  enableSystemLogQuery: only(false),
  streamingConnectionIdleTimeout: only("4h"),
  healthzPort: option("--healthz-port", "number", true),
  healthzBindAddress: option("--healthz-bind-address", "text"),
  // Node
  registerNode: only(true),
  registerWithTaints: option("--register-with-taints", "taints"),
  providerID: option("--provider-id", "text"),
  nodeStatusUpdateFrequency: only("10s"),
  nodeStatusReportFrequency: only("5m"),
  nodeLeaseDurationSeconds: only(40),
  nodeStatusMaxImages: exactly(50),
  maxPods: option("--max-pods", "number"),
  podsPerCore: only(0),
  enableControllerAttachDetach: only(true),
  oomScoreAdj: option("--oom-score-adj", "number", true),
  eventRecordQPS: exactly(50),
  eventBurst: only(100),
  kubeAPIQPS: exactly(50),
  kubeAPIBurst: only(100),
  contentType: only("application/vnd.kubernetes.protobuf", "application/json"),
  // Runtime
  containerRuntimeEndpoint: option("--cri", "text"),
  runtimeRequestTimeout: only("2m"),
  podLogsDir: option("--pod-logs-dir", "text"),
  containerLogMaxSize: only("10Mi"),
  containerLogMaxFiles: exactly(5),
  containerLogMaxWorkers: only(1),
  containerLogMonitorInterval: only("10s"),
  // Images
  registryPullQPS: option("--registry-qps", "number", true),
  registryBurst: option("--registry-burst", "number"),
  serializeImagePulls: option("--serialize-image-pulls", "boolean", true),
  maxParallelImagePulls: option("--max-parallel-image-pulls", "number", true),
  imageMinimumGCAge: option("--minimum-image-ttl-duration", "duration"),
  imageMaximumGCAge: option("--image-maximum-gc-age", "duration"),
  imageGCHighThresholdPercent: option("--image-gc-high-threshold", "number", true),
  imageGCLowThresholdPercent: option("--image-gc-low-threshold", "number", true),
  imagePullCredentialsVerificationPolicy: only("NeverVerify"),
  // DNS
  clusterDNS: option("--cluster-dns", "repeated"),
  clusterDomain: option("--cluster-domain", "text"),
  resolvConf: option("--resolv-conf", "text", true),
  // Resources
  cgroupRoot: option("--cgroup-root", "text"),
  cgroupDriver: option("--cgroup-driver", "text"),
  cgroupsPerQOS: option("--cgroups-per-qos", "boolean", true),
  podPidsLimit: option("--pod-max-pids", "number", true),
  singleProcessOOMKill: option("--single-process-oom-kill", "boolean", true),
  enforceNodeAllocatable: option("--enforce-node-allocatable", "list", true),
  systemReserved: option("--system-reserved", { map: "=" }),
  kubeReserved: option("--kube-reserved", { map: "=" }),
  systemReservedCgroup: option("--system-reserved-cgroup", "text"),
  kubeReservedCgroup: option("--kube-reserved-cgroup", "text"),
  cpuCFSQuota: only(true),
  cpuCFSQuotaPeriod: exactly("100ms"),
  cpuManagerPolicy: only("none"),
  cpuManagerReconcilePeriod: only("10s"),
  memoryManagerPolicy: only("None"),
  topologyManagerPolicy: only("none"),
  topologyManagerScope: only("container"),
  localStorageCapacityIsolation: only(true),
  volumeStatsAggPeriod: only("1m"),
  failSwapOn: only(false),
  memorySwap: { kind: "fields", fields: { swapBehavior: only("NoSwap") } },
  failCgroupV1: only(false),
  seccompDefault: only(false),
  protectKernelDefaults: only(false),
  makeIPTablesUtilChains: only(true),
  // Eviction
  evictionHard: option("--eviction-hard", { map: "<" }, true),
  evictionSoft: option("--eviction-soft", { map: "<" }),
  evictionSoftGracePeriod: option("--eviction-soft-grace-period", { map: "=" }),
  evictionMinimumReclaim: option("--eviction-minimum-reclaim", { map: "=" }),
  evictionMaxPodGracePeriod: option("--eviction-max-pod-grace-period", "number"),
  evictionPressureTransitionPeriod: option("--eviction-pressure-transition-period", "duration"),
  mergeDefaultEvictionSettings: only(false),
  // Shutdown of the machine
  shutdownGracePeriod: option("--shutdown-grace-period", "duration"),
  shutdownGracePeriodCriticalPods: option("--shutdown-grace-period-critical-pods", "duration"),
  shutdownGracePeriodByPodPriority: option("--shutdown-grace-period-by-pod-priority", "periods"),
  // Logs of the agent
  logging: {
    kind: "fields",
    fields: { format: option("--logging-format", "text"), flushFrequency: only("5s"), ...unsupported("verbosity", "options") },
  },
  ...unsupported(
    "allowedUnsafeSysctls",
    "defaultPodSysctls",
    "configMapAndSecretChangeDetectionStrategy",
    "cpuManagerPolicyOptions",
    "crashLoopBackOff",
    "featureGates",
  ),
  ...unsupported(
    "hairpinMode",
    "imageServiceEndpoint",
    "iptablesDropBit",
    "iptablesMasqueradeBit",
    "kernelMemcgNotification",
    "kubeletCgroups",
  ),
  ...unsupported("maxOpenFiles", "memoryReservationPolicy", "memoryThrottlingFactor", "podCIDR", "preloadedImagesVerificationAllowlist"),
  ...unsupported("qosReserved", "reservedMemory", "reservedSystemCPUs", "runOnce", "showHiddenMetricsForVersion", "systemCgroups"),
  ...unsupported("tlsCipherSuites", "tlsCurvePreferences"),
  ...unsupported("topologyManagerPolicyOptions", "tracing", "userNamespaces", "volumePluginDir"),
};
