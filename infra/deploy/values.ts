/**
 * What is wrong with single values, one line each and before AWS is asked: those that CloudFormation's parameters or SQS do not allow, and those
 * that a function would end with at its start.
 */
import { ConfigurationError, parseConfiguration, referencesIn } from "@deltaloop/controllers/configuration";

interface Kind {
  readonly NoEcho?: boolean;
  readonly AllowedValues?: readonly (string | number)[];
  readonly AllowedPattern?: string;
  readonly MinValue?: number;
  readonly MaxValue?: number;
}

interface State {
  readonly service: {
    readonly provider: {
      readonly stackParameters: readonly { readonly ParameterKey: string; readonly ParameterValue: string }[];
      readonly environment: Readonly<Record<string, unknown>>;
      readonly compiledCloudFormationTemplate: {
        readonly Parameters: Readonly<Record<string, Kind>>;
        readonly Resources: {
          readonly DeltasQueue: { readonly Properties: { readonly RedrivePolicy: { readonly maxReceiveCount: string | number } } };
        };
      };
    };
  };
}

/** Variables whose value is a parameter's and nothing else; those of lacks.ts are not among them. */
const OF_PARAMETERS = ["MODE", "GUARD", "REDIS_CLUSTER", "REDIS_DURABILITY", "KUBE_EKS_CLUSTER", "SQS_ENDPOINT", "LOG_LEVEL"];
const SECONDS = "DELTALOOP_SECRETS_SECONDS";
/** Source: SQS API reference, SetQueueAttributes, `maxReceiveCount`. */
const RECEIVES: Kind = { MinValue: 1, MaxValue: 1_000 };

/** @param state osls' own record of a packaged service */
export function wrongValuesIn(state: unknown): readonly string[] {
  const { stackParameters, environment, compiledCloudFormationTemplate } = (state as State).service.provider; // written by osls just now
  const { Parameters: kinds, Resources } = compiledCloudFormationTemplate;
  const receives = String(Resources.DeltasQueue.Properties.RedrivePolicy.maxReceiveCount);
  const whyNotSo = whyNot(receives, RECEIVES);
  return [
    ...stackParameters.flatMap(({ ParameterKey: key, ParameterValue: value }) => {
      const { NoEcho: isSecret = false, ...kind } = kinds[key] ?? {};
      const why = whyNot(String(value), kind);
      return why === undefined ? [] : [`${parameterOf(key)}${isSecret ? "" : `=${value}`}: ${why}`];
    }),
    ...(whyNotSo === undefined ? [] : [`deltasMaxReceiveCount=${receives}: ${whyNotSo}`]),
    ...wrongVariables(environment),
  ];
}

function whyNot(
  value: string,
  { AllowedValues: allowed, AllowedPattern: pattern, MinValue: min, MaxValue: max }: Kind,
): string | undefined {
  if (allowed !== undefined && !allowed.some((each) => String(each) === value)) return `one of ${allowed.join(", ")}`;
  if (pattern !== undefined && !new RegExp(`^(?:${pattern})$`, "u").test(value)) return `it does not look like ${pattern}`;
  if (min !== undefined && max !== undefined && !(Number(value) >= min && Number(value) <= max)) return `from ${min} to ${max}`;
  return undefined;
}

function wrongVariables(environment: Readonly<Record<string, unknown>>): readonly string[] {
  const variables = Object.fromEntries(
    OF_PARAMETERS.map((name) => [`DELTALOOP_${name}`, otherwise(environment[`DELTALOOP_${name}`])] as const),
  );
  const problems = [
    ...problemsOf(() => referencesIn({ [SECONDS]: otherwise(environment[SECONDS]) })),
    // Most is missing here, and that is not what is asked.
    ...problemsOf(() => parseConfiguration(variables)).filter((problem) =>
      OF_PARAMETERS.some((name) => problem.startsWith(`DELTALOOP_${name}: must`)),
    ),
  ];
  return problems.map((problem) => problem.replace(/^DELTALOOP_(\w+)/, (_, name: string) => parameterOf(name)));
}

function problemsOf(read: () => unknown): readonly string[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
}

/** Of `!If [MakesStore, A, "${param:…}"]` the parameter's. */
function otherwise(value: unknown): string | undefined {
  const last = typeof value === "object" && value !== null ? Object.values(value).flat().at(-1) : value;
  return typeof last === "string" ? last : undefined;
}

/** `StoreNodes`, `REDIS_DURABILITY` -> `storeNodes`, `redisDurability`, as serverless.yml has them. */
function parameterOf(name: string): string {
  const words = name === name.toUpperCase() ? name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) : name;
  return words.charAt(0).toLowerCase() + words.slice(1);
}
