/**
 * A bearer token for an EKS cluster: a presigned GetCallerIdentity request to STS, which the cluster's authenticator sends. It costs no
 * call and needs no IAM permission. An access entry of the cluster maps the caller to a user and groups.
 *
 *     k8s-aws-v1.<base64url of https://sts.eu-central-1.amazonaws.com/?Action=GetCallerIdentity&…&X-Amz-Signature=…>
 *
 * Source: AWS CLI `eks get-token`; github.com/kubernetes-sigs/aws-iam-authenticator pkg/token.
 */
import { SignatureV4 } from "@smithy/signature-v4";

import { foundCredentials, Sha256 } from "@deltaloop/store/aws";
import type { SignerOptions } from "@deltaloop/store/aws";

export interface EksTokenOptions extends Pick<SignerOptions, "credentials"> {
  /** The cluster's name. */
  readonly cluster: string;
  /** Region of the cluster's STS endpoint. */
  readonly region: string;
  readonly now?: () => number;
}

const PREFIX = "k8s-aws-v1.";
/** The authenticator rejects a larger value. It accepts a token for 15 minutes, regardless of this value. */
const EXPIRES_SECONDS = 60;
/** One minute less than the token's lifetime, as in AWS's clients. */
const TOKEN_MS = 14 * 60_000;
const CLUSTER_HEADER = "x-k8s-aws-id";

/** Source of tokens; creates a token if the last one is 14 minutes old or was rejected. For `KubeHttpConfig.token`. */
export function eksTokens({
  cluster,
  region,
  credentials = foundCredentials(),
  now = Date.now,
}: EksTokenOptions): (refused?: string) => Promise<string> {
  const signer = new SignatureV4({ credentials, region, service: "sts", sha256: Sha256 });
  const hostname = `sts.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`;
  let held: { readonly token: Promise<string>; readonly dueMs: number } | undefined;
  let refusedLast: string | undefined;

  async function sign(): Promise<string> {
    const request = {
      method: "GET",
      protocol: "https:",
      hostname,
      path: "/",
      query: { Action: "GetCallerIdentity", Version: "2011-06-15" },
      headers: { host: hostname, [CLUSTER_HEADER]: cluster },
    };
    // The header must stay a signed header, because the authenticator sets it when it sends the request.
    const unhoistableHeaders = new Set([CLUSTER_HEADER]);
    const signingDate = new Date(now());
    const { query = {} } = await signer.presign(request, { expiresIn: EXPIRES_SECONDS, unhoistableHeaders, signingDate });
    const text = ORDER.flatMap((name) => (typeof query[name] === "string" ? [`${name}=${encoded(query[name])}`] : [])).join("&");
    return PREFIX + Buffer.from(`https://${hostname}/?${text}`).toString("base64url");
  }

  return async (refused) => {
    const isRefused = refused !== undefined && refused !== refusedLast && refused === (await held?.token.catch(() => undefined));
    if (held === undefined || now() >= held.dueMs || isRefused) {
      if (isRefused) refusedLast = refused;
      const fresh = { token: sign(), dueMs: now() + TOKEN_MS };
      held = fresh;
      fresh.token.catch(() => held === fresh && (held = undefined));
    }
    return await held.token;
  };
}

/** Query parameters in botocore's order, so that its tokens and these are equal at the same time. */
const ORDER = [
  "Action",
  "Version",
  "X-Amz-Algorithm",
  "X-Amz-Credential",
  "X-Amz-Date",
  "X-Amz-Expires",
  "X-Amz-SignedHeaders",
  "X-Amz-Security-Token",
  "X-Amz-Signature",
];

/** Percent-encodes according to RFC 3986, which is stricter than encodeURIComponent. */
function encoded(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`);
}
