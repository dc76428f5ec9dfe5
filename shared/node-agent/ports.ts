export type { KeyedCertificate } from "./ports/certificates.ts";
export { textOfBytes } from "@deltaloop/base";
export type { Cgroups } from "./ports/cgroups.ts";
export { CriError, isNotFound, isUnimplemented } from "./ports/cri-error.ts";
export type { CriErrorCode } from "./ports/cri-error.ts";
export type {
  AttachRequest,
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerMetadata,
  ContainerState,
  ContainerStats,
  ContainerStatus,
  ExecRequest,
  ExecSyncResponse,
  Image,
  LinuxContainerResources,
  LinuxContainerSecurityContext,
  LinuxSandboxSecurityContext,
  Mount,
  NamespaceOption,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxMetadata,
  PortMapping,
  RuntimeCondition,
  SELinuxOption,
  SecurityProfile,
  StringMap,
  VersionResponse,
} from "./ports/cri-types.ts";
export type { Cri, ExecSyncOptions } from "./ports/cri.ts";
export type { Logind } from "./ports/logind.ts";
export type { NodeCredentials } from "./ports/node-credentials.ts";
export type { Prober } from "./ports/prober.ts";
