/** Secrets Manager and Parameter Store according to their API references: a few actions, over HTTP, on loopback. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

export interface SecretsStandIn {
  readonly endpoint: string;
  /** Values by name; names in Parameter Store start with a slash. Undefined: the secret exists but has no value yet. */
  readonly values: Map<string, string | undefined>;
  /** Names that the caller may not use, with the error code. */
  readonly refused: Map<string, string>;
  /** Names that responses omit although they exist. */
  readonly passedOver: Set<string>;
  /** Every request's action and names. */
  readonly asked: { readonly action: string; readonly names: readonly string[] }[];
  /** While set, requests are not answered. */
  silent: boolean;
  stop(): Promise<void>;
}

const ARN = "arn:aws:secretsmanager:us-east-1:000000000000:secret:";

export async function startSecretsStandIn(initial: Readonly<Record<string, string>> = {}): Promise<SecretsStandIn> {
  const values = new Map<string, string | undefined>(Object.entries(initial));
  const refused = new Map<string, string>();
  const passedOver = new Set<string>();
  const asked: { readonly action: string; readonly names: readonly string[] }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (part: string) => (body += part));
    request.on("end", () => {
      if (standIn.silent) return;
      const [target, action = ""] = String(request.headers["x-amz-target"]).split(".");
      const signed = /^AWS4-HMAC-SHA256 Credential=\w+\/\d{8}\/[a-z0-9-]+\/(secretsmanager|ssm)\/aws4_request, /.test(
        String(request.headers.authorization),
      );
      const input = JSON.parse(body) as Input;
      const names = [...(input.SecretIdList ?? []), ...(input.Names ?? []), ...[input.SecretId ?? input.Name ?? []].flat()].map(nameOf);
      asked.push({ action, names });
      const known = target === "secretsmanager" || target === "AmazonSSM";
      const answer =
        signed && known ? answerTo(action, input, names) : { status: 403, body: { __type: "MissingAuthenticationTokenException" } };
      response.writeHead(answer.status, { "content-type": "application/x-amz-json-1.1" }).end(JSON.stringify(answer.body));
    });
  });

  function answerTo(action: string, input: Input, names: readonly string[]): { readonly status: number; readonly body: object } {
    const denied = refused.get(action);
    if (denied !== undefined) return { status: 400, body: { __type: denied, message: "it quotes sec-ret" } };
    const [name = ""] = names;
    switch (action) {
      case "BatchGetSecretValue": {
        const problems = names.flatMap((each, index) => {
          if (passedOver.has(each)) return [];
          const code = refused.get(each) ?? (values.get(each) === undefined ? "ResourceNotFoundException" : undefined);
          return code === undefined ? [] : [{ SecretId: input.SecretIdList?.[index], ErrorCode: code, Message: "it quotes sec-ret" }];
        });
        const good = names.filter((each) => !passedOver.has(each) && !refused.has(each) && values.get(each) !== undefined);
        const found = good.map((each) => ({ ARN: `${ARN}${each}-a1B2c3`, Name: each, SecretString: values.get(each) }));
        // AWS does not guarantee the requested order.
        return { status: 200, body: { SecretValues: found.toReversed(), Errors: problems } };
      }
      case "GetParameters": {
        const code = names.map((each) => refused.get(each)).find((each) => each !== undefined);
        if (code !== undefined) return { status: 400, body: { __type: code, message: "it quotes sec-ret" } };
        const found = names.filter((each) => values.get(each) !== undefined);
        return {
          status: 200,
          body: {
            Parameters: found.map((each) => ({ Name: each, Type: "SecureString", Value: values.get(each) })),
            InvalidParameters: names.filter((each) => !found.includes(each)),
          },
        };
      }
      case "PutSecretValue":
      case "PutParameter":
        if (refused.has(name) || !values.has(name))
          return {
            status: 400,
            body: { __type: refused.get(name) ?? (action === "PutParameter" ? "ParameterNotFound" : "ResourceNotFoundException") },
          };
        values.set(name, input.SecretString ?? input.Value);
        return { status: 200, body: { Name: name, Version: 2 } };
      default:
        return { status: 400, body: { __type: "UnknownOperationException" } };
    }
  }

  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const standIn: SecretsStandIn = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    values,
    refused,
    passedOver,
    asked,
    silent: false,
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
  return standIn;
}

interface Input {
  readonly SecretIdList?: readonly string[];
  readonly Names?: readonly string[];
  readonly SecretId?: string;
  readonly Name?: string;
  readonly SecretString?: string;
  readonly Value?: string;
}

function nameOf(id: string): string {
  return id.startsWith(ARN) ? id.slice(ARN.length).replace(/-\w{6}$/, "") : id;
}
