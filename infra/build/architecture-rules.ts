/** Import rules between folders, according to the map in style.md. test/tooling/architecture.test.ts breaks each of them once. */

import { readFileSync } from "node:fs";
import { join } from "node:path";

import type { DependencyType, IConfiguration } from "dependency-cruiser";

/** The packages that each package under shared/ may import, by name and through its `exports`. */
export const PACKAGE_IMPORTS: Readonly<Record<string, readonly string[]>> = {
  base: [],
  kube: ["base"],
  store: ["base", "kube"],
  controllers: ["base", "kube", "store", "sdk"],
  "node-agent": ["base", "kube"],
  docker: ["node-agent"],
  "api-server": ["base", "kube"],
  local: ["base", "kube", "store", "controllers"],
  replay: ["base", "kube", "store", "controllers", "api-server", "local"],
  timeline: ["base"],
  sdk: [],
  "test-kit": ["base", "kube", "store", "controllers", "api-server", "local", "sdk"],
};
/** Folders that may use files, sockets, processes and timers. */
const EDGE = [
  "^shared/base/(system|http|prometheus|emf|output|nodejs)/",
  "^shared/kube/(http|kubeconfig|yaml)/",
  "^shared/store/(redis|sqs|secrets|aws|memory)/",
  "^shared/controllers/lambda/",
  "^shared/node-agent/(server|host|sources|credentials|certificates|cri|http|prober|system|systemd|logind|node-files|memory)/",
  "^shared/(docker|api-server|local|replay|timeline)/",
];
const CONTROLLERS = "^shared/(controllers/(replicaset|replication|deployment)|node-agent/kubelet)/";
/** The kubelet's files that use ports; its other files are pure decisions. */
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
/** The files in the packages' `exports`, which other folders may import. */
export const ENTRY_FILES: readonly string[] = Object.keys(PACKAGE_IMPORTS).flatMap((name) => {
  const { exports } = JSON.parse(readFileSync(join(import.meta.dirname, `../../shared/${name}/package.json`), "utf8")) as {
    readonly exports: Readonly<Record<string, string>>;
  };
  return Object.values(exports).map((file) => `shared/${name}/${file.slice("./".length)}`);
});
const ENTRIES = ENTRY_FILES.map((file) => `^${file.replaceAll(".", "[.]")}$`);
/** Modules for hashing and compression, whose functions are pure. */
const PURE_MODULES = "^(node:)?(crypto|zlib)$";
const NPM: DependencyType[] = ["npm", "npm-dev", "npm-optional", "npm-peer", "npm-bundled", "npm-no-pkg", "npm-unknown"];
/** Limits a rule to imports of values: `import type` loads no code. */
const values: { dependencyTypesNot: DependencyType[] } = { dependencyTypesNot: ["type-only"] };

export const ARCHITECTURE = {
  forbidden: [
    {
      name: "no-cycles",
      comment: "Merge modules that import each other.",
      severity: "error",
      from: {},
      to: { circular: true, viaOnly: values },
    },
    {
      name: "no-type-cycles",
      comment: "Move a type that two modules need to a module that both may import.",
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
      comment: "The command chooses the adapters. Code that infra/ shares with it belongs in a package.",
      severity: "error",
      from: { path: "^(shared|functions|infra)/" },
      to: { path: "^cli/" },
    },
    {
      name: "shared-knows-no-caller",
      comment: "Packages do not import functions, infra or test, which use them.",
      severity: "error",
      from: { path: "^shared/" },
      to: { path: "^(functions|test|infra)/" },
    },
    {
      name: "product-knows-no-infra",
      comment: "infra/ builds and deploys the product. Code that both need belongs in a package.",
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
      comment: "Each function is a separate zip. Code that two functions need belongs in shared/.",
      severity: "error",
      from: { path: "^functions/((?:node/)?[^/]+)/" },
      to: { path: "^functions/", pathNot: "^functions/$1/" },
    },
    {
      name: "functions-carry-nothing-local",
      comment: "Local replacements, the node agent's host and server, and the replay engine stay out of the bundles.",
      severity: "error",
      from: { path: "^functions/" },
      to: { path: "^shared/(local|api-server|replay|docker|node-agent/(host|server))/", reachable: true },
    },
    {
      name: "machinery-knows-no-controller",
      comment: "cache and kit serve all controllers and import none.",
      severity: "error",
      from: { path: "^shared/controllers/(cache|kit)/" },
      to: { path: "^shared/controllers/", pathNot: "^shared/controllers/(cache|kit)/" },
    },
    {
      name: "no-controller-uses-another",
      comment: "Controllers do not import each other, except that the ReplicationController adapts the ReplicaSet controller.",
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
      comment: "Only sync.ts and sync/ of a controller, and the kubelet's files in KUBELET_EDGES, import ports.",
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
      comment: "Wiring, hosts and deployments read the table of controllers; it imports none of them.",
      severity: "error",
      from: { path: "^shared/controllers/registry/" },
      to: { path: "^shared/controllers/lambda/" },
    },
    {
      name: "adapters-are-chosen-outside",
      comment: "Only the Lambda edge, local, replay, cli, infra and tests import adapters.",
      severity: "error",
      from: { path: "^shared/(controllers/(?!lambda/)[^/]+|node-agent/kubelet)/" },
      to: { path: "^shared/(base/(system|memory|http|prometheus|emf)|kube/http|store/(redis|sqs|secrets|aws|memory))" },
    },
    {
      name: "platform-types-stay-in-their-adapter",
      comment: "Adapters do not import each other.",
      severity: "error",
      from: { path: "^shared/store/(redis|sqs|secrets|memory)/" },
      to: { path: "^shared/store/(redis|sqs|secrets|memory)/", pathNot: "^shared/store/$1/" },
    },
    {
      name: "io-at-the-edge",
      comment: "Only adapters and hosts (EDGE) use files, sockets, processes and timers.",
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
      comment: "store/sqs imports the SQS client, store/aws the credentials, store/redis ioredis; local creates queues and servers.",
      severity: "error",
      from: { path: "^(shared|functions|cli)/", pathNot: "^shared/(store/(sqs|redis|aws)|local)/" },
      to: { path: "node_modules/(@aws-sdk|ioredis)/", ...values },
    },
    {
      name: "client-node-is-types",
      comment: "Import its types only: its code makes warm calls ten times slower and costs 51 MiB per process (design decision 8).",
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
