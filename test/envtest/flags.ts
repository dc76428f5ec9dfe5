/** The command lines of the components, as in a user's control plane. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ControlPlaneOptions } from "./options.ts";
import { createPki, type Pki, serviceAccountKeys } from "./pki.ts";

/** The files that the API server and the controller manager read. */
interface ServerFiles {
  readonly tlsCertificate: string;
  readonly tlsKey: string;
  /** The client certificate of the API server for kubelets. */
  readonly kubeletClientCertificate: string;
  readonly kubeletClientKey: string;
  readonly serviceAccountPrivateKey: string;
  readonly serviceAccountPublicKey: string;
  readonly auditPolicy: string;
  readonly frontProxy?: { readonly caFile: string; readonly certificate: string; readonly key: string };
}

/** The name of the front-proxy client, as kubeadm sets it. */
const FRONT_PROXY = "front-proxy-client";

/** Writes the API server's two certificates, the service-account keys and the audit policy into `folder`, readable by this user only. */
export async function writeServerFiles(
  folder: string,
  pki: Pki,
  { auditAnswers = false, frontProxy = false }: ControlPlaneOptions,
): Promise<ServerFiles> {
  const tls = await pki.serverCertificate();
  const kubeletClient = await pki.clientCertificate("kube-apiserver-kubelet-client", ["system:masters"]);
  const accounts = serviceAccountKeys();
  const write = async (name: string, text: string): Promise<string> => {
    await writeFile(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const proxyAuthority = frontProxy ? await createPki(join(folder, "front-proxy")) : undefined;
  const proxy = await proxyAuthority?.clientCertificate(FRONT_PROXY, []);
  return {
    tlsCertificate: await write("apiserver.crt", tls.certificate),
    tlsKey: await write("apiserver.key", tls.key),
    kubeletClientCertificate: await write("apiserver-kubelet-client.crt", kubeletClient.certificate),
    kubeletClientKey: await write("apiserver-kubelet-client.key", kubeletClient.key),
    serviceAccountPrivateKey: await write("service-accounts.key", accounts.privateKey),
    serviceAccountPublicKey: await write("service-accounts.pub", accounts.publicKey),
    auditPolicy: await write("audit-policy.json", JSON.stringify(auditPolicy(auditAnswers ? "RequestResponse" : "Request"))),
    ...(proxyAuthority &&
      proxy && {
        frontProxy: {
          caFile: proxyAuthority.caFile,
          certificate: await write("front-proxy-client.crt", proxy.certificate),
          key: await write("front-proxy-client.key", proxy.key),
        },
      }),
  };
}

const ETCD_NAME = "envtest";

/** Flags of a single-member etcd that serves clients at `url` and keeps its data in `dataFolder`. */
export function etcdFlags(url: string, dataFolder: string): readonly string[] {
  return [
    `--name=${ETCD_NAME}`,
    `--data-dir=${dataFolder}`,
    `--listen-client-urls=${url}`,
    `--advertise-client-urls=${url}`,
    "--listen-peer-urls=http://127.0.0.1:0", // a single member has no peers; the kernel chooses the port
    "--unsafe-no-fsync", // the data is not needed after the run
    "--log-level=warn",
  ];
}

/**
 * Flags that restore a snapshot as the data of such a member. `bumpRevision` is added to its revision and everything before is compacted,
 * so that no watch continues from a revision with another meaning. With 0, the revision is that of the snapshot.
 */
export function etcdRestoreFlags(snapshot: string, dataFolder: string, bumpRevision: number): readonly string[] {
  return [
    "snapshot",
    "restore",
    snapshot,
    `--name=${ETCD_NAME}`,
    `--initial-cluster=${ETCD_NAME}=http://localhost:2380`, // the default name of a member without peers
    `--data-dir=${dataFolder}`,
    ...(bumpRevision > 0 ? [`--bump-revision=${bumpRevision}`, "--mark-compacted"] : []),
  ];
}

/**
 * Flags of the API server: TLS and client certificates of our CA, Node and RBAC authorization, NodeRestriction, and its own service account
 * issuer.
 */
export function apiServerFlags(given: {
  readonly port: number;
  readonly etcdUrl: string;
  readonly caFile: string;
  readonly files: ServerFiles;
  readonly auditLog: string | undefined;
  readonly bootstrapTokens: boolean;
}): readonly string[] {
  const { files } = given;
  return [
    `--etcd-servers=${given.etcdUrl}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${given.port}`,
    // The `kubernetes` Service gets no endpoints: the API server rejects loopback addresses for it, and there is no service network.
    "--advertise-address=127.0.0.1",
    "--endpoint-reconciler-type=none",
    "--service-cluster-ip-range=10.0.0.0/20",
    `--tls-cert-file=${files.tlsCertificate}`,
    `--tls-private-key-file=${files.tlsKey}`,
    `--client-ca-file=${given.caFile}`,
    // The client certificate for logs and exec. The Node's status has address and port of its agent, whose certificate is not verified.
    `--kubelet-client-certificate=${files.kubeletClientCertificate}`,
    `--kubelet-client-key=${files.kubeletClientKey}`,
    "--kubelet-preferred-address-types=InternalIP,Hostname",
    "--authorization-mode=Node,RBAC",
    "--enable-admission-plugins=NodeRestriction",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-signing-key-file=${files.serviceAccountPrivateKey}`,
    `--service-account-key-file=${files.serviceAccountPublicKey}`,
    "--allow-privileged=true",
    ...(files.frontProxy === undefined
      ? []
      : [
          `--requestheader-client-ca-file=${files.frontProxy.caFile}`,
          `--requestheader-allowed-names=${FRONT_PROXY}`,
          "--requestheader-username-headers=X-Remote-User",
          "--requestheader-group-headers=X-Remote-Group",
          "--requestheader-extra-headers-prefix=X-Remote-Extra-",
          `--proxy-client-cert-file=${files.frontProxy.certificate}`,
          `--proxy-client-key-file=${files.frontProxy.key}`,
        ]),
    ...(given.bootstrapTokens ? ["--enable-bootstrap-token-auth"] : []),
    ...(given.auditLog === undefined
      ? []
      : [`--audit-log-path=${given.auditLog}`, "--audit-log-maxsize=4096", `--audit-policy-file=${files.auditPolicy}`]),
  ];
}

/** Flags of the controller manager as on a cluster, with one service account per controller; `--controllers` selects the controllers. */
export function controllerManagerFlags(given: {
  readonly config: string;
  readonly pki: Pki;
  readonly files: ServerFiles;
  readonly options: ControlPlaneOptions;
}): readonly string[] {
  const { pki } = given;
  const { signing } = given.options;
  return [
    ...clientFlags(given.config, given.options),
    "--use-service-account-credentials",
    `--root-ca-file=${pki.caFile}`,
    ...(signing === undefined
      ? []
      : [
          `--cluster-signing-cert-file=${pki.caFile}`,
          `--cluster-signing-key-file=${pki.caKeyFile}`,
          `--cluster-signing-duration=${signing.seconds}s`,
        ]),
    `--service-account-private-key-file=${given.files.serviceAccountPrivateKey}`,
    `--controllers=${CONTROLLERS[given.options.controllers]}${given.options.garbageCollection === false ? ",-garbage-collector-controller" : ""}`,
  ];
}

/** Options of the three workload controllers. */
export interface LoopOptions {
  /** Client limits in requests per second. Default 200/400. */
  readonly kubeApi?: { readonly qps: number; readonly burst: number };
  /** Default true: the controllers use JSON, so that a proxy can read and change it. False: protobuf, upstream's default. */
  readonly isReadable?: boolean;
}

/** Flags that run only the three workload controllers, each with its service account as on a cluster. */
export function workloadLoopsFlags(config: string, { kubeApi, isReadable = true }: LoopOptions): readonly string[] {
  return [
    ...clientFlags(config, { controllers: "without-workloads", ...(kubeApi && { kubeApi }) }),
    "--use-service-account-credentials",
    `--controllers=${WORKLOADS.join(",")}`,
    ...(isReadable ? ["--kube-api-content-type=application/json"] : []),
  ];
}

/** Flags of the scheduler with its default profile. */
export function schedulerFlags(config: string, options: ControlPlaneOptions): readonly string[] {
  return clientFlags(config, options);
}

function clientFlags(config: string, { controllers, kubeApi: asked }: ControlPlaneOptions): readonly string[] {
  const kubeApi = asked ?? (controllers === "without-workloads" ? KUBE_API_WITHOUT_WORKLOADS : undefined);
  return [
    `--kubeconfig=${config}`,
    "--leader-elect=false", // only one instance runs, and an election takes seconds
    "--secure-port=0", // metrics are not used, and this saves a port
    ...(kubeApi === undefined ? [] : [`--kube-api-qps=${kubeApi.qps}`, `--kube-api-burst=${kubeApi.burst}`]),
  ];
}

/** Client limits, see ControlPlaneOptions.kubeApi: a start takes 3.5 s with them and 7 s without (2 cores). */
const KUBE_API_WITHOUT_WORKLOADS = { qps: 200, burst: 400 };

const WORKLOADS = ["deployment-controller", "replicaset-controller", "replicationcontroller-controller"];

const CONTROLLERS = {
  "without-workloads": ["*", ...WORKLOADS.map((name) => `-${name}`)].join(","),
  all: "*",
  accounts: "serviceaccount-controller",
} as const satisfies Record<ControlPlaneOptions["controllers"], string>;

/**
 * Logs the bodies of workload writes, so that tests can check what was sent. Logs no other bodies, so that no Secret is written to a file.
 */
const auditPolicy = (level: "Request" | "RequestResponse"): object => ({
  apiVersion: "audit.k8s.io/v1",
  kind: "Policy",
  omitStages: ["RequestReceived"],
  rules: [
    {
      level,
      verbs: ["create", "update", "patch", "delete", "deletecollection"],
      resources: [
        { group: "", resources: ["pods", "pods/status", "replicationcontrollers", "replicationcontrollers/status"] },
        { group: "apps", resources: ["deployments", "deployments/status", "replicasets", "replicasets/status"] },
      ],
    },
    { level: "Metadata" },
  ],
});
