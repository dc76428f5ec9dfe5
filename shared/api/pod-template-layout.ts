/**
 * The Go types behind a pod template, API v1.36 (deployment Appendix A), as data. The hash prints by it (deployment §7.2)
 * and the normal form asks it which JSON fields are pointers and which are quantities (deployment §6.1), so that the two
 * can never disagree. The text is parsed at first use, which keeps the import free.
 */

/**
 * Version of the table. Digests and hashes of different layouts are never compared: a change is a new epoch
 * (design decision 5).
 */
export const LAYOUT_VERSION = "1.36";

export interface GoStruct {
  /** In declaration order. */
  readonly fields: readonly GoField[];
  /** By JSON key, with embedded structs flattened, as they are in JSON. */
  readonly byKey: ReadonlyMap<string, GoType>;
}

export interface GoField {
  readonly name: string;
  /** JSON key; without meaning for an embedded field. */
  readonly key: string;
  readonly embedded: boolean;
  readonly type: GoType;
}

/** `text` is the type as Go prints it: `[]v1.Container`, `*int64`, `v1.ResourceList`. */
export type GoType =
  | { readonly kind: "string" | "bool" | "int" | "quantity" | "time" | "intOrString"; readonly text: string }
  | { readonly kind: "pointer" | "list" | "map"; readonly text: string; readonly element: GoType }
  | { readonly kind: "struct"; readonly text: string; readonly struct: GoStruct };

let parsed: GoStruct | undefined;

/** PodTemplateSpec with everything it refers to. */
export function podTemplateLayout(): GoStruct {
  parsed ??= parseLayout(LAYOUT, "PodTemplateSpec");
  return parsed;
}

function parseLayout(layout: string, root: string): GoStruct {
  const bodies = new Map<string, string>();
  for (const [, name = "", body = ""] of layout.matchAll(/(\w+)\{([^}]*)\}/g)) bodies.set(name, body);
  // It has exactly the fields of Container.
  bodies.set("EphemeralContainerCommon", bodies.get("Container") ?? "");
  const structs = new Map<string, GoStruct>();

  function structOf(name: string, body: string): GoStruct {
    const known = structs.get(name);
    if (known !== undefined) return known;
    const fields = [...body.matchAll(/(\w+)(?:=(\w+))?(\^?):(\S+)/g)].map(([, field = "", key, embedded, type = ""]): GoField => {
      const prefix = /^(\*|\[\])?/.exec(type)?.[0] ?? "";
      const base = type.slice(prefix.length);
      return {
        name: field,
        key: key ?? field.charAt(0).toLowerCase() + field.slice(1),
        embedded: embedded === "^",
        type: prefixed(prefix, baseType(base === "~" ? field : base)),
      };
    });
    const byKey = new Map<string, GoType>();
    for (const { key, embedded, type } of fields) {
      if (embedded && type.kind === "struct") for (const [inner, innerType] of type.struct.byKey) byKey.set(inner, innerType);
      else byKey.set(key, type);
    }
    const struct = { fields, byKey };
    structs.set(name, struct);
    return struct;
  }

  function baseType(name: string): GoType {
    const builtIn = BUILT_IN[name];
    if (builtIn !== undefined) return builtIn;
    const body = bodies.get(name);
    const text = name.includes(".") ? name : `v1.${name}`;
    return body === undefined ? { kind: "string", text } : { kind: "struct", text, struct: structOf(name, body) };
  }

  return structOf(root, bodies.get(root) ?? "");
}

function prefixed(prefix: string, element: GoType): GoType {
  if (prefix === "") return element;
  return { kind: prefix === "*" ? "pointer" : "list", text: prefix + element.text, element };
}

const STRING: GoType = { kind: "string", text: "string" };
const QUANTITY: GoType = { kind: "quantity", text: "resource.Quantity" };

const BUILT_IN: Readonly<Record<string, GoType>> = {
  s: STRING,
  b: { kind: "bool", text: "bool" },
  i32: { kind: "int", text: "int32" },
  i64: { kind: "int", text: "int64" },
  m: { kind: "map", text: "map[string]string", element: STRING },
  Time: { kind: "time", text: "v1.Time" },
  "resource.Quantity": QUANTITY,
  "intstr.IntOrString": { kind: "intOrString", text: "intstr.IntOrString" },
  ResourceList: { kind: "map", text: "v1.ResourceList", element: QUANTITY },
};

/**
 * `Struct{Field:type …}` in Go's declaration order. Types: `s` string, `b` bool, `i32`, `i64`, `m` map[string]string, `~` a
 * type with the field's own name, prefixes `*` and `[]`; a name without a struct of its own is a kind of string.
 * `Field=key` gives the JSON key where it is not the field's name with a small first letter; `Field^` is embedded.
 *
 * Source: staging/src/k8s.io/api/core/v1/types.go, apimachinery pkg/apis/meta/v1/types.go, v1.36.
 */
const LAYOUT = `
PodTemplateSpec{ObjectMeta=metadata:~ Spec:PodSpec}
ObjectMeta{Name:s GenerateName:s Namespace:s SelfLink:s UID=uid:types.UID ResourceVersion:s Generation:i64 CreationTimestamp:Time
  DeletionTimestamp:*Time DeletionGracePeriodSeconds:*i64 Labels:m Annotations:m OwnerReferences:[]OwnerReference Finalizers:[]s
  ManagedFields:[]ManagedFieldsEntry}
PodSpec{Volumes:[]Volume InitContainers:[]Container Containers:[]Container EphemeralContainers:[]EphemeralContainer RestartPolicy:~
  TerminationGracePeriodSeconds:*i64 ActiveDeadlineSeconds:*i64 DNSPolicy=dnsPolicy:~ NodeSelector:m ServiceAccountName:s
  DeprecatedServiceAccount=serviceAccount:s AutomountServiceAccountToken:*b NodeName:s HostNetwork:b HostPID:b HostIPC:b
  ShareProcessNamespace:*b SecurityContext:*PodSecurityContext ImagePullSecrets:[]LocalObjectReference Hostname:s Subdomain:s
  Affinity:*~ SchedulerName:s Tolerations:[]Toleration HostAliases:[]HostAlias PriorityClassName:s Priority:*i32
  DNSConfig=dnsConfig:*PodDNSConfig ReadinessGates:[]PodReadinessGate RuntimeClassName:*s EnableServiceLinks:*b PreemptionPolicy:*~
  Overhead:ResourceList TopologySpreadConstraints:[]TopologySpreadConstraint SetHostnameAsFQDN:*b OS=os:*PodOS HostUsers:*b
  SchedulingGates:[]PodSchedulingGate ResourceClaims:[]PodResourceClaim Resources:*ResourceRequirements HostnameOverride:*s
  SchedulingGroup:*PodSchedulingGroup}
OwnerReference{APIVersion=apiVersion:s Kind:s Name:s UID=uid:types.UID Controller:*b BlockOwnerDeletion:*b}
ManagedFieldsEntry{Manager:s Operation:ManagedFieldsOperationType APIVersion=apiVersion:s Time:*~ FieldsType:s FieldsV1:*~
  Subresource:s}
Volume{Name:s VolumeSource^:~}
Container{Name:s Image:s Command:[]s Args:[]s WorkingDir:s Ports:[]ContainerPort EnvFrom:[]EnvFromSource Env:[]EnvVar
  Resources:ResourceRequirements ResizePolicy:[]ContainerResizePolicy RestartPolicy:*ContainerRestartPolicy
  RestartPolicyRules:[]ContainerRestartRule VolumeMounts:[]VolumeMount VolumeDevices:[]VolumeDevice LivenessProbe:*Probe
  ReadinessProbe:*Probe StartupProbe:*Probe Lifecycle:*~ TerminationMessagePath:s TerminationMessagePolicy:~ ImagePullPolicy:PullPolicy
  SecurityContext:*~ Stdin:b StdinOnce:b TTY=tty:b}
EphemeralContainer{EphemeralContainerCommon^:~ TargetContainerName:s}
PodSecurityContext{SELinuxOptions=seLinuxOptions:*~ WindowsOptions:*WindowsSecurityContextOptions RunAsUser:*i64 RunAsGroup:*i64
  RunAsNonRoot:*b SupplementalGroups:[]i64 SupplementalGroupsPolicy:*~ FSGroup=fsGroup:*i64 Sysctls:[]Sysctl
  FSGroupChangePolicy=fsGroupChangePolicy:*PodFSGroupChangePolicy SeccompProfile:*~ AppArmorProfile:*~
  SELinuxChangePolicy=seLinuxChangePolicy:*PodSELinuxChangePolicy}
LocalObjectReference{Name:s} Affinity{NodeAffinity:*~ PodAffinity:*~ PodAntiAffinity:*~}
Toleration{Key:s Operator:TolerationOperator Value:s Effect:TaintEffect TolerationSeconds:*i64} HostAlias{IP=ip:s Hostnames:[]s}
PodDNSConfig{Nameservers:[]s Searches:[]s Options:[]PodDNSConfigOption} PodReadinessGate{ConditionType:PodConditionType}
TopologySpreadConstraint{MaxSkew:i32 TopologyKey:s WhenUnsatisfiable:UnsatisfiableConstraintAction LabelSelector:*~ MinDomains:*i32
  NodeAffinityPolicy:*NodeInclusionPolicy NodeTaintsPolicy:*NodeInclusionPolicy MatchLabelKeys:[]s}
PodOS{Name:OSName} PodSchedulingGate{Name:s} PodResourceClaim{Name:s ResourceClaimName:*s ResourceClaimTemplateName:*s}
ResourceRequirements{Limits:ResourceList Requests:ResourceList Claims:[]ResourceClaim} PodSchedulingGroup{PodGroupName:*s}
VolumeSource{HostPath:*HostPathVolumeSource EmptyDir:*EmptyDirVolumeSource
  GCEPersistentDisk=gcePersistentDisk:*GCEPersistentDiskVolumeSource
  AWSElasticBlockStore=awsElasticBlockStore:*AWSElasticBlockStoreVolumeSource GitRepo:*GitRepoVolumeSource Secret:*SecretVolumeSource
  NFS=nfs:*NFSVolumeSource ISCSI=iscsi:*ISCSIVolumeSource Glusterfs:*GlusterfsVolumeSource
  PersistentVolumeClaim:*PersistentVolumeClaimVolumeSource RBD=rbd:*RBDVolumeSource FlexVolume:*FlexVolumeSource
  Cinder:*CinderVolumeSource CephFS=cephfs:*CephFSVolumeSource Flocker:*FlockerVolumeSource DownwardAPI:*DownwardAPIVolumeSource
  FC=fc:*FCVolumeSource AzureFile:*AzureFileVolumeSource ConfigMap:*ConfigMapVolumeSource VsphereVolume:*VsphereVirtualDiskVolumeSource
  Quobyte:*QuobyteVolumeSource AzureDisk:*AzureDiskVolumeSource PhotonPersistentDisk:*PhotonPersistentDiskVolumeSource
  Projected:*ProjectedVolumeSource PortworxVolume:*PortworxVolumeSource ScaleIO:*ScaleIOVolumeSource
  StorageOS=storageos:*StorageOSVolumeSource CSI=csi:*CSIVolumeSource Ephemeral:*EphemeralVolumeSource Image:*ImageVolumeSource}
ContainerPort{Name:s HostPort:i32 ContainerPort:i32 Protocol:~ HostIP:s}
EnvFromSource{Prefix:s ConfigMapRef:*ConfigMapEnvSource SecretRef:*SecretEnvSource} EnvVar{Name:s Value:s ValueFrom:*EnvVarSource}
ContainerResizePolicy{ResourceName:~ RestartPolicy:ResourceResizeRestartPolicy}
ContainerRestartRule{Action:ContainerRestartRuleAction ExitCodes:*ContainerRestartRuleOnExitCodes}
VolumeMount{Name:s ReadOnly:b RecursiveReadOnly:*RecursiveReadOnlyMode MountPath:s SubPath:s MountPropagation:*MountPropagationMode
  SubPathExpr:s}
VolumeDevice{Name:s DevicePath:s}
Probe{ProbeHandler^:~ InitialDelaySeconds:i32 TimeoutSeconds:i32 PeriodSeconds:i32 SuccessThreshold:i32 FailureThreshold:i32
  TerminationGracePeriodSeconds:*i64}
Lifecycle{PostStart:*LifecycleHandler PreStop:*LifecycleHandler StopSignal:*Signal}
SecurityContext{Capabilities:*~ Privileged:*b SELinuxOptions=seLinuxOptions:*~ WindowsOptions:*WindowsSecurityContextOptions
  RunAsUser:*i64 RunAsGroup:*i64 RunAsNonRoot:*b ReadOnlyRootFilesystem:*b AllowPrivilegeEscalation:*b ProcMount:*ProcMountType
  SeccompProfile:*~ AppArmorProfile:*~}
SELinuxOptions{User:s Role:s Type:s Level:s}
WindowsSecurityContextOptions{GMSACredentialSpecName=gmsaCredentialSpecName:*s GMSACredentialSpec=gmsaCredentialSpec:*s RunAsUserName:*s
  HostProcess:*b}
Sysctl{Name:s Value:s} SeccompProfile{Type:SeccompProfileType LocalhostProfile:*s}
AppArmorProfile{Type:AppArmorProfileType LocalhostProfile:*s}
NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution:*NodeSelector
  PreferredDuringSchedulingIgnoredDuringExecution:[]PreferredSchedulingTerm}
PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm}
PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution:[]PodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution:[]WeightedPodAffinityTerm}
PodDNSConfigOption{Name:s Value:*s} LabelSelector{MatchLabels:m MatchExpressions:[]LabelSelectorRequirement}
ResourceClaim{Name:s Request:s} HostPathVolumeSource{Path:s Type:*HostPathType}
EmptyDirVolumeSource{Medium:StorageMedium SizeLimit:*resource.Quantity}
GCEPersistentDiskVolumeSource{PDName=pdName:s FSType=fsType:s Partition:i32 ReadOnly:b}
AWSElasticBlockStoreVolumeSource{VolumeID:s FSType=fsType:s Partition:i32 ReadOnly:b}
GitRepoVolumeSource{Repository:s Revision:s Directory:s}
SecretVolumeSource{SecretName:s Items:[]KeyToPath DefaultMode:*i32 Optional:*b} NFSVolumeSource{Server:s Path:s ReadOnly:b}
ISCSIVolumeSource{TargetPortal:s IQN=iqn:s Lun:i32 ISCSIInterface=iscsiInterface:s FSType=fsType:s ReadOnly:b Portals:[]s
  DiscoveryCHAPAuth=chapAuthDiscovery:b SessionCHAPAuth=chapAuthSession:b SecretRef:*LocalObjectReference InitiatorName:*s}
GlusterfsVolumeSource{EndpointsName=endpoints:s Path:s ReadOnly:b} PersistentVolumeClaimVolumeSource{ClaimName:s ReadOnly:b}
RBDVolumeSource{CephMonitors=monitors:[]s RBDImage=image:s FSType=fsType:s RBDPool=pool:s RadosUser=user:s Keyring:s
  SecretRef:*LocalObjectReference ReadOnly:b}
FlexVolumeSource{Driver:s FSType=fsType:s SecretRef:*LocalObjectReference ReadOnly:b Options:m}
CinderVolumeSource{VolumeID:s FSType=fsType:s ReadOnly:b SecretRef:*LocalObjectReference}
CephFSVolumeSource{Monitors:[]s Path:s User:s SecretFile:s SecretRef:*LocalObjectReference ReadOnly:b}
FlockerVolumeSource{DatasetName:s DatasetUUID:s} DownwardAPIVolumeSource{Items:[]DownwardAPIVolumeFile DefaultMode:*i32}
FCVolumeSource{TargetWWNs:[]s Lun:*i32 FSType=fsType:s ReadOnly:b WWIDs=wwids:[]s}
AzureFileVolumeSource{SecretName:s ShareName:s ReadOnly:b}
ConfigMapVolumeSource{LocalObjectReference^:~ Items:[]KeyToPath DefaultMode:*i32 Optional:*b}
VsphereVirtualDiskVolumeSource{VolumePath:s FSType=fsType:s StoragePolicyName:s StoragePolicyID:s}
QuobyteVolumeSource{Registry:s Volume:s ReadOnly:b User:s Group:s Tenant:s}
AzureDiskVolumeSource{DiskName:s DataDiskURI=diskURI:s CachingMode:*AzureDataDiskCachingMode FSType=fsType:*s ReadOnly:*b
  Kind:*AzureDataDiskKind}
PhotonPersistentDiskVolumeSource{PdID:s FSType=fsType:s} ProjectedVolumeSource{Sources:[]VolumeProjection DefaultMode:*i32}
PortworxVolumeSource{VolumeID:s FSType=fsType:s ReadOnly:b}
ScaleIOVolumeSource{Gateway:s System:s SecretRef:*LocalObjectReference SSLEnabled=sslEnabled:b ProtectionDomain:s StoragePool:s
  StorageMode:s VolumeName:s FSType=fsType:s ReadOnly:b}
StorageOSVolumeSource{VolumeName:s VolumeNamespace:s FSType=fsType:s ReadOnly:b SecretRef:*LocalObjectReference}
CSIVolumeSource{Driver:s ReadOnly:*b FSType=fsType:*s VolumeAttributes:m NodePublishSecretRef:*LocalObjectReference}
EphemeralVolumeSource{VolumeClaimTemplate:*PersistentVolumeClaimTemplate} ImageVolumeSource{Reference:s PullPolicy:~}
ConfigMapEnvSource{LocalObjectReference^:~ Optional:*b} SecretEnvSource{LocalObjectReference^:~ Optional:*b}
EnvVarSource{FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector ConfigMapKeyRef:*ConfigMapKeySelector
  SecretKeyRef:*SecretKeySelector FileKeyRef:*FileKeySelector}
ContainerRestartRuleOnExitCodes{Operator:ContainerRestartRuleOnExitCodesOperator Values:[]i32}
ProbeHandler{Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction GRPC=grpc:*GRPCAction}
LifecycleHandler{Exec:*ExecAction HTTPGet=httpGet:*HTTPGetAction TCPSocket=tcpSocket:*TCPSocketAction Sleep:*SleepAction}
Capabilities{Add:[]Capability Drop:[]Capability} NodeSelector{NodeSelectorTerms:[]NodeSelectorTerm}
PreferredSchedulingTerm{Weight:i32 Preference:NodeSelectorTerm}
PodAffinityTerm{LabelSelector:*~ Namespaces:[]s TopologyKey:s NamespaceSelector:*LabelSelector MatchLabelKeys:[]s MismatchLabelKeys:[]s}
WeightedPodAffinityTerm{Weight:i32 PodAffinityTerm:~} LabelSelectorRequirement{Key:s Operator:LabelSelectorOperator Values:[]s}
KeyToPath{Key:s Path:s Mode:*i32}
DownwardAPIVolumeFile{Path:s FieldRef:*ObjectFieldSelector ResourceFieldRef:*ResourceFieldSelector Mode:*i32}
VolumeProjection{Secret:*SecretProjection DownwardAPI:*DownwardAPIProjection ConfigMap:*ConfigMapProjection
  ServiceAccountToken:*ServiceAccountTokenProjection ClusterTrustBundle:*ClusterTrustBundleProjection
  PodCertificate:*PodCertificateProjection}
PersistentVolumeClaimTemplate{ObjectMeta=metadata:~ Spec:PersistentVolumeClaimSpec}
ObjectFieldSelector{APIVersion=apiVersion:s FieldPath:s} ResourceFieldSelector{ContainerName:s Resource:s Divisor:resource.Quantity}
ConfigMapKeySelector{LocalObjectReference^:~ Key:s Optional:*b} SecretKeySelector{LocalObjectReference^:~ Key:s Optional:*b}
FileKeySelector{VolumeName:s Path:s Key:s Optional:*b} ExecAction{Command:[]s}
HTTPGetAction{Path:s Port:intstr.IntOrString Host:s Scheme:URIScheme HTTPHeaders=httpHeaders:[]HTTPHeader}
TCPSocketAction{Port:intstr.IntOrString Host:s} GRPCAction{Port:i32 Service:*s} SleepAction{Seconds:i64}
NodeSelectorTerm{MatchExpressions:[]NodeSelectorRequirement MatchFields:[]NodeSelectorRequirement}
SecretProjection{LocalObjectReference^:~ Items:[]KeyToPath Optional:*b} DownwardAPIProjection{Items:[]DownwardAPIVolumeFile}
ConfigMapProjection{LocalObjectReference^:~ Items:[]KeyToPath Optional:*b}
ServiceAccountTokenProjection{Audience:s ExpirationSeconds:*i64 Path:s}
ClusterTrustBundleProjection{Name:*s SignerName:*s LabelSelector:*~ Optional:*b Path:s}
PodCertificateProjection{SignerName:s KeyType:s MaxExpirationSeconds:*i32 CredentialBundlePath:s KeyPath:s CertificateChainPath:s
  UserAnnotations:m}
PersistentVolumeClaimSpec{AccessModes:[]PersistentVolumeAccessMode Selector:*LabelSelector Resources:VolumeResourceRequirements
  VolumeName:s StorageClassName:*s VolumeMode:*PersistentVolumeMode DataSource:*TypedLocalObjectReference
  DataSourceRef:*TypedObjectReference VolumeAttributesClassName:*s}
 HTTPHeader{Name:s Value:s}
NodeSelectorRequirement{Key:s Operator:NodeSelectorOperator Values:[]s}
VolumeResourceRequirements{Limits:ResourceList Requests:ResourceList} TypedLocalObjectReference{APIGroup=apiGroup:*s Kind:s Name:s}
TypedObjectReference{APIGroup=apiGroup:*s Kind:s Name:s Namespace:*s}
`;
