/**
 * Network probes and network hooks (node-agent §6.10, §11). Exec probes use Cri.
 *
 * PR1 a call ends within `timeoutMs`, even if the response arrives byte by byte, and leaves no connection open.
 * PR2 any behaviour of the server leads to a success or a failure; only a request that cannot be made (invalid host or header) is an
 *     `error`.
 * PR3 `httpGet` sends the headers of §11, follows at most 10 redirects to the same host, reads at most 10 KiB of a body and does not
 *    verify TLS. A redirect to another host is a success with `warning`.
 * PR4 an abort of `signal` ends a call at once as an `error`, and leaves no connection open.
 */
export interface Prober {
  httpGet(request: HttpProbe, signal?: AbortSignal): Promise<ProbeOutcome>;
  tcpSocket(request: TcpProbe, signal?: AbortSignal): Promise<ProbeOutcome>;
  /** Runs a gRPC probe without TLS. If the prober does not have this method, the outcome of a gRPC probe is `error`. */
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
  /** Name of the service; empty for the whole server. */
  readonly service: string;
  readonly userAgent: string;
  readonly timeoutMs: number;
}

export interface HttpProbe {
  readonly scheme: "HTTP" | "HTTPS";
  readonly host: string;
  readonly port: number;
  /** Path as in the spec, including the query. */
  readonly path: string;
  readonly headers: readonly { readonly name: string; readonly value: string }[];
  readonly timeoutMs: number;
  /** For hooks: if the server answers an HTTPS request in plain HTTP, repeats the request over HTTP. */
  readonly fallBackToHttp?: true;
  /** For hooks: treats any response as a success, whatever its status code. */
  readonly anyStatus?: true;
}

export interface ProbeOutcome {
  readonly result: "Success" | "Failure" | "error";
  /** Text for the Event, at most 10 KiB. */
  readonly output: string;
  /** Whether the response redirects to another host. */
  readonly warning?: true;
}
