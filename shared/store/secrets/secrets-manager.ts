/** AWS Secrets Manager. Source: AWS Secrets Manager API reference, BatchGetSecretValue and PutSecretValue. */
import * as v from "valibot";

import { AwsError } from "../aws/aws-json.ts";
import type { AwsJson } from "../aws/aws-json.ts";
import { problemWith } from "./problem.ts";
import type { Answer, Service } from "./service.ts";

const READ = "secretsmanager:GetSecretValue";
const READ_TOGETHER = "secretsmanager:BatchGetSecretValue";
const WRITE = "secretsmanager:PutSecretValue";

const Batch = v.object({
  SecretValues: v.nullish(
    v.array(v.object({ ARN: v.optional(v.string()), Name: v.optional(v.string()), SecretString: v.optional(v.string()) })),
    [],
  ),
  Errors: v.nullish(v.array(v.object({ SecretId: v.optional(v.string()), ErrorCode: v.optional(v.string()) })), []),
});

export function createSecretsManager(json: AwsJson): Service {
  return {
    idsMax: 20,
    async read(ids, url, timeoutMs) {
      let answer: v.InferOutput<typeof Batch>;
      try {
        answer = v.parse(Batch, await json.call("BatchGetSecretValue", url, { SecretIdList: ids }, { timeoutMs }));
      } catch (error) {
        if (!(error instanceof AwsError)) throw error;
        return ids.map(() => ({ problem: problemWith(error.name, `${READ_TOGETHER} (on *) and ${READ}`) }));
      }
      return ids.map((id): Answer => {
        const found = answer.SecretValues.find(({ ARN, Name }) => id === Name || id === ARN);
        if (found !== undefined)
          return found.SecretString === undefined ? { problem: "is binary, and text is expected" } : { value: found.SecretString };
        const { ErrorCode = "ResourceNotFoundException" } = answer.Errors.find(({ SecretId }) => SecretId === id) ?? {};
        return { problem: problemWith(ErrorCode, READ) };
      });
    },
    async write(id, value, url, timeoutMs) {
      try {
        await json.call(
          "PutSecretValue",
          url,
          { SecretId: id, SecretString: value, ClientRequestToken: crypto.randomUUID() },
          { timeoutMs },
        );
        return { value };
      } catch (error) {
        if (error instanceof AwsError) return { problem: problemWith(error.name, WRITE) };
        throw error;
      }
    },
  };
}
