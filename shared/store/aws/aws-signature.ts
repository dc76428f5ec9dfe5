/** Signature Version 4 for AWS calls, by `@smithy/signature-v4`, which caches the day's signing key. */
import { createHash, createHmac, createSecretKey } from "node:crypto";

import type { defaultProvider } from "@aws-sdk/credential-provider-node";
import { SignatureV4 } from "@smithy/signature-v4";

type Credentials = ConstructorParameters<typeof SignatureV4>[0]["credentials"];

/** Names of a service in a signature, in its hostname, and before an action. */
export interface AwsService {
  /** `sqs` */
  readonly name: string;
  /** `AmazonSQS`, the prefix of `x-amz-target`. */
  readonly target: string;
  /** Version of AWS JSON. */
  readonly version: "1.0" | "1.1";
}

export interface SignerOptions {
  /** Default: the region in the host's name, then AWS_REGION. */
  readonly region?: string;
  /** Default: the SDK's credential chain. */
  readonly credentials?: Credentials;
}

/** The headers of `POST /` for an action. @throws {Error} if the region or the credentials are unknown */
export type AwsSigner = (host: string, action: string, body: string) => Promise<Readonly<Record<string, string>>>;

export function createAwsSigner(service: AwsService, { region, credentials = foundCredentials() }: SignerOptions): AwsSigner {
  const signers = new Map<string, SignatureV4>();
  return async (host, action, body) => {
    const of = region ?? regionOf(host, service.name);
    const signer = signers.get(of) ?? new SignatureV4({ credentials, region: of, service: service.name, sha256: Sha256 });
    signers.set(of, signer);
    const headers = { host, "content-type": `application/x-amz-json-${service.version}`, "x-amz-target": `${service.target}.${action}` };
    // The signature covers the host header, not protocol and hostname.
    const request = { method: "POST", protocol: "", hostname: "", path: "/", query: {}, headers, body };
    return (await signer.sign(request)).headers;
  };
}

/** `sqs.eu-central-1.amazonaws.com`, `vpce-….sqs.eu-central-1.vpce.amazonaws.com` */
function regionOf(host: string, service: string): string {
  const named = new RegExp(`(?:^|\\.)${service}(?:-fips)?\\.([a-z]{2}(?:-[a-z]+)+-\\d+)\\.`).exec(host)?.[1];
  const region = named ?? environmentRegion();
  if (region === undefined) throw new Error(`the region of ${host} is not known: set AWS_REGION`);
  return region;
}

/** The region of this process from the variables that Lambda and ECS set; otherwise undefined. */
export function environmentRegion(): string | undefined {
  return process.env["AWS_REGION"] ?? process.env["AWS_DEFAULT_REGION"];
}

/** Loads the credential chain at the first call, because it is a large package. */
export function foundCredentials(): Credentials {
  let provider: ReturnType<typeof defaultProvider> | undefined;
  return async () => {
    provider ??= (await import("@aws-sdk/credential-provider-node")).defaultProvider();
    return await provider();
  };
}

/** Hash for signers. A raw key costs Node four times as much as a key object. */
export class Sha256 {
  readonly #hash: { update(data: string | Uint8Array): unknown; digest(): Uint8Array };

  constructor(key?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = key === undefined ? createHash("sha256") : createHmac("sha256", createSecretKey(Buffer.from(bytesOf(key))));
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(bytesOf(data));
  }

  digest(): Promise<Uint8Array> {
    return Promise.resolve(this.#hash.digest());
  }

  reset(): void {
    throw new Error("digest() may be called only once");
  }
}

function bytesOf(data: string | ArrayBuffer | ArrayBufferView): string | Uint8Array {
  if (typeof data === "string") return data;
  return data instanceof ArrayBuffer ? new Uint8Array(data) : new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}
