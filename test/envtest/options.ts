/** The options of startControlPlane. */
export interface ControlPlaneOptions {
  /**
   * `"without-workloads"`: the controller manager leaves Deployments, ReplicaSets and ReplicationControllers to us, as a
   * user would hand those three over. `"all"`: upstream as it is, to compare with.
   */
  readonly controllers: "without-workloads" | "all";
  /** Default true. False: the garbage collector is off as well, which would clear away what a test looks at. */
  readonly garbageCollection?: boolean;
  /** Default false: scripted nodes bind the pods themselves. */
  readonly scheduler?: boolean;
  /**
   * Client limits of controller manager and scheduler, requests per second. Default with `"all"`: upstream's own (20/30
   * and 50/100). Default with `"without-workloads"`: 200/400, since upstream's make the controller manager spend 4 s on
   * the credentials of its 35 controllers before the first namespace has a service account.
   */
  readonly kubeApi?: { readonly qps: number; readonly burst: number };
  /** Where `<component>.log` go, one control plane per folder; default a temporary one that stop() removes. */
  readonly logDirectory?: string;
  /** Writes the API server's audit log there, one JSON line per answered request; workload writes with their bodies. */
  readonly auditLog?: string;
  /** With `auditLog`: the answers to workload writes as well. */
  readonly auditAnswers?: boolean;
  /**
   * Nodes may join: bootstrap tokens are let in, and the controller manager approves and signs certificate requests, with certificates
   * that last so long.
   */
  readonly signing?: { readonly seconds: number };
  /**
   * Default false. True: the API server speaks for its clients to the servers of APIServices, and says by whose certificate those know it,
   * with an authority of its own for that, as kubeadm has it.
   */
  readonly frontProxy?: boolean;
}
