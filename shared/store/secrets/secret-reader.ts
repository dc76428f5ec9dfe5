import { readFile } from "node:fs/promises";

import { SecretError } from "../ports/secrets.ts";
import type { Secrets } from "../ports/secrets.ts";
import { awsJson } from "../aws/aws-json.ts";
import type { AwsJson, AwsJsonOptions } from "../aws/aws-json.ts";
import { environmentRegion } from "../aws/aws-signature.ts";
import { createSecretsManager } from "./secrets-manager.ts";
import { createParameterStore } from "./parameter-store.ts";
import { placeOf } from "./reference.ts";
import type { Place } from "./reference.ts";
import type { Answer, Service } from "./service.ts";

export interface SecretsOptions extends AwsJsonOptions {
  /** Timeout of one attempt. Default: shorter than the shortest function's timeout. */
  readonly timeoutMs?: number;
}

/** A small read in the same region takes about 20 ms; three attempts fit the first invocation of a function with a 5 s timeout. */
export const TIMEOUT_MS = 1_000;

export interface SecretReader extends Pick<Secrets, "read"> {
  /** Returns the client of an AWS service; the writer uses it, too. */
  service(kind: "secretsmanager" | "ssm"): Service;
  /** Ends its connections. */
  close(): void;
}

/** Creates a reader for functions and watchers; bundles then contain no code for writing. */
export function createSecretReader(options: SecretsOptions = {}): SecretReader {
  const calls: AwsJson[] = [];
  const made = new Map<string, Service>();
  const service = (kind: "secretsmanager" | "ssm"): Service => {
    const known = made.get(kind);
    if (known) return known;
    const json = awsJson(SERVICES[kind].service, options);
    const fresh = SERVICES[kind].create(json);
    calls.push(json);
    made.set(kind, fresh);
    return fresh;
  };

  async function readTogether(places: readonly Placed[], timeoutMs: number): Promise<readonly (readonly [string, Answer])[]> {
    const groups = Map.groupBy(places, ({ place: { kind, region } }) => `${kind} ${region ?? ""}`);
    const answers = [...groups.values()].flatMap((group) => {
      const { kind, region } = group[0]?.place ?? { kind: "file" as const };
      if (kind === "file") return group.map(async ({ reference, place }) => [[reference, await readSecretFile(place.id)] as const]);
      const one = service(kind);
      return batches(group, one.idsMax).map(async (batch) => {
        const ids = batch.map(({ place }) => place.id);
        const got = await one.read(ids, urlOf(kind, region, options), timeoutMs).catch((error: unknown) => ids.map(() => failed(error)));
        return batch.map(({ reference }, index) => [reference, got[index] ?? { problem: "got no response" }] as const);
      });
    });
    return (await Promise.all(answers)).flat();
  }

  return {
    async read(references, { timeoutMs = options.timeoutMs ?? TIMEOUT_MS } = {}) {
      const answers = await readTogether([...new Set(references)].map(placed), timeoutMs);
      const problems = answers.flatMap(([reference, answer]) => ("problem" in answer ? [`${reference}: ${answer.problem}`] : []));
      if (problems.length > 0) throw new SecretError(problems);
      return new Map(answers.flatMap(([reference, answer]) => ("value" in answer ? [[reference, answer.value] as const] : [])));
    },

    service,
    close: () => calls.forEach((each) => each.close()),
  };
}

const SERVICES = {
  secretsmanager: {
    service: { name: "secretsmanager", target: "secretsmanager", version: "1.1" },
    create: createSecretsManager,
  },
  ssm: { service: { name: "ssm", target: "AmazonSSM", version: "1.1" }, create: createParameterStore },
} as const;

interface Placed {
  readonly reference: string;
  readonly place: Place;
}

/** Parses a reference. @throws {SecretError} if it is invalid */
export function placed(reference: string): Placed {
  const place = placeOf(reference);
  if (place === undefined) throw new SecretError(["invalid secret reference: expected a name, an ARN, ssm:/path or file:/path"]); // the message omits the reference, which may itself be a secret
  return { reference, place };
}

/** Returns the URL of an AWS service. @throws {SecretError} if no region is known */
export function urlOf(kind: string, region: string | undefined, { endpoint, ...options }: SecretsOptions): string {
  if (endpoint !== undefined) return endpoint;
  const of = region ?? options.region ?? environmentRegion();
  if (of === undefined) throw new SecretError(["the region of the secrets is not known: set AWS_REGION"]);
  const china = of.startsWith("cn-");
  // Secrets Manager has one host name for IPv4 and IPv6, SSM two. Source: AWS Secrets Manager User Guide, "IPv4 and IPv6 access"; AWS
  // General Reference, Systems Manager endpoints.
  if (kind === "ssm" && process.env["AWS_USE_DUALSTACK_ENDPOINT"] === "true")
    return `https://ssm.${of}.${china ? "api.amazonwebservices.com.cn" : "api.aws"}/`;
  return `https://${kind}.${of}.${china ? "amazonaws.com.cn" : "amazonaws.com"}/`;
}

/** The error code of the connection or the file system, which quotes no value. */
export function failed(error: unknown): { readonly problem: string } {
  if (error instanceof SecretError) return { problem: error.message };
  const code = error instanceof Error && "code" in error ? String(error.code) : undefined;
  return { problem: `could not be reached (${code ?? (error instanceof Error ? error.name : "no reason")})` };
}

async function readSecretFile(path: string): Promise<Answer> {
  return await readFile(path, "utf8").then((text) => ({ value: text.trimEnd() }), failed);
}

function batches<T>(all: readonly T[], max: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / max) }, (_, index) => all.slice(index * max, (index + 1) * max));
}
