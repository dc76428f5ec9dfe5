/**
 * All metrics, as data. Processes register them from this table, functions write them for CloudWatch by it, and the reference page and the
 * dashboard are generated from it. Names, labels, buckets and help texts are upstream's where upstream has the metric, so that dashboards
 * for kube-controller-manager and the kubelet work.
 *
 * MT1 a label's values are listed here, or a sentence states their limit. An object's name or a tenant's text is never a value.
 *
 * Source: component-base metrics/prometheus/workqueue/metrics.go depth, adds, latency, workDuration, unfinished,
 * longestRunningProcessor, retries; component-base metrics/prometheus/restclient/metrics.go requestLatency, requestResult, requestRetry;
 * component-base metrics/prometheus/clientgo/leaderelection/metrics.go leaderGauge, leaderSlowpathCounter; component-base
 * metrics/prometheus/clientgo/fifo/metrics.go fifoProcessingLatency, storeResourceVersion; pkg/controller/replicaset/metrics/metrics.go
 * SortingDeletionAgeRatio, ReplicaSetRequeueSkips; pkg/kubelet/metrics/metrics.go RunningPodCount, RunningContainerCount,
 * RuntimeOperations, RuntimeOperationsDuration, RuntimeOperationsErrors, PodStartDuration, StartedPodsTotal, StartedPodsErrorsTotal,
 * StartedContainersTotal, StartedContainersErrorsTotal, TerminatedContainersTotal, PLEGRelistDuration, PLEGRelistInterval, PLEGLastSeen;
 * pkg/kubelet/certificate/kubelet.go NewKubeletServerCertificateManager, NewKubeletClientCertificateManager; cmd/kubelet/app/server.go
 * buildKubeletClientConfig; pkg/kubelet/kuberuntime/instrumented_services.go instrumentedRuntimeService, instrumentedImageManagerService.
 */

/*
 * Label values that other packages define. This package must not import them: a missing value is a compile error where it is used, and
 * test/unit/ports/metric-table.test.ts compares each list with its definition.
 */
const CACHED_RESOURCES = ["deployments", "replicasets", "replicationcontrollers", "pods"] as const;
const CONTROLLERS = ["deployment", "replicaset", "replicationcontroller"] as const;
const NODE_TABLES = ["workers", "staticPods", "statuses", "reasons", "restarts", "allocations", "backOffs", "probes"] as const;
const FATES = ["applied", "superseded", "duplicate", "fenced", "otherEpoch", "quarantined", "dead"] as const;

const PREEMPTION_SIGNALS = [
  ...["cpu", "memory", "ephemeral-storage", "pods"],
  ...["hugepages-64Ki", "hugepages-2Mi", "hugepages-32Mi", "hugepages-1Gi", "hugepages-16Gi"],
] as const;

/** The process that updates the metric: watcher, functions (Lambda or the function host), node agent, or `deltaloop shadow`. */
export type MetricProcess = "watcher" | "functions" | "node" | "shadow";

/** One metric. */
export interface MetricRow {
  /** `kept`: a counter that the Store keeps; the process that reads it exposes the stored sum. */
  readonly type: "counter" | "kept" | "gauge" | "histogram";
  /** Values of each label, or a sentence about their limit. */
  readonly labels: Readonly<Record<string, readonly string[] | string>>;
  readonly unit: "count" | "seconds" | "ratio" | "version" | "state";
  /** Upper bounds, for histograms. */
  readonly buckets?: readonly number[];
  readonly help: string;
  readonly processes: readonly MetricProcess[];
  /** The file that updates the metric. */
  readonly where: string;
  /** A metric of the cache, exposed only by the leading watcher. */
  readonly leader?: true;
  /** Upstream has this metric with the same name and labels. */
  readonly upstream?: true;
}

/** Names of upstream's work queues. Source: pkg/controller/replication/replication_controller.go NewReplicationManager. */
export const WORK_QUEUES = {
  deployment: "deployment",
  replicaset: "replicaset",
  replicationcontroller: "replicationmanager",
} as const satisfies { readonly [C in (typeof CONTROLLERS)[number]]: string };

const QUEUE = { name: Object.values(WORK_QUEUES) } as const;
const RESOURCE = { resource: CACHED_RESOURCES } as const;
/** Ten buckets from 10 ns on, as for upstream's work queue. */
const WORK_BUCKETS = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1, 10];
const REQUEST_BUCKETS = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60];
const LATENCY_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const LAG_BUCKETS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300];
/** Resources by which the Store counts items; `unknown`: messages whose resource cannot be read. */
const TALLIED = [...CACHED_RESOURCES, "unknown"] as const;
/** A minute, 1 and 4 hours, a day, a week, 1, 3, 6 and 12 months, 4 years. */
const CERTIFICATE_LIFE_BUCKETS = [60, 3_600, 14_400, 86_400, 604_800, 2_592_000, 7_776_000, 15_552_000, 31_104_000, 124_416_000];
const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"] as const;
const GROUPS = "the API groups of the cached resources: none, and apps";
/** Fourteen buckets from 5 ms on, each 2.5 times the one before. */
const RUNTIME_BUCKETS = Array.from({ length: 14 }, (_, i) => Number((0.005 * 2.5 ** i).toPrecision(12)));
/** The defaults of Prometheus' client library. */
const DEFAULT_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const POD_START_BUCKETS = [0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600];
/** The CRI calls of the node agent, by upstream's names of the operations. */
export const RUNTIME_OPERATIONS = {
  version: "version",
  status: "status",
  statusInfo: "status",
  runtimeConfig: "runtime_config",
  runPodSandbox: "run_podsandbox",
  stopPodSandbox: "stop_podsandbox",
  removePodSandbox: "remove_podsandbox",
  podSandboxStatus: "podsandbox_status",
  listPodSandbox: "list_podsandbox",
  createContainer: "create_container",
  startContainer: "start_container",
  stopContainer: "stop_container",
  removeContainer: "remove_container",
  containerStatus: "container_status",
  listContainers: "list_containers",
  reopenContainerLog: "reopen_container_log",
  updateContainerResources: "update_container",
  execSync: "exec_sync",
  exec: "exec",
  attach: "attach",
  portForward: "port_forward",
  containerStats: "container_stats",
  listContainerStats: "list_container_stats",
  imageStatus: "image_status",
  pullImage: "pull_image",
  removeImage: "remove_image",
  listImages: "list_images",
  imageFsInfo: "image_fs_info",
} as const;
const RUNTIME = { operation_type: Object.values(RUNTIME_OPERATIONS) } as const;
const CONTAINER_TYPES = ["init_container", "container", "ephemeral_container"] as const;
const HOSTS = "the API server that the process is configured for; `clusters` for all clusters of a directory";

export const METRICS = {
  workqueue_depth: {
    type: "gauge",
    labels: QUEUE,
    unit: "count",
    help: "Current depth of workqueue",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
    upstream: true,
  },
  workqueue_adds_total: {
    type: "counter",
    labels: QUEUE,
    unit: "count",
    help: "Total number of adds handled by workqueue",
    processes: ["watcher", "functions"],
    where: "shared/controllers/cache/ring.ts",
    upstream: true,
  },
  workqueue_queue_duration_seconds: {
    type: "histogram",
    labels: QUEUE,
    unit: "seconds",
    buckets: WORK_BUCKETS,
    help: "How long in seconds an item stays in workqueue before being requested.",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
    upstream: true,
  },
  workqueue_work_duration_seconds: {
    type: "histogram",
    labels: QUEUE,
    unit: "seconds",
    buckets: WORK_BUCKETS,
    help: "How long in seconds processing an item from workqueue takes.",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
    upstream: true,
  },
  workqueue_unfinished_work_seconds: {
    type: "gauge",
    labels: QUEUE,
    unit: "seconds",
    help: "How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.",
    processes: ["functions"],
    where: "cli/health/running-syncs.ts",
    upstream: true,
  },
  workqueue_longest_running_processor_seconds: {
    type: "gauge",
    labels: QUEUE,
    unit: "seconds",
    help: "How many seconds has the longest running processor for workqueue been running.",
    processes: ["functions"],
    where: "cli/health/running-syncs.ts",
    upstream: true,
  },
  workqueue_retries_total: {
    type: "counter",
    labels: QUEUE,
    unit: "count",
    help: "Total number of retries handled by workqueue",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
    upstream: true,
  },
  rest_client_requests_total: {
    type: "counter",
    labels: { code: "HTTP status codes; <error> if there was no response", method: METHODS, host: HOSTS },
    unit: "count",
    help: "Number of HTTP requests, partitioned by status code, method, and host.",
    processes: ["watcher", "functions", "node"],
    where: "shared/kube/http/calls.ts",
    upstream: true,
  },
  rest_client_request_retries_total: {
    type: "counter",
    labels: { code: "HTTP status codes; <error> if there was no response", verb: METHODS, host: HOSTS },
    unit: "count",
    help: "Number of request retries, partitioned by status code, verb, and host.",
    processes: ["watcher", "functions", "node"],
    where: "shared/kube/http/calls.ts",
    upstream: true,
  },
  rest_client_request_duration_seconds: {
    type: "histogram",
    labels: { verb: METHODS, host: HOSTS },
    unit: "seconds",
    buckets: REQUEST_BUCKETS,
    help: "Request latency in seconds. Broken down by verb, and host.",
    processes: ["watcher", "functions", "node"],
    where: "shared/kube/http/calls.ts",
    upstream: true,
  },
  leader_election_master_status: {
    type: "gauge",
    labels: { name: "the watcher's Lease: one" },
    unit: "state",
    help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/leader-election.ts",
    upstream: true,
  },
  leader_election_slowpath_total: {
    type: "counter",
    labels: { name: "the watcher's Lease: one" },
    unit: "count",
    help: "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/leader-election.ts",
    upstream: true,
  },
  informer_processing_latency_seconds: {
    type: "histogram",
    labels: { name: ["deltaloop"], group: GROUPS, version: ["v1"], ...RESOURCE },
    unit: "seconds",
    buckets: LATENCY_BUCKETS,
    help: "Time taken to process events after popping from the queue.",
    processes: ["functions"],
    where: "shared/controllers/cache/applier.ts",
    upstream: true,
  },
  informer_store_resource_version: {
    type: "gauge",
    labels: { name: ["deltaloop"], group: GROUPS, version: ["v1"], ...RESOURCE },
    unit: "version",
    help: "The 15 least significant digits of the resource version of the store.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
    upstream: true,
  },
  replicaset_controller_sorting_deletion_age_ratio: {
    type: "histogram",
    labels: {},
    unit: "ratio",
    buckets: [0.25, 0.5, 1, 2, 4, 8],
    help: "The ratio of chosen deleted pod's ages to the current youngest pod's age (at the time). Should be <2. The intent of this metric is to measure the rough efficacy of the sorting (and deletion) of pods when a replicaset scales down. This only considers Ready pods when calculating and reporting.",
    processes: ["functions"],
    where: "shared/controllers/replicaset/sync.ts",
    upstream: true,
  },
  replicaset_controller_stale_sync_skips_total: {
    type: "counter",
    labels: { group: GROUPS, ...RESOURCE },
    unit: "count",
    help: "Total number of ReplicaSet syncs skipped due to a stale watch cache.",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
    upstream: true,
  },
  kubelet_running_pods: {
    type: "gauge",
    labels: {},
    unit: "count",
    help: "Number of pods that have a running pod sandbox",
    processes: ["node"],
    where: "shared/node-agent/kubelet/pleg/pleg.ts",
    upstream: true,
  },
  kubelet_running_containers: {
    type: "gauge",
    labels: { container_state: ["created", "running", "exited", "unknown"] },
    unit: "count",
    help: "Number of containers currently running",
    processes: ["node"],
    where: "shared/node-agent/kubelet/pleg/pleg.ts",
    upstream: true,
  },
  kubelet_pleg_relist_duration_seconds: {
    type: "histogram",
    labels: {},
    unit: "seconds",
    buckets: DEFAULT_BUCKETS,
    help: "Duration in seconds for relisting pods in PLEG.",
    processes: ["node"],
    where: "shared/node-agent/kubelet/pleg/pleg.ts",
    upstream: true,
  },
  kubelet_pleg_relist_interval_seconds: {
    type: "histogram",
    labels: {},
    unit: "seconds",
    buckets: DEFAULT_BUCKETS,
    help: "Interval in seconds between relisting in PLEG.",
    processes: ["node"],
    where: "shared/node-agent/kubelet/pleg/pleg.ts",
    upstream: true,
  },
  kubelet_pleg_last_seen_seconds: {
    type: "gauge",
    labels: {},
    unit: "seconds",
    help: "Timestamp in seconds when PLEG was last seen active.",
    processes: ["node"],
    where: "shared/node-agent/kubelet/pleg/pleg.ts",
    upstream: true,
  },
  kubelet_runtime_operations_total: {
    type: "counter",
    labels: RUNTIME,
    unit: "count",
    help: "Cumulative number of runtime operations by operation type.",
    processes: ["node"],
    where: "shared/node-agent/host/metered-cri.ts",
    upstream: true,
  },
  kubelet_runtime_operations_duration_seconds: {
    type: "histogram",
    labels: RUNTIME,
    unit: "seconds",
    buckets: RUNTIME_BUCKETS,
    help: "Duration in seconds of runtime operations. Broken down by operation type.",
    processes: ["node"],
    where: "shared/node-agent/host/metered-cri.ts",
    upstream: true,
  },
  kubelet_runtime_operations_errors_total: {
    type: "counter",
    labels: RUNTIME,
    unit: "count",
    help: "Cumulative number of runtime operation errors by operation type.",
    processes: ["node"],
    where: "shared/node-agent/host/metered-cri.ts",
    upstream: true,
  },
  kubelet_pod_start_duration_seconds: {
    type: "histogram",
    labels: {},
    unit: "seconds",
    buckets: POD_START_BUCKETS,
    help: "Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run",
    processes: ["node"],
    where: "shared/node-agent/kubelet/status/status-metrics.ts",
    upstream: true,
  },
  kubelet_started_pods_total: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Cumulative number of pods started",
    processes: ["node"],
    where: "shared/node-agent/kubelet/kuberuntime/run-actions.ts",
    upstream: true,
  },
  kubelet_started_pods_errors_total: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Cumulative number of errors when starting pods",
    processes: ["node"],
    where: "shared/node-agent/kubelet/kuberuntime/run-actions.ts",
    upstream: true,
  },
  kubelet_started_containers_total: {
    type: "counter",
    labels: { container_type: CONTAINER_TYPES },
    unit: "count",
    help: "Cumulative number of containers started",
    processes: ["node"],
    where: "shared/node-agent/kubelet/kuberuntime/start-container.ts",
    upstream: true,
  },
  kubelet_terminated_containers_total: {
    type: "counter",
    labels: {
      container_type: CONTAINER_TYPES,
      exit_code: "0 to 255, and what a runtime reports of a container that did not start",
      reason: "Completed, Error, OOMKilled, and reasons of the runtime and the agent",
    },
    unit: "count",
    help: "Cumulative number of container terminations.",
    processes: ["node"],
    where: "shared/node-agent/kubelet/status/status-metrics.ts",
    upstream: true,
  },
  kubelet_evictions: {
    type: "counter",
    labels: { eviction_signal: "the nine eviction signals, and the three limits of local storage" },
    unit: "count",
    help: "Cumulative number of pod evictions by eviction signal",
    processes: ["node"],
    where: "shared/node-agent/kubelet/eviction/eviction-manager.ts",
    upstream: true,
  },
  kubelet_preemptions: {
    type: "counter",
    labels: { preemption_signal: PREEMPTION_SIGNALS },
    unit: "count",
    help: "Cumulative number of pod preemptions by preemption resource",
    processes: ["node"],
    where: "shared/node-agent/kubelet/allocation/preempt.ts",
    upstream: true,
  },
  kubelet_graceful_shutdown_start_time_seconds: {
    type: "gauge",
    labels: {},
    unit: "seconds",
    help: "Last graceful shutdown start time since unix epoch in seconds",
    processes: ["node"],
    where: "shared/node-agent/kubelet/nodeshutdown/nodeshutdown-manager.ts",
    upstream: true,
  },
  kubelet_graceful_shutdown_end_time_seconds: {
    type: "gauge",
    labels: {},
    unit: "seconds",
    help: "Last graceful shutdown end time since unix epoch in seconds",
    processes: ["node"],
    where: "shared/node-agent/kubelet/nodeshutdown/nodeshutdown-manager.ts",
    upstream: true,
  },
  kubelet_certificate_manager_client_ttl_seconds: {
    type: "gauge",
    labels: {},
    unit: "seconds",
    help: "Gauge of the TTL (time-to-live) of the Kubelet's client certificate. The value is in seconds until certificate expiry (negative if already expired). If client certificate is invalid or unused, the value will be +INF.",
    processes: ["node"],
    where: "shared/node-agent/certificates/certificate-manager.ts",
    upstream: true,
  },
  kubelet_certificate_manager_client_expiration_renew_errors: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Counter of certificate renewal errors.",
    processes: ["node"],
    where: "shared/node-agent/certificates/certificate-manager.ts",
    upstream: true,
  },
  kubelet_certificate_manager_server_ttl_seconds: {
    type: "gauge",
    labels: {},
    unit: "seconds",
    help: "Gauge of the shortest TTL (time-to-live) of the Kubelet's serving certificate. The value is in seconds until certificate expiry (negative if already expired). If serving certificate is invalid or unused, the value will be +INF.",
    processes: ["node"],
    where: "shared/node-agent/certificates/certificate-manager.ts",
    upstream: true,
  },
  kubelet_certificate_manager_server_rotation_seconds: {
    type: "histogram",
    labels: {},
    unit: "seconds",
    buckets: CERTIFICATE_LIFE_BUCKETS,
    help: "Histogram of the number of seconds the previous certificate lived before being rotated.",
    processes: ["node"],
    where: "shared/node-agent/certificates/certificate-manager.ts",
    upstream: true,
  },
  kubelet_server_expiration_renew_errors: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Counter of certificate renewal errors.",
    processes: ["node"],
    where: "shared/node-agent/certificates/certificate-manager.ts",
    upstream: true,
  },
  kubelet_image_garbage_collected_total: {
    type: "counter",
    labels: { reason: ["age", "space"] },
    unit: "count",
    help: "Total number of images garbage collected by the kubelet, whether through disk usage or image age.",
    processes: ["node"],
    where: "shared/node-agent/kubelet/images/image-gc-manager.ts",
    upstream: true,
  },
  kubelet_started_containers_errors_total: {
    type: "counter",
    labels: { container_type: CONTAINER_TYPES, code: "the reasons for which a container waits: 9" },
    unit: "count",
    help: "Cumulative number of errors when starting containers",
    processes: ["node"],
    where: "shared/node-agent/kubelet/kuberuntime/run-actions.ts",
    upstream: true,
  },
  deltaloop_doorbells_total: {
    type: "counter",
    labels: {
      controller: CONTROLLERS,
      result: ["ok", "recover", "stopped", "gated", "busy", "empty", "notYet", "moved", "otherEpoch"],
    },
    unit: "count",
    help: "Attempts to take a key, with or without a doorbell, by the Store's result.",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
  },
  deltaloop_syncs_total: {
    type: "counter",
    labels: { controller: CONTROLLERS, outcome: ["ok", "retry", "requeueAfter", "drop"] },
    unit: "count",
    help: "Syncs by result; a dropped key is parked.",
    processes: ["functions"],
    where: "shared/controllers/kit/sync/worker.ts",
  },
  deltaloop_shadow_writes_total: {
    type: "counter",
    labels: { controller: CONTROLLERS, verdict: ["exact", "older", "tie", "foreign", "excess", "unexplained"] },
    unit: "count",
    help: "Writes of upstream's controllers by what deltaloop would have done; excess and unexplained are differences.",
    processes: ["shadow"],
    where: "cli/shadow/shadow-count.ts",
  },
  deltaloop_shadow_at_rest_total: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Writes that deltaloop would have made while upstream's controllers made none for a second.",
    processes: ["shadow"],
    where: "cli/shadow/shadow-count.ts",
  },
  deltaloop_applied_items_total: {
    type: "counter",
    labels: { ...RESOURCE, outcome: ["changed", "same", "late", "absent", "full"] },
    unit: "count",
    help: "Items of delta messages by what the Store did with them.",
    processes: ["functions"],
    where: "shared/controllers/cache/applier.ts",
  },
  deltaloop_items_received_total: {
    type: "kept",
    labels: { resource: TALLIED },
    unit: "count",
    help: "Items of delta messages with an outcome; equals the sum of deltaloop_items_total.",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
  deltaloop_items_total: {
    type: "kept",
    labels: { resource: TALLIED, fate: FATES },
    unit: "count",
    help: "Items of delta messages by outcome; each item has exactly one. A flushed Store starts from 0.",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
  deltaloop_messages_total: {
    type: "counter",
    labels: { ...RESOURCE, verdict: ["ack", "retry"] },
    unit: "count",
    help: "Delta messages by whether they are finished or stay in the queue.",
    processes: ["functions"],
    where: "shared/controllers/cache/applier.ts",
  },
  deltaloop_delta_lag_seconds: {
    type: "histogram",
    labels: RESOURCE,
    unit: "seconds",
    buckets: LAG_BUCKETS,
    help: "Seconds from the watcher's receipt of an event until it is applied.",
    processes: ["functions"],
    where: "shared/controllers/cache/applier.ts",
  },
  deltaloop_node_rows: {
    type: "gauge",
    labels: { table: NODE_TABLES },
    unit: "count",
    help: "Entries that the node agent keeps between sync iterations. Without pods, all drop to 0 (back-offs within ten minutes).",
    processes: ["node"],
    where: "shared/node-agent/kubelet/housekeeping/housekeeping.ts",
  },
  deltaloop_lists_total: {
    type: "counter",
    labels: {
      resource: "the resources that a process follows: 4, pods in the node agent",
      reason: [
        "nothing is cached",
        "list failed",
        "the server no longer has that resourceVersion",
        "the server was restored to an older revision",
        "the watch's resourceVersion has expired",
        "the server is behind that resourceVersion",
        "internal errors for 30 s",
        "unknown error, twice",
        "no WatchList: paged list",
        "WatchList failed",
        "a line cannot be decoded, twice",
        "asked for",
      ],
    },
    unit: "count",
    help: "Lists that were started, by reason.",
    processes: ["watcher", "node"],
    where: "shared/kube/list-watch/list-watch.ts",
  },
  deltaloop_watches_total: {
    type: "counter",
    labels: {
      resource: "the resources that a process follows: 4, pods in the node agent",
      reason: [
        "resumed",
        "listed",
        "watch ended",
        "very short watch",
        "connection lost",
        "watch refused",
        "internal error",
        "unknown error",
        "a line cannot be decoded",
      ],
    },
    unit: "count",
    help: "Watches that were opened, by reason.",
    processes: ["watcher", "node"],
    where: "shared/kube/list-watch/list-watch.ts",
  },
  deltaloop_clusters: {
    type: "gauge",
    labels: { role: ["seeking", "waiting", "leading"] },
    unit: "count",
    help: "Clusters by this watcher's part in them.",
    processes: ["watcher"],
    where: "cli/watch/cluster-shares.ts",
  },
  deltaloop_cluster_load: {
    type: "gauge",
    labels: {
      cluster: "names of the 20 busiest clusters of a directory, and `(rest)`",
      kind: ["invocations", "failures", "postponed"],
    },
    unit: "count",
    help: "Use of the functions in the last minute. `postponed`: doorbells beyond the cluster's share.",
    processes: ["functions"],
    where: "cli/clusters/cluster-load.ts",
  },
  deltaloop_terms_total: {
    type: "counter",
    labels: { end: ["stopped", "raise", "grow", "newEpoch", "fenced", "foreign", "failed"] },
    unit: "count",
    help: "Terms of leadership under one epoch and fence, by how they ended.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
  },
  deltaloop_checkpoints_total: {
    type: "counter",
    labels: { result: ["ok", "fenced", "setBack", "damaged", "noEpoch", "failed"] },
    unit: "count",
    help: "Checkpoints of the leader, by the Store's result.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
  },
  deltaloop_sweeper_rings_total: {
    type: "counter",
    labels: {},
    unit: "count",
    help: "Lost doorbells that the sweeper sent again.",
    processes: ["watcher", "functions"],
    where: "shared/controllers/cache/watcher/watcher.ts",
  },
  deltaloop_resource_synced: {
    type: "gauge",
    labels: RESOURCE,
    unit: "state",
    help: "1 if the cache of a resource was SYNCED at the leader's last checkpoint.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
  },
  deltaloop_hole_seconds: {
    type: "gauge",
    labels: RESOURCE,
    unit: "seconds",
    help: "Seconds for which a message of a resource has been missing; 0 if none is.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
  },
  deltaloop_unproven: {
    type: "gauge",
    labels: {},
    unit: "count",
    help: "1 if the function could not verify for 30 s from the Lease that this cluster's watcher owns the cache: it syncs no keys.",
    processes: ["functions"],
    where: "shared/controllers/kit/lease-proof.ts",
  },
  deltaloop_foreign_epoch: {
    type: "gauge",
    labels: {},
    unit: "count",
    help: "1 while two clusters share this cache: this watcher sends nothing.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
  },
  deltaloop_store_full: {
    type: "gauge",
    labels: {},
    unit: "count",
    help: "1 while the Store is out of memory: it leaves out new data and closes the gates of its resources.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
  },
  deltaloop_frozen_lanes: {
    type: "gauge",
    labels: RESOURCE,
    unit: "count",
    help: "Lanes that lack listed objects in the cache: they never arrived, or the Store was full.",
    processes: ["watcher"],
    where: "shared/controllers/cache/watcher/watcher.ts",
    leader: true,
  },
  deltaloop_unhealthy_clusters: {
    type: "gauge",
    labels: {},
    unit: "state",
    help: "Clusters with a closed gate, or whose Store does not answer; their names are in the log.",
    processes: ["functions"],
    where: "shared/controllers/lambda/cluster-health.ts",
  },
  deltaloop_gate_open: {
    type: "gauge",
    labels: { controller: CONTROLLERS },
    unit: "state",
    help: "1 if the keys of a controller are synced.",
    // The sweeper publishes it once a minute, because CloudWatch does not scrape the watcher.
    processes: ["watcher", "functions"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
  deltaloop_stopped: {
    type: "gauge",
    labels: { controller: CONTROLLERS },
    unit: "state",
    help: "1 after another controller was detected in the whole cluster: functions sync no keys until deltaloop resume.",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
  deltaloop_stopped_namespaces: {
    type: "gauge",
    labels: {},
    unit: "count",
    help: "Namespaces in which another controller was detected: functions sync none of their keys until deltaloop resume.",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
  deltaloop_parked_keys: {
    type: "gauge",
    labels: { controller: CONTROLLERS },
    unit: "count",
    help: "Keys that are parked until their next event or the resync.",
    processes: ["watcher"],
    where: "cli/health/store-metrics.ts",
    leader: true,
  },
} as const satisfies Readonly<Record<string, MetricRow>>;

export type MetricName = keyof typeof METRICS;
