/**
 * Replaces the AWS SDK's credential provider chain in the functions' bundles. Lambda provides the role's credentials as environment
 * variables only; profiles, SSO, web identities and instance metadata would add 80 KiB.
 */

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** Has the name of the export of `@aws-sdk/credential-provider-node` that it replaces. The provider throws if a variable is missing. */
export function defaultProvider(): () => Promise<Credentials> {
  return async () => {
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken } = process.env;
    if (accessKeyId === undefined || secretAccessKey === undefined)
      throw new Error("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; Lambda sets them for the function's role");
    return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
  };
}
