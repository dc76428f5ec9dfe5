/** Problems with a secret, by the error code of its service, and their remedies. The service's message is not quoted. */

/** Problems by the error codes of both services. Source: AWS Secrets Manager and SSM API references, errors of each action. */
const WORDS: Readonly<Record<string, string>> = {
  ResourceNotFoundException: "does not exist, or has no value yet",
  ParameterNotFound: "does not exist",
  InvalidParameters: "does not exist",
  InvalidRequestException: "is marked for deletion",
  DecryptionFailure: "cannot be decrypted: the KMS key is disabled, or kms:Decrypt on it is not allowed",
  InvalidKeyId: "cannot be decrypted: its KMS key is not usable",
  ExpiredTokenException: "was requested with expired AWS credentials",
  UnrecognizedClientException: "was requested with unknown AWS credentials",
};

/** Describes an error code as text. `action`: the IAM action, such as `secretsmanager:GetSecretValue`. */
export function problemWith(code: string, action: string): string {
  if (code === "AccessDeniedException") return `access is denied: allow ${action} on it, and kms:Decrypt if its key is your own`;
  const words = WORDS[code];
  return words === undefined ? `failed with ${code}` : `${words} (${code})`;
}
