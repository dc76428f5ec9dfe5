/** Parameter Store of AWS Systems Manager. Source: AWS SSM API reference, GetParameters and PutParameter. */
import * as v from "valibot";

import { AwsError } from "../aws/aws-json.ts";
import type { AwsJson } from "../aws/aws-json.ts";
import { problemWith } from "./problem.ts";
import type { Answer, Service } from "./service.ts";

const READ = "ssm:GetParameters";
const WRITE = "ssm:PutParameter";

const Parameters = v.object({
  Parameters: v.nullish(
    v.array(v.object({ ARN: v.optional(v.string()), Name: v.optional(v.string()), Value: v.optional(v.string()) })),
    [],
  ),
});

export function createParameterStore(json: AwsJson): Service {
  return {
    idsMax: 10,
    async read(ids, url, timeoutMs) {
      let answer: v.InferOutput<typeof Parameters>;
      try {
        answer = v.parse(Parameters, await json.call("GetParameters", url, { Names: ids, WithDecryption: true }, { timeoutMs }));
      } catch (error) {
        if (!(error instanceof AwsError)) throw error;
        return ids.map(() => ({ problem: problemWith(error.name, READ) }));
      }
      return ids.map((id): Answer => {
        const value = answer.Parameters.find(({ ARN, Name }) => id === Name || id === ARN)?.Value;
        return value === undefined ? { problem: problemWith("ParameterNotFound", READ) } : { value };
      });
    },
    /** Sends no parameter type, because the type cannot be changed. */
    async write(id, value, url, timeoutMs) {
      try {
        await json.call("PutParameter", url, { Name: id, Value: value, Overwrite: true }, { timeoutMs });
        return { value };
      } catch (error) {
        if (error instanceof AwsError) return { problem: problemWith(error.name, WRITE) };
        throw error;
      }
    },
  };
}
