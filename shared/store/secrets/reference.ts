/** The service and id that a reference of shared/store/ports/secrets.ts names. */
export interface Place {
  readonly kind: "secretsmanager" | "ssm" | "file";
  /** Id in the service's API: a name, an ARN, a path. */
  readonly id: string;
  /** Region of an ARN; absent for the caller's region. */
  readonly region?: string;
}

/** Valid names of Secrets Manager and Parameter Store. Source: AWS Secrets Manager CreateSecret, AWS SSM PutParameter. */
const NAME = /^[\w/+=.@-]{1,512}$/;
const ARN = /^arn:aws[\w-]*:(secretsmanager|ssm):([a-z0-9-]+):\d{12}:(?:secret:|parameter\/)[\w/+=.@-]+$/;

/** Returns undefined for an invalid reference. */
export function placeOf(reference: string): Place | undefined {
  const [, service, region] = ARN.exec(reference) ?? [];
  if (service === "secretsmanager" || service === "ssm") return { kind: service, id: reference, ...(region !== undefined && { region }) };
  if (reference.startsWith("file:/")) return { kind: "file", id: reference.slice("file:".length) };
  const [kind, id] = reference.startsWith("ssm:")
    ? (["ssm", reference.slice("ssm:".length)] as const)
    : (["secretsmanager", reference] as const);
  return NAME.test(id) ? { kind, id } : undefined;
}
