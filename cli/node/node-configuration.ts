/**
 * The agent's configuration as a KubeletConfiguration, for `/configz` (node-agent §15). It has only the fields that the agent supports,
 * and the fixed values of those that cannot be configured.
 *
 * Source: kubelet config/v1beta1/types.go; cmd/kubelet/app/server.go setConfigz.
 */
import { DEFAULT_EVICTION_HARD, parseStatements, goDuration, serializesByDefault } from "@deltaloop/node-agent/kubelet";
import type { NodeOptions } from "@deltaloop/node-agent/kubelet";
import { shutdownSettings } from "./node-shutdown.ts";
import type { NodeFlags } from "./node-flags.ts";

/** Omits headers of the manifest URL and possibly secret parts of the URL itself: other users than the machine's owner can read this. */
export function kubeletConfiguration(flags: NodeFlags, options: NodeOptions): object {
  return {
    kind: "KubeletConfiguration",
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    enableServer: true,
    ...sources(flags),
    address: flags.listen ?? options.hostIps[0],
    port: options.port,
    ...(flags.tlsCertFile !== undefined && { tlsCertFile: flags.tlsCertFile, tlsPrivateKeyFile: flags.tlsPrivateKeyFile }),
    ...(flags.rotateCertificates === true && { rotateCertificates: true }),
    ...(flags.rotateServerCertificates === true && { serverTLSBootstrap: true }),
    authentication: {
      x509: flags.clientCaFile === undefined ? {} : { clientCAFile: flags.clientCaFile },
      webhook: { enabled: true, cacheTTL: "2m0s" },
      anonymous: { enabled: false },
    },
    authorization: { mode: "Webhook", webhook: { cacheAuthorizedTTL: "5m0s", cacheUnauthorizedTTL: "30s" } },
    enableDebuggingHandlers: true,
    ...images(flags),
    eventRecordQPS: 50,
    eventBurst: 100,
    healthzPort: flags.healthzPort,
    healthzBindAddress: flags.healthzBindAddress,
    oomScoreAdj: flags.oomScoreAdj,
    clusterDomain: options.clusterDomain,
    ...(options.clusterDns.length > 0 && { clusterDNS: options.clusterDns }),
    resolvConf: flags.resolvConf,
    ...registration(options),
    streamingConnectionIdleTimeout: "4h0m0s",
    nodeStatusUpdateFrequency: "10s",
    nodeStatusReportFrequency: "5m0s",
    nodeLeaseDurationSeconds: 40,
    nodeStatusMaxImages: 50,
    runtimeRequestTimeout: "2m0s",
    maxPods: options.maxPods,
    ...cgroups(flags, options),
    ...eviction(flags),
    ...shutdown(flags),
    containerLogMaxSize: "10Mi",
    containerLogMaxFiles: 5,
    containerLogMonitorInterval: "10s",
    containerRuntimeEndpoint: flags.cri,
  };
}

function sources(flags: NodeFlags): object {
  return {
    ...(flags.manifests !== undefined && { staticPodPath: flags.manifests }),
    podLogsDir: flags.podLogsDir,
    syncFrequency: "1m0s",
    fileCheckFrequency: "20s",
    httpCheckFrequency: "20s",
    ...(flags.manifestUrl !== undefined && { staticPodURL: withoutSecrets(flags.manifestUrl) }),
  };
}

function withoutSecrets(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function registration({ registration: { taints = [], providerId } = {} }: NodeOptions): object {
  return { ...(taints.length > 0 && { registerWithTaints: taints }), ...(providerId !== undefined && { providerID: providerId }) };
}

function images(flags: NodeFlags): object {
  return {
    registryPullQPS: flags.registryQps,
    registryBurst: flags.registryBurst,
    imageMinimumGCAge: goDuration(flags.minimumImageTtlDuration),
    imageMaximumGCAge: goDuration(flags.imageMaximumGcAge ?? 0),
    imageGCHighThresholdPercent: flags.imageGcHighThreshold,
    imageGCLowThresholdPercent: flags.imageGcLowThreshold,
    serializeImagePulls: flags.serializeImagePulls ?? serializesByDefault(flags.maxParallelImagePulls),
    ...(flags.maxParallelImagePulls !== undefined && { maxParallelImagePulls: flags.maxParallelImagePulls }),
  };
}

function cgroups(flags: NodeFlags, { cgroupDriver, cgroups: policy }: NodeOptions): object {
  return {
    cgroupRoot: flags.cgroupRoot,
    cgroupsPerQOS: policy.perQos,
    cgroupDriver,
    podPidsLimit: policy.podMaxPids,
    ...(flags.singleProcessOomKill === true && { singleProcessOOMKill: true }),
    ...map("systemReserved", parseStatements(flags.systemReserved, "=")),
    ...map("kubeReserved", parseStatements(flags.kubeReserved, "=")),
    ...(flags.systemReservedCgroup !== undefined && { systemReservedCgroup: flags.systemReservedCgroup }),
    ...(flags.kubeReservedCgroup !== undefined && { kubeReservedCgroup: flags.kubeReservedCgroup }),
    enforceNodeAllocatable: policy.enforce.length === 0 ? ["none"] : policy.enforce,
  };
}

function eviction(flags: NodeFlags): object {
  return {
    ...map("evictionHard", flags.evictionHard === undefined ? DEFAULT_EVICTION_HARD : parseStatements(flags.evictionHard, "<")),
    ...map("evictionSoft", parseStatements(flags.evictionSoft ?? "", "<")),
    ...map("evictionSoftGracePeriod", parseStatements(flags.evictionSoftGracePeriod ?? "", "=")),
    evictionPressureTransitionPeriod: goDuration(flags.evictionPressureTransitionPeriod),
    ...(flags.evictionMaxPodGracePeriod !== 0 && { evictionMaxPodGracePeriod: flags.evictionMaxPodGracePeriod }),
    ...map("evictionMinimumReclaim", parseStatements(flags.evictionMinimumReclaim ?? "", "=")),
  };
}

function shutdown(flags: NodeFlags): object {
  const { totalMs, criticalMs, byPriority } = shutdownSettings(flags);
  return {
    shutdownGracePeriod: goDuration(totalMs),
    shutdownGracePeriodCriticalPods: goDuration(criticalMs),
    ...(byPriority.length > 0 && {
      shutdownGracePeriodByPodPriority: byPriority.map(({ priority, seconds }) => ({ priority, shutdownGracePeriodSeconds: seconds })),
    }),
  };
}

/** Omits empty maps, as Go does. */
function map(name: string, statements: ReadonlyMap<string, string>): object {
  return statements.size === 0 ? {} : { [name]: Object.fromEntries(statements) };
}
