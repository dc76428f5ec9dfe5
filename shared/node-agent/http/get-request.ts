/** A GET request to a third-party server. */
import type { Proxy } from "@deltaloop/base/http";
import type { Url } from "./url.ts";

export interface Header {
  readonly name: string;
  readonly value: string;
}

export interface GetRequest {
  readonly url: Url;
  /** Includes Host. */
  readonly headers: readonly Header[];
  readonly signal: AbortSignal;
  readonly verifiesCertificate: boolean;
  /** Maximum number of bytes received on an HTTP/2 connection. If absent, HTTP/2 is not offered. */
  readonly http2BytesMax?: number;
  readonly proxy?: Proxy | undefined;
}
