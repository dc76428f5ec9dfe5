/** The watcher's Fargate task. */
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { readFile } from "node:fs/promises";

import { expect, it } from "vitest";
import { parse } from "yaml";

import { imageConfig } from "../../infra/image/image.ts";
import { ConfigurationError, parseConfiguration } from "../../shared/controllers/lambda/configuration.ts";

interface Statement {
  readonly Sid: string;
  readonly Action: string | readonly string[];
  readonly Resource: string | readonly string[];
}
interface Role {
  readonly Properties: {
    readonly ManagedPolicyArns?: readonly unknown[];
    readonly Policies?: readonly [Policy];
  };
}
interface Policy {
  readonly PolicyDocument: { readonly Statement: readonly Statement[] };
}
interface Fragment {
  readonly Resources: {
    readonly WatcherExecutionRole: Role;
    readonly WatcherTaskRole: Role;
    readonly WatcherTask: { readonly Properties: { readonly ContainerDefinitions: readonly [Container] } };
    readonly WatcherService: { readonly Properties: Readonly<Record<string, unknown>> };
  };
}
interface Container {
  readonly Command: readonly string[];
  readonly User: string;
  readonly ReadonlyRootFilesystem: boolean;
  readonly LinuxParameters: unknown;
  readonly StopTimeout: number;
  readonly HealthCheck: { readonly Command: readonly [string, ...string[]]; readonly Timeout: number };
  readonly Environment: readonly { readonly Name: string; readonly Value: string }[];
}

/** Variables that refer to a credential instead of containing it, and where it is. */
const REFERENCE = /_(?:SECRET|SECRETS_ENDPOINT|SECRETS_SECONDS|EKS_CLUSTER)$/;
/** Where the clusters are: replaced before the configuration is parsed. */
const DIRECTORY = /_CLUSTERS(?:_ALLOW)?$/;
// Reads `!Ref x` as `x`; cfn-lint checks the intrinsic functions.
const { Resources } = parse(await readFile("infra/watcher-task.yml", "utf8"), { logLevel: "silent" }) as Fragment;
const [container] = Resources.WatcherTask.Properties.ContainerDefinitions;
/** The watcher's permissions, which are the same wherever it runs. */
const { WatcherPolicy } = (
  parse(await readFile("infra/roles.yml", "utf8"), { logLevel: "silent" }) as {
    readonly Resources: { readonly WatcherPolicy: { readonly Properties: Policy } };
  }
).Resources;

it("configures the watcher with the functions' variables and the names of its secrets", async () => {
  const told = container.Environment.map(({ Name }) => Name);
  expect(new Set(told).size).toBe(told.length);
  const known = told.filter((name) => name.startsWith("DELTALOOP_") && !REFERENCE.test(name) && !DIRECTORY.test(name));
  expect(problemsOf(known).filter((problem) => problem.endsWith(": is not a variable of deltaloop"))).toEqual([]);
  expect(told.filter((name) => REFERENCE.test(name))).toEqual([
    "DELTALOOP_MAC_KEY_SECRET",
    "DELTALOOP_DIGEST_KEY_SECRET",
    "DELTALOOP_SECRETS_SECONDS",
    "DELTALOOP_REDIS_SECRET",
    "DELTALOOP_KUBE_EKS_CLUSTER",
    "DELTALOOP_SECRETS_ENDPOINT",
    "DELTALOOP_KUBE_SECRET",
  ]);
  // A function writes metrics to its log, and a watcher serves them over HTTP.
  const only = ["DELTALOOP_METRICS", "DELTALOOP_MAC_KEY", "DELTALOOP_DIGEST_KEY"];
  const functions = [...(await readFile("serverless.yml", "utf8")).matchAll(/^ {4}(DELTALOOP_\w+): /gm)].map(([, name = ""]) => name);
  expect(functions.length).toBeGreaterThan(10);
  expect(functions.filter((name) => !only.includes(name) && !told.includes(name))).toEqual([]);
  for (const { Name, Value } of container.Environment)
    if (known.includes(Name)) expect(Value).toBe(`\${self:provider.environment.${Name}}`);
});

it("runs as an unprivileged user with a read-only root, and has time for a hand-over", () => {
  expect(container).toMatchObject({
    User: imageConfig("arm64").user,
    ReadonlyRootFilesystem: true,
    LinuxParameters: { Capabilities: { Drop: ["ALL"] } },
  });
  expect(container.Command[0]).toBe("watch");
  // Fargate's maximum is 120 s.
  expect(container.StopTimeout).toBeGreaterThanOrEqual(30);
  expect(container.StopTimeout).toBeLessThanOrEqual(120);
});

it.each([
  [200, 0],
  [500, 1],
])("checks the process's health: HTTP status %i leads to exit code %i", async (status, code) => {
  const asked: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    asked.push(url);
    response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo; // a listening TCP server has an AddressInfo
  const [how, program, ...parameters] = container.HealthCheck.Command;
  expect([how, program]).toEqual(["CMD", imageConfig("arm64").entrypoint[0]]);
  const where = container.Command.find((argument) => argument.startsWith("--metrics="))?.slice("--metrics=".length) ?? "";
  expect(parameters.at(-1)).toContain(where);
  const script = parameters.map((parameter) => parameter.replace(where, `127.0.0.1:${port}`));
  expect(await new Promise((resolve) => execFile(process.execPath, script, (error) => resolve(error?.code ?? 0)))).toBe(code);
  expect(asked).toEqual(["/livez"]);
  server.close();
});

it("may read its secrets and send, and ECS may start it; every wildcard has no resource level or has a reason", () => {
  const { ManagedPolicyArns, Policies } = Resources.WatcherTaskRole.Properties;
  expect([ManagedPolicyArns?.[0], Policies]).toEqual(["WatcherPolicy", undefined]);
  const all: readonly (Statement | readonly [condition: string, then: Statement, otherwise: string])[] =
    WatcherPolicy.Properties.PolicyDocument.Statement;
  const own = all.filter((each) => "Sid" in each);
  expect(own.map(({ Sid }) => Sid)).toEqual(["Send", "ReadSecrets", "ReadCredential", "ReadTogether"]);
  const listed = "parameter/deltaloop/${sls:stage}/clusters/deltaloop-watcher";
  const arn = "arn:${AWS::Partition}:ssm:${AWS::Region}:${AWS::AccountId}:";
  expect(all.filter((each) => !("Sid" in each))).toEqual([
    [
      "ServesListed",
      {
        Sid: "ReadClusters",
        Effect: "Allow",
        Action: ["ssm:GetParametersByPath", "ssm:GetParameters"],
        Resource: [`${arn}${listed}`, `${arn}${listed}/*`],
      },
      "AWS::NoValue",
    ],
  ]);
  expect([own[1]?.Resource ?? []].flat().map((arn) => arn.slice(arn.indexOf("deltaloop/")))).toEqual(
    ["mac-key", "digest-key", "redis"].map((name) => `deltaloop/\${sls:stage}/${name}-??????`),
  );
  const starting = Resources.WatcherExecutionRole.Properties.Policies?.[0].PolicyDocument.Statement ?? [];
  const everywhere = [...own, ...starting].filter(({ Resource }) => [Resource].flat().includes("*"));
  expect(everywhere.map(({ Action }) => Action)).toEqual(["secretsmanager:BatchGetSecretValue", "ecr:GetAuthorizationToken"]);
});

it("runs two tasks in mode act, and one in mode shadow", () => {
  expect(Resources.WatcherService.Properties).toMatchObject({
    DesiredCount: ["HasStandby", 2, 1],
    DeploymentConfiguration: { MinimumHealthyPercent: ["WatcherTakesLease", 100, 0], MaximumPercent: ["WatcherTakesLease", 200, 100] },
    NetworkConfiguration: {
      AwsvpcConfiguration: { AssignPublicIp: ["WatcherInPublic", "ENABLED", "DISABLED"], SecurityGroups: ["WatcherSecurityGroup"] },
    },
  });
});

/** Returns the configuration errors of a watcher with these environment variables. */
function problemsOf(variables: readonly string[]): readonly string[] {
  try {
    parseConfiguration(Object.fromEntries(variables.map((variable) => [variable, "x"])));
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}
