/**
 * What stands in a function's bundle for the AWS SDK's search for credentials. Lambda hands a sandbox its role's credentials as environment
 * variables and nothing else: profiles, SSO, web identities and instance metadata are 80 KiB of bundle that no sandbox ever asks.
 */

interface Credentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string;
}

/** In the place of `@aws-sdk/credential-provider-node`, whose export has this name. @throws {Error} when they are not there */
export function defaultProvider(): () => Promise<Credentials> {
  return async () => {
    const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey, AWS_SESSION_TOKEN: sessionToken } = process.env;
    if (accessKeyId === undefined || secretAccessKey === undefined)
      throw new Error("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not in the environment, where Lambda puts them");
    return { accessKeyId, secretAccessKey, ...(sessionToken !== undefined && { sessionToken }) };
  };
}
