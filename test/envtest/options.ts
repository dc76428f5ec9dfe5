/** The options of startControlPlane. */
export interface ControlPlaneOptions {
  /**
   * `"without-workloads"`: the controller manager runs without the Deployment, ReplicaSet and ReplicationController controllers, as for a
   * user who runs ours instead. `"all"`: unmodified upstream, for comparison. `"accounts"`: only the service account controllers, for a
   * measurement that other controllers would disturb, such as those that react to each Service.
   */
  readonly controllers: "without-workloads" | "all" | "accounts";
  /** Default true. False: the garbage collector is off too, because it would delete objects that a test checks. */
  readonly garbageCollection?: boolean;
  /** Default false: scripted nodes bind the pods themselves. */
  readonly scheduler?: boolean;
  /**
   * Client limits of controller manager and scheduler in requests per second. Default with `"all"`: upstream's own (20/30
   * and 50/100). Default with `"without-workloads"`: 200/400, because with upstream's limits the controller manager spends 4 s on
   * the credentials of its 35 controllers before the first namespace has a service account.
   */
  readonly kubeApi?: { readonly qps: number; readonly burst: number };
  /** Folder for `<component>.log` files, one control plane per folder; default: a temporary one that stop() removes. */
  readonly logDirectory?: string;
  /** Path of the API server's audit log, one JSON line per answered request; workload writes include their bodies. */
  readonly auditLog?: string;
  /** With `auditLog`: also the responses to workload writes. */
  readonly auditAnswers?: boolean;
  /**
   * Enables certificate signing for nodes that join: the API server accepts bootstrap tokens, and the controller manager approves and signs
   * CSRs, with certificates of this lifetime.
   */
  readonly signing?: { readonly seconds: number };
  /**
   * Default false. True: the API server proxies requests to the servers of APIServices, with its own CA for the proxy
   * certificate, as with kubeadm.
   */
  readonly frontProxy?: boolean;
}
