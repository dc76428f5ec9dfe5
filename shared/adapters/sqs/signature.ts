/** Signature Version 4 of calls to SQS, by `@smithy/signature-v4`, which keeps the day's key. */
import { createHash, createHmac } from "node:crypto";

import type { defaultProvider } from "@aws-sdk/credential-provider-node";
import { SignatureV4 } from "@smithy/signature-v4";

type Credentials = ConstructorParameters<typeof SignatureV4>[0]["credentials"];

export interface SignerOptions {
  /** Default: the one in the host's name, then AWS_REGION. */
  readonly region?: string;
  /** Default: as the SDK finds them. */
  readonly credentials?: Credentials;
}

/** The headers of `POST /` for an action of SQS. @throws {Error} when no region or no credentials are known */
export type SqsSigner = (host: string, action: string, body: string) => Promise<Readonly<Record<string, string>>>;

export function createSqsSigner({ region, credentials = found() }: SignerOptions): SqsSigner {
  const signers = new Map<string, SignatureV4>();
  return async (host, action, body) => {
    const of = region ?? regionOf(host);
    const signer = signers.get(of) ?? new SignatureV4({ credentials, region: of, service: "sqs", sha256: Sha256 });
    signers.set(of, signer);
    const headers = { host, "content-type": "application/x-amz-json-1.0", "x-amz-target": `AmazonSQS.${action}` };
    // Of a request the signature has the host in its header; protocol and hostname are not looked at.
    const request = { method: "POST", protocol: "", hostname: "", path: "/", query: {}, headers, body };
    return (await signer.sign(request)).headers;
  };
}

/** `sqs.eu-central-1.amazonaws.com`, `vpce-….sqs.eu-central-1.vpce.amazonaws.com` */
function regionOf(host: string): string {
  const named = /(?:^|\.)sqs(?:-fips)?\.([a-z]{2}(?:-[a-z]+)+-\d+)\./.exec(host)?.[1];
  const region = named ?? process.env["AWS_REGION"] ?? process.env["AWS_DEFAULT_REGION"];
  if (region === undefined) throw new Error(`the region of ${host} is not known: set AWS_REGION`);
  return region;
}

/** Looked for when the first call needs them: the search is a large package. */
function found(): Credentials {
  let provider: ReturnType<typeof defaultProvider> | undefined;
  return async () => {
    provider ??= (await import("@aws-sdk/credential-provider-node")).defaultProvider();
    return await provider();
  };
}

/** What the signer hashes with. */
class Sha256 {
  readonly #hash: { update(data: string | Uint8Array): unknown; digest(): Uint8Array };

  constructor(key?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = key === undefined ? createHash("sha256") : createHmac("sha256", bytesOf(key));
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(bytesOf(data));
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }

  reset(): void {
    throw new Error("a hash is taken once");
  }
}

function bytesOf(data: string | ArrayBuffer | ArrayBufferView): string | Uint8Array {
  if (typeof data === "string") return data;
  return data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
