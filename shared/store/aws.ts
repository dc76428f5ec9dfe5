export { AwsError, awsError, awsJson } from "./aws/aws-json.ts";
export { Sha256, environmentRegion, foundCredentials } from "./aws/aws-signature.ts";
export type { SignerOptions } from "./aws/aws-signature.ts";
