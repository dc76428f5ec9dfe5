/**
 * The drill's calls to LocalStack besides SQS. LocalStack reads the service from the credential and verifies nothing.
 */

const credential = (service: string): string =>
  `AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/${service}/aws4_request, SignedHeaders=host, Signature=none`;

/** Resources of a deployment besides queues, and how to list them. */
const LISTS = [
  ["lambda", "/2015-03-31/functions/"],
  ["lambda", "/2015-03-31/event-source-mappings/"],
  ["s3", "/"],
  ["iam", "/?Action=ListRoles&Version=2010-05-08"],
  ["monitoring", "/?Action=DescribeAlarms&Version=2010-08-01"],
  ["events", "/", "AWSEvents.ListRules"],
  ["logs", "/", "Logs_20140328.DescribeLogGroups"],
] as const;

/** One response for each kind of resource, as text. @throws when one is not 200 */
export async function everythingMade(endpoint: string): Promise<readonly string[]> {
  return await Promise.all(
    LISTS.map(async ([service, path, target]) => {
      const headers = { authorization: credential(service), "x-amz-target": target ?? "", "content-type": "application/x-amz-json-1.1" };
      const request =
        target === undefined ? { headers: { authorization: headers.authorization } } : { method: "POST", headers, body: "{}" };
      const answer = await fetch(`${endpoint}${path}`, request);
      const text = await answer.text();
      if (answer.status !== 200) throw new Error(`${service} ${path}: ${answer.status} ${text}`);
      return text;
    }),
  );
}

/** Returns the fields that change when CloudFormation updates a stack or a function. */
export async function editionOf(endpoint: string, stack: string): Promise<object> {
  const cloudFormation = async (action: string): Promise<string> => {
    const answer = await fetch(`${endpoint}/?Action=${action}&StackName=${stack}&Version=2010-05-15`, {
      headers: { authorization: credential("cloudformation") },
    });
    return await answer.text();
  };
  const described = await cloudFormation("DescribeStacks");
  const events = await cloudFormation("DescribeStackEvents");
  return {
    stack: [/<StackStatus>(\w+)/.exec(described)?.[1], /<LastUpdatedTime>([^<]+)/.exec(described)?.[1] ?? "never"],
    events: [...events.matchAll(/<EventId>/g)].length,
    functions: (await functionsOf(endpoint)).map(({ FunctionName, CodeSha256, LastModified, RevisionId }) =>
      [FunctionName, CodeSha256, LastModified, RevisionId].join(" "),
    ),
  };
}

export interface DeployedFunction {
  readonly FunctionName: string;
  /** The hash of the function's zip, in base64. */
  readonly CodeSha256: string;
  readonly LastModified: string;
  readonly RevisionId: string;
}

export async function functionsOf(endpoint: string): Promise<readonly DeployedFunction[]> {
  const { Functions } = (await lambda(endpoint, "GET", "functions/")) as { readonly Functions: readonly DeployedFunction[] }; // the response of ListFunctions
  return Functions.toSorted((a, b) => (a.FunctionName < b.FunctionName ? -1 : 1));
}

/** Enables or disables the event source mappings of the named functions. Resolves when LocalStack confirms it. */
export async function readQueues(endpoint: string, functions: readonly string[], enabled: boolean): Promise<void> {
  type Mapping = { readonly UUID: string; readonly FunctionArn: string; readonly State: string };
  const mappings = async (): Promise<readonly Mapping[]> => {
    const answer = (await lambda(endpoint, "GET", "event-source-mappings/")) as { readonly EventSourceMappings: readonly Mapping[] }; // the response of ListEventSourceMappings
    return answer.EventSourceMappings.filter(({ FunctionArn }) => functions.some((name) => FunctionArn.endsWith(`-${name}`)));
  };
  const found = await mappings();
  if (found.length !== functions.length) throw new Error(`${found.length} mappings of ${functions.join(", ")}`);
  for (const { UUID } of found) await lambda(endpoint, "PUT", `event-source-mappings/${UUID}`, { Enabled: enabled });
  for (const giveUpAt = performance.now() + 30_000; ; await new Promise((resolve) => setTimeout(resolve, 100))) {
    const states = (await mappings()).map(({ State }) => State);
    if (states.every((state) => state === (enabled ? "Enabled" : "Disabled"))) return;
    if (performance.now() > giveUpAt) throw new Error(`event source mappings: ${states.join(", ")}`);
  }
}

async function lambda(endpoint: string, method: string, path: string, body?: object): Promise<unknown> {
  const answer = await fetch(`${endpoint}/2015-03-31/${path}`, {
    method,
    headers: { authorization: credential("lambda"), ...(body && { "content-type": "application/json" }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
  return JSON.parse(text);
}
