/**
 * The map of style.md as rules: which folder may import which. architecture.ts beside this file runs them, and
 * test/tooling/architecture.test.ts breaks each of them once.
 */

import type { DependencyType, IConfiguration } from "dependency-cruiser";

/** Where the outside world may be touched. */
const EDGE = "^shared/(adapters|lambda|local|node-agent|replay)/";
const CONTROLLERS = "^shared/(replicaset|replication|deployment|kubelet)/";
/** What of the kubelet acts through ports; everything else in it decides. */
const KUBELET_EDGES = `^shared/kubelet/(${[
  "allocation/(allocation-manager|admission-input|pending-resizes|preempt)",
  "config/pod-sources",
  "container-manager/container-manager",
  "eviction/(eviction-manager|measure)",
  "housekeeping/housekeeping",
  "images/(cri-error-text|ensure-image|image-gc-manager)",
  "kuberuntime/(collect-garbage|kill-pod|lifecycle-hooks|observe-pod|pod-cgroup|remove-container|resize|run-actions|start-container)",
  "node/node-identity",
  "node-ports/(attempt|known-statuses|node-ports|object-cache)",
  "nodeshutdown/nodeshutdown-manager",
  "pleg/pleg",
  "pod/mirror-client",
  "pod-workers/update-worker",
  "prober/prober-manager",
  "stats/summary-provider",
  "status/status-manager",
  "volume/(prepare-volumes|volume-measures|volume-retries)",
].join("|")})\\.ts$`;
/** Hashing and compression are pure functions. */
const PURE_MODULES = "^(node:)?(crypto|zlib)$";
const NPM: DependencyType[] = ["npm", "npm-dev", "npm-optional", "npm-peer", "npm-bundled", "npm-no-pkg", "npm-unknown"];
/** `import type` names a shape and brings nothing along. */
const values: { dependencyTypesNot: DependencyType[] } = { dependencyTypesNot: ["type-only"] };

export const ARCHITECTURE = {
  forbidden: [
    {
      name: "no-cycles",
      comment: "Modules that need each other are one module.",
      severity: "error",
      from: {},
      to: { circular: true, viaOnly: values },
    },
    {
      name: "no-type-cycles",
      comment: "A type that two modules need has a place where both may take it from.",
      severity: "error",
      from: { pathNot: "^test/" },
      to: { circular: true },
    },
    {
      name: "shared-knows-no-caller",
      comment: "shared/ is used by functions, cli and test, never the other way round.",
      severity: "error",
      from: { path: "^shared/" },
      to: { path: "^(functions|cli|test|infra)/" },
    },
    {
      name: "product-knows-no-infra",
      comment: "infra/ builds and deploys the product; what both need lies in shared/.",
      severity: "error",
      from: { path: "^(functions|cli)/" },
      to: { path: "^infra/" },
    },
    {
      name: "product-knows-no-test",
      severity: "error",
      from: { path: "^(functions|cli|infra)/" },
      to: { path: "^test/" },
    },
    {
      name: "handlers-stand-alone",
      comment: "A function is a zip of its own; what two of them need lives in shared/.",
      severity: "error",
      from: { path: "^functions/((?:node/)?[^/]+)/" },
      to: { path: "^functions/", pathNot: "^functions/$1/" },
    },
    {
      name: "functions-carry-nothing-local",
      comment: "shared/local, the node agent, the replay engine and client-node stay out of the bundles.",
      severity: "error",
      from: { path: "^functions/" },
      to: { path: "^shared/(local|node-agent|replay)/", reachable: true },
    },
    {
      name: "api-is-the-bottom",
      severity: "error",
      from: { path: "^shared/api/" },
      to: { path: "^shared/", pathNot: "^shared/api/" },
    },
    {
      name: "ports-know-only-the-api",
      severity: "error",
      from: { path: "^shared/ports/" },
      to: { path: "^shared/", pathNot: "^shared/(ports|api)/" },
    },
    {
      name: "machinery-knows-no-controller",
      comment: "cache and controller serve all controllers and name none.",
      severity: "error",
      from: { path: "^shared/(cache|controller)/" },
      to: { path: "^shared/", pathNot: "^shared/(api|ports|cache|controller)/" },
    },
    {
      name: "controllers-stand-on-the-machinery",
      comment: "And on nothing else, except that a ReplicationController is a ReplicaSet in other words.",
      severity: "error",
      from: { path: "^shared/(replicaset|replication|deployment|kubelet)/" },
      to: { path: "^shared/", pathNot: ["^shared/(api|ports|cache|controller)/", "^shared/$1/", "^shared/replicaset/"] },
    },
    {
      name: "no-controller-uses-another",
      severity: "error",
      from: { path: "^shared/(replicaset|deployment|kubelet)/" },
      to: { path: CONTROLLERS, pathNot: "^shared/$1/" },
    },
    {
      name: "decisions-are-pure",
      comment: "In a controller's folder only sync.ts sees ports, in the kubelet's also the files of KUBELET_EDGES.",
      severity: "error",
      from: { path: CONTROLLERS, pathNot: ["/(sync|steps/[^/]+)\\.ts$", KUBELET_EDGES] },
      to: { path: "^shared/(ports|controller/(perform|session|worker|recover|write-gateway)\\.ts$)", ...values },
    },
    {
      name: "registry-lists-and-no-more",
      comment: "The table of controllers knows them and the machinery. Who wires, hosts or deploys asks it, never the other way round.",
      severity: "error",
      from: { path: "^shared/registry/" },
      to: { path: "^shared/", pathNot: "^shared/(api|ports|cache|controller|deployment|replicaset|replication|registry)/" },
    },
    {
      name: "adapters-are-chosen-outside",
      comment: "Handlers, cli, shared/lambda, shared/local, shared/node-agent and shared/replay choose adapters; nobody else knows one.",
      severity: "error",
      from: { path: "^shared/", pathNot: EDGE },
      to: { path: "^shared/adapters/" },
    },
    {
      name: "adapters-know-no-host",
      severity: "error",
      from: { path: "^shared/adapters/" },
      to: { path: "^shared/(lambda|local|node-agent|registry|replay)/" },
    },
    {
      name: "stand-ins-stand-aside",
      comment: "shared/local stands for a cloud and a cluster: whoever chooses it is cli, infra, a test, or replay.",
      severity: "error",
      from: { path: "^shared/", pathNot: "^shared/(local|replay)/" },
      to: { path: "^shared/local/" },
    },
    {
      name: "platform-types-stay-in-their-adapter",
      comment: "One adapter does not lean on another; what two of them need lies beside them.",
      severity: "error",
      from: { path: "^shared/adapters/([^/]+)/" },
      to: { path: "^shared/adapters/[^/]+/", pathNot: "^shared/adapters/$1/" },
    },
    {
      name: "io-at-the-edge",
      comment: "Files, sockets, processes, timers and the like only where the outside world is touched.",
      severity: "error",
      from: { path: "^(shared|functions)/", pathNot: EDGE },
      to: { dependencyTypes: ["core"], pathNot: PURE_MODULES, ...values },
    },
    {
      name: "packages-at-the-edge",
      severity: "error",
      from: { path: "^(shared|functions)/", pathNot: EDGE },
      to: { dependencyTypes: NPM, ...values },
    },
    {
      name: "one-adapter-per-package",
      comment:
        "The SQS client in adapters/sqs, AWS's credentials beside it, ioredis in adapters/redis; shared/local makes their queues and servers.",
      severity: "error",
      from: { path: "^(shared|functions|cli)/", pathNot: "^shared/(adapters/((sqs|redis)/|aws-)|local/)" },
      to: { path: "node_modules/(@aws-sdk|ioredis)/", ...values },
    },
    {
      name: "client-node-is-types",
      comment: "Ten times slower warm calls, 51 MiB of each process (design decision 8): its types anywhere, its code nowhere.",
      severity: "error",
      from: { path: "^(shared|functions|cli)/" },
      to: { path: "node_modules/@kubernetes/client-node/", ...values },
    },
    {
      name: "no-unresolvable",
      severity: "error",
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^test/tooling/broken" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    moduleSystems: ["es6"],
    combinedDependencies: false,
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "types", "default"],
      extensions: [".ts", ".d.ts", ".js", ".mjs", ".json"],
    },
  },
} satisfies IConfiguration;
