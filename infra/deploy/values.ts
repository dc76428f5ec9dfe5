/** Finds invalid values before AWS is called: those that CloudFormation or SQS would reject, and those that a function rejects at its start. */
import { ConfigurationError, parseConfiguration, referencesIn } from "@deltaloop/controllers/configuration";

/** The constraints of a CloudFormation parameter. */
interface Constraints {
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
        readonly Parameters: Readonly<Record<string, Constraints>>;
        readonly Resources: {
          readonly DeltasQueue: { readonly Properties: { readonly RedrivePolicy: { readonly maxReceiveCount: string | number } } };
        };
      };
    };
  };
}

/** Variables that take their value from one parameter, without those that check-settings.ts checks. */
const PARAMETER_VARIABLES = ["MODE", "GUARD", "REDIS_CLUSTER", "REDIS_DURABILITY", "KUBE_EKS_CLUSTER", "SQS_ENDPOINT", "LOG_LEVEL"];
const SECONDS = "DELTALOOP_SECRETS_SECONDS";
/** Source: SQS API reference, SetQueueAttributes, `maxReceiveCount`. */
const RECEIVES: Constraints = { MinValue: 1, MaxValue: 1_000 };

/** Returns one line for each invalid value. @param state serverless-state.json, which osls writes for a packaged service */
export function wrongValuesIn(state: unknown): readonly string[] {
  const { stackParameters, environment, compiledCloudFormationTemplate } = (state as State).service.provider; // osls has just written this state
  const { Parameters: constraints, Resources } = compiledCloudFormationTemplate;
  const receives = String(Resources.DeltasQueue.Properties.RedrivePolicy.maxReceiveCount);
  const receivesProblem = problemOf(receives, RECEIVES);
  return [
    ...stackParameters.flatMap(({ ParameterKey: key, ParameterValue: value }) => {
      const { NoEcho: isSecret = false, ...constraint } = constraints[key] ?? {};
      const problem = problemOf(String(value), constraint);
      return problem === undefined ? [] : [`${parameterOf(key)}${isSecret ? "" : `=${value}`}: ${problem}`];
    }),
    ...(receivesProblem === undefined ? [] : [`deltasMaxReceiveCount=${receives}: ${receivesProblem}`]),
    ...wrongVariables(environment),
  ];
}

function problemOf(
  value: string,
  { AllowedValues: allowed, AllowedPattern: pattern, MinValue: min, MaxValue: max }: Constraints,
): string | undefined {
  if (allowed !== undefined && !allowed.some((each) => String(each) === value)) return `must be one of ${allowed.join(", ")}`;
  if (pattern !== undefined && !new RegExp(`^(?:${pattern})$`, "u").test(value)) return `must match ${pattern}`;
  if (min !== undefined && max !== undefined && !(Number(value) >= min && Number(value) <= max)) return `must be from ${min} to ${max}`;
  return undefined;
}

function wrongVariables(environment: Readonly<Record<string, unknown>>): readonly string[] {
  const variables = Object.fromEntries(
    PARAMETER_VARIABLES.map((name) => [`DELTALOOP_${name}`, otherwise(environment[`DELTALOOP_${name}`])] as const),
  );
  const problems = [
    ...problemsOf(() => referencesIn({ [SECONDS]: otherwise(environment[SECONDS]) })),
    // The other variables are not set here, so only problems of these variables count.
    ...problemsOf(() => parseConfiguration(variables)).filter((problem) =>
      PARAMETER_VARIABLES.some((name) => problem.startsWith(`DELTALOOP_${name}: must`)),
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

/** The parameter's value in `!If [MakesStore, A, "${param:…}"]`, or the plain value. */
function otherwise(value: unknown): string | undefined {
  const last = typeof value === "object" && value !== null ? Object.values(value).flat().at(-1) : value;
  return typeof last === "string" ? last : undefined;
}

/** `StoreNodes` and `REDIS_DURABILITY` -> `storeNodes` and `redisDurability`, the names in serverless.yml. */
function parameterOf(name: string): string {
  const words = name === name.toUpperCase() ? name.toLowerCase().replace(/_(.)/g, (_, letter: string) => letter.toUpperCase()) : name;
  return words.charAt(0).toLowerCase() + words.slice(1);
}
