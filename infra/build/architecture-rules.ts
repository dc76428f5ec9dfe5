/**
 * The map of style.md as rules: which folder may import which. architecture.ts beside this file runs them, and
 * test/tooling/architecture.test.ts breaks each of them once.
 */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import type { DependencyType, IConfiguration } from "dependency-cruiser";

/** What each package under shared/ may import, by name and through its `exports`. Its README draws the same picture. */
export const PACKAGE_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  kube: ["base"],
  store: ["base", "kube"],
  controllers: ["base", "kube", "store"],
  "node-agent": ["base", "kube"],
  docker: ["node-agent"],
  "api-server": ["base", "kube"],
  local: ["base", "kube", "store", "controllers"],
  replay: ["base", "kube", "store", "controllers", "api-server", "local"],
};
/** Where files, sockets, processes and timers may be touched. */
const EDGE = [
  "^shared/base/(system|http|prometheus|emf|output|nodejs)/",
  "^shared/kube/(http|kubeconfig|yaml)/",
  "^shared/store/(redis|sqs|secrets|aws|memory)/",
  "^shared/controllers/lambda/",
  "^shared/node-agent/(server|host|sources|credentials|certificates|cri|prober|system|systemd|logind|node-files|memory)/",
  "^shared/(docker|api-server|local|replay)/",
];
const CONTROLLERS = "^shared/(controllers/(replicaset|replication|deployment)|node-agent/kubelet)/";
/** What of the kubelet acts through ports; everything else in it decides. */
const KUBELET_EDGES = `^shared/node-agent/kubelet/(${[
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
  "pod-workers/(sync-record|update-worker)",
  "prober/prober-manager",
  "stats/summary-provider",
  "status/(status-manager|status-metrics)",
  "volume/(prepare-volumes|volume-measures|volume-retries)",
].join("|")})\\.ts$`;
/** The files that the packages' `exports` name: what others may import of them. */
export const ENTRY_FILES: readonly string[] = Object.keys(PACKAGE_IMPORTS).flatMap((name) => {
  const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, `../../shared/${name}/package.json`), "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  };
  return Object.values(exports).map((file) => `shared/${name}/${file.slice("./".length)}`);
});
const ENTRIES = ENTRY_FILES.map((file) => `^${file.replaceAll(".", "[.]")}$`);
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
    ...Object.entries(PACKAGE_IMPORTS).map(([name, imports]) => ({
      name: `package-${name}`,
      comment: `@deltaloop/${name} imports ${imports.length === 0 ? "no other package" : imports.join(", ")}.`,
      severity: "error" as const,
      from: { path: `^shared/${name}/` },
      to: { path: "^shared/", pathNot: [name, ...imports].map((each) => `^shared/${each}/`) },
    })),
    {
      name: "packages-through-exports",
      comment: "A package is imported by name, through an entry point of its package.json. Tests may open a package.",
      severity: "error",
      from: { path: "^(functions|cli|infra)/" },
      to: { path: "^shared/", pathNot: ENTRIES },
    },
    {
      name: "packages-through-exports-of-each-other",
      severity: "error",
      from: { path: "^shared/([^/]+)/" },
      to: { path: "^shared/", pathNot: ["^shared/$1/", ...ENTRIES] },
    },
    {
      name: "nothing-imports-cli",
      comment: "The command is the last to choose; what infra/ needs of it is in a package.",
      severity: "error",
      from: { path: "^(shared|functions|infra)/" },
      to: { path: "^cli/" },
    },
    {
      name: "shared-knows-no-caller",
      comment: "Packages are used by functions, cli, infra and test, never the other way round.",
      severity: "error",
      from: { path: "^shared/" },
      to: { path: "^(functions|test|infra)/" },
    },
    {
      name: "product-knows-no-infra",
      comment: "infra/ builds and deploys the product; what both need is in a package.",
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
      comment: "Stand-ins, the node agent's host and server, and the replay engine stay out of the bundles.",
      severity: "error",
      from: { path: "^functions/" },
      to: { path: "^shared/(local|api-server|replay|docker|node-agent/(host|server))/", reachable: true },
    },
    {
      name: "machinery-knows-no-controller",
      comment: "cache and kit serve all controllers and name none.",
      severity: "error",
      from: { path: "^shared/controllers/(cache|kit)/" },
      to: { path: "^shared/controllers/", pathNot: "^shared/controllers/(cache|kit)/" },
    },
    {
      name: "no-controller-uses-another",
      comment: "Except that a ReplicationController is a ReplicaSet in other words.",
      severity: "error",
      from: { path: "^shared/controllers/(replicaset|deployment)/" },
      to: { path: "^shared/controllers/", pathNot: ["^shared/controllers/(cache|kit)/", "^shared/controllers/$1/"] },
    },
    {
      name: "replication-is-a-replicaset",
      severity: "error",
      from: { path: "^shared/controllers/replication/" },
      to: { path: "^shared/controllers/", pathNot: "^shared/controllers/(cache|kit|replication|replicaset)/" },
    },
    {
      name: "decisions-are-pure",
      comment: "In a controller's folder only sync.ts and the steps beside it see ports, in the kubelet's the files of KUBELET_EDGES.",
      severity: "error",
      from: { path: CONTROLLERS, pathNot: ["/(sync|sync/[^/]+)\\.ts$", KUBELET_EDGES] },
      to: {
        path: [
          "^shared/base/(index|clock|random|log|times|system|memory|http)",
          "^shared/(kube/client|store|node-agent/ports)",
          "^shared/controllers/kit/(sync|perform|write-gateway/write-gateway)",
        ],
        pathNot: "^shared/base/index\\.ts$",
        ...values,
      },
    },
    {
      name: "registry-lists-and-no-more",
      comment: "The table of controllers knows them and the machinery. Wiring, hosts and deployments read it, never the other way round.",
      severity: "error",
      from: { path: "^shared/controllers/registry/" },
      to: { path: "^shared/controllers/lambda/" },
    },
    {
      name: "adapters-are-chosen-outside",
      comment: "The Lambda edge, local, replay, cli, infra and tests choose adapters; no other code knows one.",
      severity: "error",
      from: { path: "^shared/(controllers/(?!lambda/)[^/]+|node-agent/kubelet)/" },
      to: { path: "^shared/(base/(system|memory|http|prometheus|emf)|kube/http|store/(redis|sqs|secrets|aws|memory))" },
    },
    {
      name: "platform-types-stay-in-their-adapter",
      comment: "One adapter does not lean on another; what two of them need is beside them.",
      severity: "error",
      from: { path: "^shared/store/(redis|sqs|secrets|memory)/" },
      to: { path: "^shared/store/(redis|sqs|secrets|memory)/", pathNot: "^shared/store/$1/" },
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
      comment: "The SQS client in store/sqs, AWS's credentials in store/aws, ioredis in store/redis; local makes their queues and servers.",
      severity: "error",
      from: { path: "^(shared|functions|cli)/", pathNot: "^shared/(store/(sqs|redis|aws)|local)/" },
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
