import type { StartupFlags } from "../cluster/startup.ts";
import type { LoggingFormat } from "../output/logging-format-option.ts";
import type { CgroupFlags } from "./node-cgroups.ts";
import type { ImagePullFlags } from "./node-images.ts";
import type { RegistrationFlags } from "./node-registration.ts";
import type { ShutdownFlags } from "./node-shutdown.ts";
import type { RuntimeFlags } from "./node-runtime.ts";

/** The options as parsed from the command line; cli/node.ts describes each. */
export interface NodeFlags extends StartupFlags, CgroupFlags, ImagePullFlags, RegistrationFlags, RuntimeFlags, ShutdownFlags {
  readonly config?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly bootstrapKubeconfig?: string;
  readonly rotateCertificates?: boolean;
  readonly rotateServerCertificates?: boolean;
  readonly certDir?: string;
  readonly name: string;
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly containerLogsDir: string;
  readonly cgroupRoot: string;
  readonly cgroupDriver: "cgroupfs" | "systemd";
  readonly manifests?: string;
  readonly manifestUrl?: string;
  readonly manifestUrlHeader: readonly (readonly [name: string, value: string])[];
  readonly port: number;
  readonly listen: string;
  readonly tlsCertFile?: string;
  readonly tlsPrivateKeyFile?: string;
  readonly clientCaFile?: string;
  readonly maxPods: number;
  readonly clusterDns: readonly string[];
  readonly clusterDomain: string;
  readonly resolvConf: string;
  readonly imageGcHighThreshold: number;
  readonly imageGcLowThreshold: number;
  /** Milliseconds, as `imageMaximumGcAge`. */
  readonly minimumImageTtlDuration: number;
  readonly imageMaximumGcAge?: number;
  /** Threshold statements in upstream's format. */
  readonly evictionHard?: string;
  readonly evictionSoft?: string;
  readonly evictionSoftGracePeriod?: string;
  readonly evictionMinimumReclaim?: string;
  /** Seconds. */
  readonly evictionMaxPodGracePeriod: number;
  /** Milliseconds. */
  readonly evictionPressureTransitionPeriod: number;
  readonly loggingFormat: LoggingFormat;
  readonly metrics?: string;
  /** 0: disabled. */
  readonly healthzPort: number;
  readonly healthzBindAddress: string;
  readonly verbose?: true;
  readonly singleProcessOomKill?: true;
}
