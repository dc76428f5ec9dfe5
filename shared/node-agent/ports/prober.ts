/**
 * Probes and hooks that go over the network (node-agent §6.10, §11); exec probes go through Cri.
 *
 * PR1 a call ends within `timeoutMs`, also when bytes trickle, and leaves no connection behind.
 * PR2 what the other side does is an outcome; only a request that cannot be made (bad host, bad header) is `error`.
 * PR3 `httpGet` sends the headers of §11, follows redirects to the same host only (at most 10), reads at most 10 KiB of a body and
 *    does not verify TLS; a redirect elsewhere is a success with `warning`.
 * PR4 a call whose `signal` is aborted ends at once, as an `error`, and leaves no connection behind.
 */
export interface Prober {
  httpGet(request: HttpProbe, signal?: AbortSignal): Promise<ProbeOutcome>;
  tcpSocket(request: TcpProbe, signal?: AbortSignal): Promise<ProbeOutcome>;
  /** Without TLS. A prober without it runs no such probe: that is an `error`. */
  grpcHealth?(request: GrpcProbe, signal?: AbortSignal): Promise<ProbeOutcome>;
}

export interface TcpProbe {
  readonly host: string;
  readonly port: number;
  readonly timeoutMs: number;
}

export interface GrpcProbe {
  readonly host: string;
  readonly port: number;
  /** Empty: the server as a whole. */
  readonly service: string;
  readonly userAgent: string;
  readonly timeoutMs: number;
}

export interface HttpProbe {
  readonly scheme: "HTTP" | "HTTPS";
  readonly host: string;
  readonly port: number;
  /** As the spec has it, with query. */
  readonly path: string;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly timeoutMs: number;
  /** Hooks: HTTPS that is answered in plain HTTP is asked once more in HTTP. */
  readonly fallBackToHttp?: true;
  /** Hooks: an answer is a success whatever its status code. */
  readonly anyStatus?: true;
}

export interface ProbeOutcome {
  readonly result: "Success" | "Failure" | "error";
  /** What stands in the event: never more than 10 KiB. */
  readonly output: string;
  /** A redirect to another host. */
  readonly warning?: true;
}
