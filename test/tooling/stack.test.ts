/** The generated CloudFormation template as data. */
import { readFileSync, writeFileSync } from "node:fs";

import { beforeAll, describe, expect, it } from "vitest";

import { FUNCTION_GB, POLLED, WATCHER } from "../../cli/cost/month.ts";
import { PROFILES } from "../../shared/controllers/registry/profiles.ts";
import { madeOf, PARAMETERS, stackOf } from "../../shared/controllers/registry/stack.ts";
import { applyConditions } from "../../infra/deploy/conditions.js";
import { alarmsYaml } from "../../infra/fragments/alarms.ts";
import { parseYaml } from "../../shared/kube/yaml/yaml.ts";
import { functionsOf } from "../../shared/controllers/registry/functions.ts";
import { REGISTRY } from "../../shared/controllers/registry/registry.ts";
import { packaged } from "../support/packaged.ts";
import type { Resource, Template } from "../support/packaged.ts";
import { deployerPolicies, POLICY_CHARACTERS_MAX } from "./deployer-policies.ts";

let template: Template;
let local: Template;
let lean: Template;
beforeAll(async () => {
  [template, local, lean] = await Promise.all([packaged("prod"), packaged("local"), packaged("prod", { profile: "lean" })]);
}, 120_000);

/** The environment of a function. */
function variablesOf({ Resources }: Template, name: string): Readonly<Record<string, unknown>> {
  const environment = (Resources[name]?.Properties ?? {})["Environment"] as { readonly Variables: Readonly<Record<string, unknown>> };
  return environment.Variables;
}

const ofType = (type: string): readonly (readonly [string, Resource])[] => {
  const found = Object.entries(template.Resources).filter(([, { Type }]) => Type === type);
  expect(found.length, type).toBeGreaterThan(0);
  return found;
};
const properties = (name: string): Readonly<Record<string, unknown>> => template.Resources[name]?.Properties ?? {};
const text = (value: unknown): string => JSON.stringify(value);
const refOf = (value: unknown): string => (value as { readonly Ref: string }).Ref; // of a property that is a reference
const KEY = text({
  "Fn::If": ["UsesKey", { "Fn::If": ["MakesKey", { "Fn::GetAtt": ["Key", "Arn"] }, { Ref: "KeyArn" }] }, { Ref: "AWS::NoValue" }],
});

describe("queues", () => {
  it("deny requests without TLS, each by its own policy", () => {
    const policies = ofType("AWS::SQS::QueuePolicy").map(([, { Properties }]) => text(Properties));
    for (const [name] of ofType("AWS::SQS::Queue"))
      expect(
        policies.filter(
          (policy) =>
            policy.startsWith(`{"Queues":[{"Ref":"${name}"}]`) &&
            policy.includes(
              `"Effect":"Deny","Principal":"*","Action":"sqs:*","Resource":{"Fn::GetAtt":["${name}","Arn"]},"Condition":{"Bool":{"aws:SecureTransport":"false"}}`,
            ),
        ),
        name,
      ).toHaveLength(1);
  });

  it("queues are encrypted, with the KMS key or by SQS", () => {
    for (const [name, { Properties }] of ofType("AWS::SQS::Queue"))
      expect(Properties, name).toMatchObject({
        KmsMasterKeyId: JSON.parse(KEY) as unknown,
        SqsManagedSseEnabled: { "Fn::If": ["UsesKey", { Ref: "AWS::NoValue" }, true] },
      });
  });

  it("queues keep dead letters for 14 days, and accept them from one source queue", () => {
    const dead = ofType("AWS::SQS::Queue").filter(([name]) => name.endsWith("DeadQueue"));
    expect(dead).toHaveLength(4);
    for (const [name, { Properties }] of dead) {
      const source = properties(name.replace("Dead", ""));
      expect(Properties["MessageRetentionPeriod"], name).toBe(14 * 24 * 3600);
      expect(Number(source["MessageRetentionPeriod"]), name).toBeLessThan(14 * 24 * 3600);
      expect(source["RedrivePolicy"], name).toMatchObject({ deadLetterTargetArn: { "Fn::GetAtt": [name, "Arn"] } });
      const arn = `arn:\${AWS::Partition}:sqs:\${AWS::Region}:\${AWS::AccountId}:${String(source["QueueName"])}`;
      expect(Properties["RedriveAllowPolicy"], name).toEqual({ redrivePermission: "byQueue", sourceQueueArns: [{ "Fn::Sub": arn }] });
    }
  });
});

describe("functions", () => {
  it("reserve no concurrency, because the limit of a new account leaves none to reserve", () => {
    for (const [name, { Properties }] of ofType("AWS::Lambda::Function"))
      expect(Properties, name).not.toHaveProperty("ReservedConcurrentExecutions");
  });

  it("function logs are kept for 30 days, encrypted with the key", () => {
    expect(ofType("AWS::Logs::LogGroup")).toHaveLength(ofType("AWS::Lambda::Function").length + WATCHER_LOGS);
    for (const [name, { Properties }] of ofType("AWS::Logs::LogGroup"))
      expect(Properties, name).toMatchObject({ RetentionInDays: 30, KmsKeyId: JSON.parse(KEY) as unknown });
  });

  it("functions have tags that identify the deployment", () => {
    for (const [name, { Properties }] of ofType("AWS::Lambda::Function"))
      expect(Properties["Tags"], name).toContainEqual({ Key: "deltaloop:stage", Value: "prod" });
  });

  it("functions are in the security group of their role, so that only those that call the API server can reach it", () => {
    const groups = Object.fromEntries(
      ofType("AWS::Lambda::Function").map(([name, { Properties }]) => [
        name,
        /"SecurityGroupIds":\[\{"Ref":"(\w+)"\}\]/.exec(text(Properties["VpcConfig"]))?.[1],
      ]),
    );
    expect(groups).toEqual({
      ApplyDashdeltasLambdaFunction: "KubeFunctionsSecurityGroup",
      DeadDashdeltasLambdaFunction: "InnerFunctionsSecurityGroup",
      SyncDashdeploymentLambdaFunction: "KubeFunctionsSecurityGroup",
      SyncDashreplicasetLambdaFunction: "KubeFunctionsSecurityGroup",
      SyncDashreplicationcontrollerLambdaFunction: "KubeFunctionsSecurityGroup",
      SweepLambdaFunction: "InnerFunctionsSecurityGroup",
    });
  });
});

describe("network", () => {
  it("lets each role connect only to what it needs", () => {
    const rules = ["Egress", "Ingress"].flatMap((way) =>
      ofType(`AWS::EC2::SecurityGroup${way}`).map(([, { Condition, Properties }]) => {
        const { GroupId, DestinationSecurityGroupId, SourceSecurityGroupId, CidrIp, CidrIpv6, FromPort, ToPort } = Properties;
        expect(text(FromPort)).toBe(text(ToPort));
        const name = (group: unknown): string => /"Ref":"(\w+?)(?:SecurityGroup)?"/.exec(text(group ?? ""))?.[1] ?? String(group);
        const peer = name(DestinationSecurityGroupId ?? SourceSecurityGroupId ?? CidrIp ?? CidrIpv6);
        const port = typeof FromPort === "number" ? FromPort : name(FromPort);
        return `${Condition}: ${name(GroupId)} ${way === "Egress" ? "→" : "←"} ${peer} ${port}`;
      }),
    );
    const roles = ["KubeFunctions", "InnerFunctions", "Watcher"];
    expect(rules.toSorted()).toEqual(
      [
        ...roles.flatMap((role) => [
          `MakesStore: ${role} → Store 6379`,
          `MakesStore: Store ← ${role} 6379`,
          `UsesGivenStore: ${role} → 0.0.0.0/0 6379`,
          `MakesEndpoints: ${role} → Endpoints 443`,
          `MakesEndpoints: Endpoints ← ${role} 443`,
        ]),
        "CallsServicesDirectly: InnerFunctions → 0.0.0.0/0 443",
        "KubeFunctionsCallAnyHttps: KubeFunctions → 0.0.0.0/0 443",
        "WatcherCallsAnyHttps: Watcher → 0.0.0.0/0 443",
        ...roles.map((role) => `UsesIpv6: ${role} → ::/0 443`),
        ...["KubeFunctions", "Watcher"].map((role) => `CallsKubeByIpv6: ${role} → ::/0 KubePort`),
        "KubeIsNarrow: KubeFunctions → KubeCidr KubePort",
        "KubeIsNarrow: Watcher → KubeCidr KubePort",
      ].toSorted(),
    );
  });

  /** The resources of a stack with these parameters. */
  const resourcesOf = (values: Readonly<Record<string, string>>): Template["Resources"] => {
    const defaults = Object.entries(template.Parameters).map(([name, { Default = "" }]) => [name, text(Default).replaceAll('"', "")]);
    return (applyConditions(template, { ...Object.fromEntries(defaults), WatcherMode: "act", ...values }) as Template).Resources;
  };
  const IMAGE = { WatcherImage: "registry/watcher:1" };
  const NARROW = { KubeCidr: "192.0.2.7/32", KubePort: "6443" };

  it.each([
    {},
    { Endpoints: "false" },
    IMAGE,
    { ...IMAGE, ...NARROW },
    { ...IMAGE, Endpoints: "false", KubeCidr: NARROW.KubeCidr },
    { Profile: "lean", NatGateway: "false", Endpoints: "false", ...IMAGE },
    { Profile: "lean", NatGateway: "false", Endpoints: "false", ...IMAGE, KubePort: NARROW.KubePort },
    { Clusters: "listed", Network: "given", VpcId: "vpc-1", SubnetIds: "subnet-1,subnet-2", Endpoints: "false" },
  ])("has no rule twice, which EC2 would refuse, and lets functions and watcher call the API server: %j", (values) => {
    const { KubePort, KubeCidr } = { KubePort: "443", KubeCidr: "0.0.0.0/0", ...values } as Readonly<Record<string, string>>;
    const rules = Object.values(resourcesOf(values)).flatMap(({ Type, Properties }) =>
      Type === "AWS::EC2::SecurityGroupEgress" || Type === "AWS::EC2::SecurityGroupIngress"
        ? [text([Type, Properties]).replaceAll('{"Ref":"KubePort"}', `${KubePort}`).replaceAll('{"Ref":"KubeCidr"}', `"${KubeCidr}"`)]
        : [],
    );
    expect(rules.filter((rule, at) => rules.indexOf(rule) !== at)).toEqual([]);
    for (const role of ["KubeFunctions", "Watcher"])
      expect(rules.filter((rule) => rule.includes(`"GroupId":{"Ref":"${role}SecurityGroup"}`)).join("\n")).toContain(
        `"ToPort":${KubePort},"CidrIp":"${KubeCidr}"`,
      );
  });

  it("lets Fargate pull image layers, which ECR serves from S3, from each subnet of the watcher", () => {
    for (const profile of ["standard", "lean"]) {
      const resources = resourcesOf({ Profile: profile, NatGateway: "false", Endpoints: "true", ...NARROW, ...IMAGE });
      expect(resources["WatcherToServices"]?.Properties, profile).toMatchObject({ FromPort: 443, ToPort: 443, CidrIp: "0.0.0.0/0" });
      const subnets = /"Subnets":(.*)/.exec(text(resources["WatcherService"]))?.[1] ?? "";
      const tables = Object.values(resources).flatMap(({ Type, Properties }) =>
        Type === "AWS::EC2::SubnetRouteTableAssociation" && new RegExp(`\\b${refOf(Properties["SubnetId"])}\\b`, "u").test(subnets)
          ? [text(Properties["RouteTableId"])]
          : [],
      );
      expect(tables.length, profile).toBeGreaterThan(0);
      for (const table of tables) expect(text(resources["S3Endpoint"]?.Properties["RouteTableIds"]), profile).toContain(table);
      // Only the Fargate task reads from S3: the layers of its image.
      expect(resourcesOf({ Profile: profile, Endpoints: "true", ...NARROW })).not.toHaveProperty("WatcherToServices");
    }
  });

  it("security groups have no inline rules that allow traffic", () => {
    for (const [name, { Properties }] of ofType("AWS::EC2::SecurityGroup")) {
      expect(Properties, name).not.toHaveProperty("SecurityGroupIngress");
      // Without its own egress rules, a security group allows all traffic.
      expect(Properties["SecurityGroupEgress"], name).toMatchObject([{ CidrIp: "255.255.255.255/32" }]);
    }
  });

  it("each AWS service in use has an endpoint, restricted to this account", () => {
    const endpoints = ofType("AWS::EC2::VPCEndpoint").map(([, { Condition, Properties }]) => {
      if (Properties["VpcEndpointType"] === "Interface") {
        expect(Properties).toMatchObject({ PrivateDnsEnabled: true, SecurityGroupIds: [{ Ref: "EndpointsSecurityGroup" }] });
        expect(text(Properties["PolicyDocument"])).toContain('"aws:PrincipalAccount":{"Ref":"AWS::AccountId"}');
      }
      return [/Region\}\.([\w.]+)/.exec(text(Properties["ServiceName"]))?.[1], Condition];
    });
    expect(endpoints).toEqual([
      ["sqs", "MakesEndpoints"],
      ["secretsmanager", "MakesEndpoints"],
      ["ssm", "MakesParametersEndpoint"],
      ["logs", "MakesWatcherEndpoints"],
      ["ecr.api", "MakesWatcherEndpoints"],
      ["ecr.dkr", "MakesWatcherEndpoints"],
      ["s3", "OwnVpc"],
    ]);
  });
});

describe("store", () => {
  it("the store never evicts keys, as Valkey or as MemoryDB", () => {
    expect(properties("RedisParameters")).toMatchObject({ Properties: { "maxmemory-policy": "noeviction" } });
    expect(properties("MemoryDbParameters")).toMatchObject({ Parameters: { "maxmemory-policy": "noeviction" } });
  });

  it("the store is encrypted in transit and at rest, and each function has a user with a password, restricted to this deployment's keys", () => {
    expect(properties("Redis")).toMatchObject({
      TransitEncryptionEnabled: true,
      AtRestEncryptionEnabled: true,
      UserGroupIds: [{ Ref: "RedisUsers" }],
      SecurityGroupIds: [{ Ref: "StoreSecurityGroup" }],
    });
    expect(properties("MemoryDb")).toMatchObject({ TLSEnabled: true, ACLName: { Ref: "MemoryDbAcl" } });
    const users = ["", ...functionsOf(REGISTRY).map(({ logical }) => logical)];
    for (const [group, list, user] of [
      ["RedisUsers", "UserIds", "RedisUser"],
      ["MemoryDbAcl", "UserNames", "MemoryDbUser"],
    ] as const) {
      const [shared, ...own] = users.map((logical) => ({ Ref: `${logical}${user}` }));
      const unlessLean = own.map((ref) => ({ "Fn::If": ["MakesFunctionUsers", ref, { Ref: "AWS::NoValue" }] }));
      expect(properties(group)[list]).toEqual([shared, ...unlessLean]);
      for (const logical of users) {
        expect(properties(`${logical}${user}`)["AccessString"]).toMatch(/^on .*resetchannels -@all /);
        expect(properties(`${logical}${user}`)["AccessString"]).not.toMatch(/~(?!dl:prod:)|allkeys|\+@all/);
        const secret = `{{resolve:secretsmanager:\${${logical}RedisSecret}:SecretString:password}}`;
        expect(text(properties(`${logical}${user}`)["AuthenticationMode"])).toContain(secret);
      }
    }
  });

  it("the store has the durability class that functions and watcher are configured with: B with a replica, C without, or A", () => {
    const withReplica = { "Fn::If": ["HasReplica", true, false] };
    expect(properties("Redis")).toMatchObject({
      AutomaticFailoverEnabled: withReplica,
      MultiAZEnabled: withReplica,
      NumCacheClusters: { Ref: "StoreNodes" },
    });
    expect(template.Parameters["StoreNodes"]).toMatchObject({ Default: 2, AllowedValues: [1, 2, 3] });
    expect(variablesOf(lean, "SweepLambdaFunction")["DELTALOOP_REDIS_DURABILITY"]).toEqual({ "Fn::If": ["MakesMemoryDb", "A", "C"] });
    const { Variables } = properties("SweepLambdaFunction")["Environment"] as { readonly Variables: Readonly<Record<string, unknown>> };
    expect(Variables["DELTALOOP_REDIS_DURABILITY"]).toEqual({ "Fn::If": ["MakesMemoryDb", "A", "B"] });
    expect(Variables["DELTALOOP_REDIS_CLUSTER"]).toEqual({ "Fn::If": ["IsRedisCluster", "true", "false"] });
    expect(text(Variables["DELTALOOP_REDIS_URL"])).toMatch(/rediss:.*rediss:.*rediss:/);
  });

  it("the store's URL is an output, for a watcher that runs elsewhere, unless the URL is a parameter", () => {
    const { Variables } = properties("SweepLambdaFunction")["Environment"] as { readonly Variables: Readonly<Record<string, unknown>> };
    const { Condition, Value } = template.Outputs["StoreUrl"] as { readonly Condition: string; readonly Value: unknown };
    expect(Condition).toBe("MakesStore");
    expect(text(Value)).not.toContain("RedisUrl");
    for (const url of text(Value).match(/rediss:[^"]+/g) ?? []) expect(text(Variables["DELTALOOP_REDIS_URL"])).toContain(url);
    expect(text(Value).match(/rediss:/g)).toHaveLength(3);
  });
});

describe("secrets", () => {
  it("secrets are encrypted with the key, and each function that calls the API server has one", () => {
    const names = ofType("AWS::SecretsManager::Secret").map(([name, { Properties }]) => {
      expect(text(Properties["KmsKeyId"]), name).toBe(KEY);
      expect(Properties, name).not.toHaveProperty("SecretString");
      return Properties["Name"];
    });
    const kube = ["apply-deltas", "sync-deployment", "sync-replicaset", "sync-replicationcontroller", "watcher"].map(
      (name) => `kube/${name}`,
    );
    expect(names.toSorted()).toEqual(
      ["digest-key", "mac-key", "redis", ...functionsOf(REGISTRY).map(({ name }) => `redis/${name}`), ...kube]
        .map((name) => `deltaloop/prod/${name}`)
        .toSorted(),
    );
  });

  it("the RedisUrl parameter, which contains a password, is NoEcho", () => {
    expect(template.Parameters["RedisUrl"]?.NoEcho).toBe(true);
  });

  it("the key is rotated yearly, and CloudWatch Logs may use it for this deployment's logs only", () => {
    expect(properties("Key")).toMatchObject({ EnableKeyRotation: true, PendingWindowInDays: 30 });
    const logs = /"Sid":"Logs".*/.exec(text(properties("Key")["KeyPolicy"]))?.[0] ?? "";
    expect([...logs.matchAll(/log-group:([^"]+)"/g)].map(([, group]) => group)).toEqual([
      "/aws/lambda/deltaloop-prod-*",
      "/deltaloop/prod/*",
    ]);
  });

  it("roles may use the key through SQS and Secrets Manager only", () => {
    for (const name of ["KeyReaderPolicy", "KeySenderPolicy", "WatcherKeyPolicy", "TokenRenewerKeyPolicy"])
      for (const { Condition } of (properties(name)["PolicyDocument"] as { readonly Statement: readonly { readonly Condition: unknown }[] })
        .Statement)
        expect(text(Condition), name).toContain("kms:ViaService");
    const roles = (name: string) => (properties(name)["Roles"] as readonly { readonly Ref: string }[]).map(({ Ref }) => Ref);
    const ofFunctions = ofType("AWS::Lambda::Function").map(
      ([, { Properties }]) => (Properties["Role"] as { readonly "Fn::GetAtt": readonly string[] })["Fn::GetAtt"][0],
    );
    expect(roles("KeyReaderPolicy")).toEqual(ofFunctions);
    expect(roles("KeySenderPolicy")).not.toContain("DeadDeltasRole");
  });
});

/** The watcher's log group; it exists if the watcher runs as a Fargate task. */
const WATCHER_LOGS = 1;

/** Every `"*"` in an allowed action or resource, by its path, with the reason why it is needed. */
const EXPLAINED: Readonly<Record<string, string>> = {
  "Key Account": "in a key's policy * is this key, and without the account nobody could change it again",
  "Key Logs": "in a key's policy * is this key",
  "* Network": "Lambda makes and removes interfaces of its own; these actions know no resource",
  "* LogInToRegistry": "a login to the account's own registry; what may be pulled with it is said apart",
  "* ReadTogether": "reads nothing by itself: each secret needs a right of its own",
  "*Endpoint ThisAccountOnly": "what may pass, not what is allowed: roles say that",
};

describe("wildcards", () => {
  it("each wildcard is in the list of wildcards with a reason", () => {
    const found = Object.entries(template.Resources).flatMap(([name, { Type, Properties }]) =>
      statementsOf(Properties)
        .filter(({ Effect, Action, Resource }) => Effect === "Allow" && [Action, Resource].flat().includes("*"))
        .map(
          ({ Sid }) =>
            `${Type === "AWS::IAM::Role" || Type === "AWS::IAM::ManagedPolicy" ? "*" : Type === "AWS::EC2::VPCEndpoint" ? "*Endpoint" : name} ${Sid}`,
        ),
    );
    expect(found.length).toBeGreaterThan(0);
    expect([...new Set(found)].filter((place) => EXPLAINED[place] === undefined)).toEqual([]);
  });

  it("no action contains a wildcard except the account's kms:* on its key", () => {
    const open = Object.entries(template.Resources).flatMap(([name, { Properties }]) =>
      statementsOf(Properties).flatMap(({ Effect, Sid, Action }) =>
        Effect === "Allow"
          ? [Action].flat().flatMap((action) => (String(action).includes("*") ? [`${name} ${Sid} ${String(action)}`] : []))
          : [],
      ),
    );
    expect(open.filter((place) => !place.includes("Endpoint ThisAccountOnly"))).toEqual(["Key Account kms:*"]);
  });
});

it("the token renewer may write the credentials for the API server, and do nothing else", () => {
  const credentials = ofType("AWS::SecretsManager::Secret")
    .map(([, { Properties }]) => String(Properties["Name"]))
    .filter((name) => name.includes("/kube/"));
  const [statement, ...others] = statementsOf(properties("TokenRenewerPolicy"));
  expect([statement?.Action, others]).toEqual([["secretsmanager:PutSecretValue", "ssm:PutParameter"], []]);
  const arns = [statement?.Resource].flat().map((arn) => /:(?:secret:|parameter\/)(.*?)(?:-\?{6})?"/.exec(text(arn))?.[1]);
  expect(arns).toEqual([...credentials, ...credentials]);
  const ofKey = statementsOf(properties("TokenRenewerKeyPolicy"));
  expect(ofKey.map(({ Action }) => Action)).toEqual([["kms:GenerateDataKey", "kms:Decrypt"]]);
});

it("who runs `deltaloop cluster` may call what it calls on Parameter Store, for the listed clusters alone", () => {
  const code = readFileSync("shared/store/secrets/parameters.ts", "utf8");
  const calls = [...new Set([...code.matchAll(/\bcall\("(\w+)"/g)].map(([, action = ""]) => `ssm:${action}`))];
  expect(calls).toContain("ssm:PutParameter");
  expect(template.Resources["ClusterEditorPolicy"]?.Condition).toBe("ServesListed");
  expect(template.Outputs["ClusterEditorPolicyArn"]).toMatchObject({ Condition: "ServesListed", Value: { Ref: "ClusterEditorPolicy" } });
  const [statement, ...others] = statementsOf(properties("ClusterEditorPolicy"));
  expect([[statement?.Action].flat().toSorted(), others]).toEqual([calls.toSorted(), []]);
  const [watched] = [variablesOf(template, "SweepLambdaFunction")["DELTALOOP_CLUSTERS"]].map(
    (value) => /ssm:([^"]+)/.exec(text(value))?.[1],
  );
  expect(text(statement?.Resource)).toMatch(new RegExp(`parameter${watched}/\\*"`, "u"));
});

describe("a function's role", () => {
  const statements = () =>
    ofType("AWS::Lambda::Function").map(([name, { Properties }]) => {
      const [role = ""] = (Properties["Role"] as { readonly "Fn::GetAtt": readonly string[] })["Fn::GetAtt"]; // as serverless.yml has it
      return [name, statementsOf(properties(role))] as const;
    });

  it("[informer T119] allows network interface actions to the Lambda service, and denies them to the function's code", () => {
    for (const [name, all] of statements()) {
      const interfaces = ({ Action }: Statement) => text(Action).includes("ec2:");
      const [allowed, ...others] = all.filter(({ Effect, ...each }) => Effect === "Allow" && interfaces({ Effect, ...each }));
      const denied = all.filter(({ Effect }) => Effect === "Deny");
      expect([others, denied.length], name).toEqual([[], 1]);
      expect(denied[0], name).toMatchObject({
        Action: allowed?.Action,
        Resource: "*",
        Condition: { Null: { "lambda:SourceFunctionArn": "false" } },
      });
    }
  });

  it("[informer T119] allows ChangeMessageVisibility only to functions that call it", () => {
    const may = statements().filter(([, all]) => text(all).includes("sqs:ChangeMessageVisibility"));
    const does = functionsOf(REGISTRY).filter(({ queue }) => queue?.makesVisible === true);
    expect(may.map(([, all]) => /"Sid":"Consume".*?"Fn::GetAtt":\["(\w+)"/.exec(text(all))?.[1])).toEqual(
      does.map(({ queue }) => queue?.logical),
    );
    expect(does.map(({ name }) => name)).not.toContain("dead-deltas");
  });
});

interface Statement {
  readonly Sid?: string;
  readonly Effect: string;
  readonly Action: unknown;
  readonly Resource: unknown;
}

/** Returns the statements of every policy document below `value`. */
function statementsOf(value: unknown): readonly Statement[] {
  if (Array.isArray(value)) return value.flatMap(statementsOf);
  if (typeof value !== "object" || value === null) return [];
  if ("Statement" in value && Array.isArray(value.Statement)) return value.Statement as readonly Statement[]; // the format of IAM
  return Object.values(value).flatMap(statementsOf);
}

describe("alarms", () => {
  const runbook = readFileSync("docs/guides/troubleshoot.md", "utf8");
  const sections = [...runbook.matchAll(/^## (.+)$/gm)].map(([, title = ""]) => title.toLowerCase().replaceAll(" ", "-"));
  const alarms = () => ofType("AWS::CloudWatch::Alarm");
  const sectionOf = (alarm: Resource) =>
    /docs\/guides\/troubleshoot\.md#([a-z-]+)$/.exec(String(alarm.Properties["AlarmDescription"]))?.[1];

  it("each link to a section of the troubleshooting guide, and each section has an alarm", () => {
    const linked = alarms().map(([name, alarm]) => {
      expect(sections, name).toContain(sectionOf(alarm));
      return sectionOf(alarm);
    });
    expect(sections.filter((section) => !linked.includes(section))).toEqual([]);
  });

  it("each notify the configured topics", () => {
    const actions = { "Fn::If": ["HasAlarmTopics", { Ref: "AlarmTopics" }, { Ref: "AWS::NoValue" }] };
    for (const [name, { Properties }] of alarms()) expect(Properties, name).toMatchObject({ AlarmActions: actions, OKActions: actions });
  });

  it("treat missing data as breaching only where missing data is the fault", () => {
    const breaching = alarms().filter(([, { Properties }]) => Properties["TreatMissingData"] === "breaching");
    expect(new Set(breaching.map(([, alarm]) => sectionOf(alarm)))).toEqual(
      new Set(["watcher-silent", "sweep-silent", "gate-closed", "clusters-unhealthy"]),
    );
    for (const [name, { Properties }] of alarms()) expect(["breaching", "notBreaching"], name).toContain(Properties["TreatMissingData"]);
  });

  it("cover each known fault", () => {
    const covered = new Set(alarms().map(([, alarm]) => sectionOf(alarm)));
    for (const section of [
      "watcher-silent",
      "gate-closed",
      "guard-stopped",
      "clusters-unhealthy",
      "function-errors",
      "function-throttles",
      "deltas-late",
      "doorbells-late",
    ])
      expect(covered).toContain(section);
    for (const section of ["delta-given-up", "doorbell-given-up", "store-memory", "store-evictions", "store-failover"])
      expect(covered).toContain(section);
  });

  it("alarms use the dimensions that functions write", () => {
    const own = alarms().filter(([, { Properties }]) => Properties["Namespace"] === "deltaloop/prod");
    expect(own.length).toBeGreaterThan(0);
    const functions = ["sweep", ...REGISTRY.controllers.map(({ name }) => name)];
    for (const [name, { Condition, Properties }] of own) {
      expect(Condition, name).toBe(name === "ClustersUnhealthyAlarm" ? "WritesMetrics" : "WatchesEach");
      const dimensions = Properties["Dimensions"] as readonly { readonly Name: string; readonly Value: string }[];
      expect(functions, name).toContain(dimensions.find(({ Name }) => Name === "function")?.Value);
    }
  });

  it("exist for a user controller", () => {
    const more = {
      ...REGISTRY,
      controllers: REGISTRY.controllers.flatMap((entry) => [entry, { ...entry, name: "team-guard", primary: "teams" }]),
    };
    for (const alarm of ["TeamGuardGateShutAlarm:", "TeamGuardDeadAlarm:", "SyncTeamGuardErrorsAlarm:"])
      expect(alarmsYaml(more)).toContain(alarm);
  });
});

describe("a deployment", () => {
  it("CloudFormation rejects a deployment before it creates a resource if a required parameter is missing", () => {
    const required = Object.values(template.Rules).flatMap(({ Assertions }) =>
      Assertions.map(({ AssertDescription }) => AssertDescription.split(" ")[0]),
    );
    expect(required.toSorted()).toEqual(["clusterId", "kubeServer", "redisUrl", "store=valkey", "subnetIds", "vpcId"]);
  });

  it("a deployment of stage local creates only resources that LocalStack supports", () => {
    const defaults = local.Parameters;
    expect(defaults).toEqual(template.Parameters);
    const made = Object.values(local.Resources).filter(({ Condition }) => Condition === undefined || Condition === "WritesMetrics");
    expect(new Set(made.map(({ Type }) => Type.split("::")[1]))).toEqual(
      new Set(["S3", "Logs", "IAM", "Lambda", "Events", "SQS", "CloudWatch"]),
    );
  });

  it("leaves nothing after remove except what the documentation lists", () => {
    const kept = Object.entries(template.Resources).filter(
      ([, { DeletionPolicy }]) => DeletionPolicy !== undefined && DeletionPolicy !== "Delete",
    );
    expect(kept.map(([name]) => name)).toEqual([]);
  });
});

describe("the deployer's policies", () => {
  it("allow what the resource types of the template need, and equal infra/deployer-policies", () => {
    // With this environment variable, writes the rows instead: they come from the template and have no other generator.
    const types = Object.values(template.Resources).map(({ Type }) => Type);
    const policies = deployerPolicies(types.toSorted());
    for (const [name, policy] of Object.entries(policies)) {
      const file = `infra/deployer-policies/${name}.json`;
      if (process.env["DELTALOOP_WRITE_DEPLOYER_POLICIES"] !== undefined) writeFileSync(file, policy);
      expect(JSON.parse(readFileSync(file, "utf8")), file).toEqual(JSON.parse(policy));
      const open = statementsOf(JSON.parse(policy)).flatMap(({ Action }) =>
        [Action].flat().filter((action) => String(action).includes("*")),
      );
      expect(open, file).toEqual([]);
    }
    expect(() => deployerPolicies([...types, "AWS::Cost::Bomb"])).toThrow("AWS::Cost::Bomb");
    // A resource that has our name prefix is allowed only by name, never by `*`.
    expect(policies.named).not.toContain('"Resource": "*"');
  });

  it("fit IAM's size limit of managed policies", () => {
    const sizes = ["named", "unnamed"].map(
      (name) => readFileSync(`infra/deployer-policies/${name}.json`, "utf8").replaceAll(/\s/g, "").length,
    );
    for (const size of sizes) expect(size).toBeLessThanOrEqual(POLICY_CHARACTERS_MAX);
  });
});

describe("profile lean", () => {
  /** A reference to the subnet that waits for its IPv6 addresses. */
  const afterIpv6Of = (subnet: string) => ({ "Fn::Select": [0, { "Fn::Split": ["|", { "Fn::Sub": `\${${subnet}}|\${${subnet}Ipv6}` }] }] });

  it("is one zone without NAT gateway, endpoint and KMS key, and calls AWS over IPv6", () => {
    const defaults = Object.fromEntries(
      Object.entries(lean.Parameters).map(([name, { Default = "" }]) => [name, text(Default).replaceAll('"', "")]),
    );
    const values = { Profile: "lean", NatGateway: "false", Endpoints: "false", StoreNodes: "1", KeyArn: "none", Metrics: "few" };
    const { Resources } = applyConditions(lean, {
      ...defaults,
      ...values,
      WatcherImage: "registry/watcher:1",
      WatcherMode: "act",
    }) as Template;
    const types = new Set(Object.values(Resources).map(({ Type }) => Type));
    for (const type of ["AWS::EC2::NatGateway", "AWS::KMS::Key", "AWS::EC2::EIP"]) expect(types).not.toContain(type);
    for (const type of ["AWS::EC2::EgressOnlyInternetGateway", "AWS::EC2::VPCCidrBlock"]) expect(types).toContain(type);
    for (const [name, { Type, Properties }] of Object.entries(Resources)) {
      if (Type === "AWS::Lambda::Function")
        expect(Properties["VpcConfig"], name).toMatchObject({
          Ipv6AllowedForDualStack: true,
          SubnetIds: [afterIpv6Of("SubnetA")],
        });
      if (Type === "AWS::EC2::VPCEndpoint") expect(Properties["VpcEndpointType"], name).toBe("Gateway");
    }
    expect(Resources["Redis"]?.Properties).toMatchObject({ NumCacheClusters: { Ref: "StoreNodes" }, AutomaticFailoverEnabled: false });
    expect(Resources["WatcherService"]?.Properties).toMatchObject({
      DesiredCount: 1,
      NetworkConfiguration: { AwsvpcConfiguration: { AssignPublicIp: "ENABLED", Subnets: [afterIpv6Of("PublicSubnet")] } },
    });
    // So an API server with an IPv6 address is reached from each subnet.
    const routes = Object.values(Resources).filter(({ Properties }) => Properties?.["DestinationIpv6CidrBlock"] === "::/0");
    expect(routes.map(({ Properties }) => Properties["RouteTableId"])).toEqual([{ Ref: "PrivateRoutes" }, { Ref: "PublicRoutes" }]);
    const blocks = Object.values(Resources).filter(({ Type }) => Type === "AWS::EC2::SubnetCidrBlock");
    expect(blocks.map(({ Properties }) => Properties["SubnetId"])).toEqual([{ Ref: "SubnetA" }, { Ref: "PublicSubnet" }]);
    expect(new Set(blocks.map(({ Properties }) => text(Properties["Ipv6CidrBlock"]))).size).toBe(2);
  });

  it.each([
    { want: 1, values: { Profile: "lean" } },
    { want: 1, values: { Profile: "lean", Network: "given", VpcId: "vpc-1", SubnetIds: "subnet-1,subnet-2" } },
    { want: 1, values: { Profile: "standard", Clusters: "listed" } },
    { want: 0, values: { Profile: "standard" } },
  ])("has an endpoint for Parameter Store where credentials are parameters: $values", ({ want, values }) => {
    const defaults = Object.fromEntries(
      Object.entries(lean.Parameters).map(([name, { Default = "" }]) => [name, text(Default).replaceAll('"', "")]),
    );
    const { Resources } = applyConditions(lean, { ...defaults, WatcherMode: "act", ...values, Endpoints: "true" }) as Template;
    const services = Object.values(Resources).map(({ Properties }) => text(Properties?.["ServiceName"] ?? ""));
    expect(services.filter((name) => name.includes(".ssm"))).toHaveLength(want);
  });

  it("gives each function the one parameter with its credential, and all functions one store user", () => {
    const defaults = Object.fromEntries(
      Object.entries(lean.Parameters).map(([name, { Default = "" }]) => [name, text(Default).replaceAll('"', "")]),
    );
    const { Resources } = applyConditions(lean, { ...defaults, Profile: "lean", WatcherMode: "act" }) as Template;
    const secrets = Object.values(Resources).filter(({ Type }) => Type === "AWS::SecretsManager::Secret");
    expect(secrets.map(({ Properties }) => Properties["Name"]).toSorted()).toEqual(
      ["digest-key", "mac-key", "redis"].map((name) => `deltaloop/prod/${name}`),
    );
    const apply = variablesOf({ ...lean, Resources }, "ApplyDashdeltasLambdaFunction");
    expect(apply["DELTALOOP_KUBE_SECRET"]).toBe("ssm:/deltaloop/prod/kube/apply-deltas");
    expect(apply["DELTALOOP_REDIS_SECRET"]).toBe("deltaloop/prod/redis");
    const role = text(Resources["ApplyDeltasRole"]);
    expect(role).toContain("parameter/deltaloop/prod/kube/apply-deltas");
    expect(role).not.toContain("parameter/deltaloop/prod/kube/sync");
  });
});

describe("the inputs of `deltaloop cost`", () => {
  /** Returns the parameters as a deployment sets them: by their names in serverless.yml, which start with a lower-case letter. */
  const defaults = (): Record<string, string> =>
    Object.fromEntries(
      Object.entries(template.Parameters).map(([name, { Default = "" }]) => [
        `${name.slice(0, 1).toLowerCase()}${name.slice(1)}`,
        text(Default).replaceAll('"', ""),
      ]),
    );

  it.each([
    {},
    { natGateway: "false", endpoints: "false", metrics: "none" },
    { watcherImage: "registry/watcher:1", storeNodes: "3", mode: "act" },
    { watcherImage: "registry/watcher:1", store: "memorydb", keyArn: "none", mode: "shadow" },
    { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1,subnet-2,subnet-3", store: "given", redisUrl: "rediss://x", secrets: "given" },
    { network: "none", store: "given", redisUrl: "rediss://x", watcherImage: "registry/watcher:1" },
    { profile: "lean" },
    { profile: "lean", watcherImage: "registry/watcher:1", metrics: "none" },
    { profile: "lean", store: "serverless", watcherImage: "registry/watcher:1", natGateway: "true" },
    { profile: "lean", storeNodes: "2", endpoints: "true", mode: "shadow" },
    { clusters: "listed", watcherImage: "registry/watcher:1" },
    { clusters: "listed", profile: "lean", endpoints: "true" },
  ])("the input of `deltaloop cost` is created with %j", (chosen: Readonly<Record<string, string>>) => {
    const given = {
      ...defaults(),
      ...PROFILES[chosen["profile"] === "lean" ? "lean" : "standard"],
      ...chosen,
      watcherMode: chosen["mode"] ?? "act",
    };
    const named = Object.fromEntries(
      Object.entries(given).map(([name, value]) => [`${name.slice(0, 1).toUpperCase()}${name.slice(1)}`, value]),
    );
    const { Resources } = applyConditions(template, named) as Template;
    const made = madeOf(stackOf(chosen));
    const count = (type: string): number => Object.values(Resources).filter(({ Type }) => Type === type).length;
    const interfaces = Object.values(Resources).filter(
      ({ Type, Properties }) => Type === "AWS::EC2::VPCEndpoint" && Properties?.["VpcEndpointType"] === "Interface",
    );
    const store = Object.values(Resources).find(({ Type }) => /ReplicationGroup|MemoryDB::Cluster/.test(Type))?.Properties;
    const assigned = JSON.stringify(Resources).includes('"AssignPublicIp":"ENABLED"');
    const service = Object.values(Resources).find(({ Type }) => Type === "AWS::ECS::Service")?.Properties;
    expect({ ...made, node: made.node.count === 0 ? { count: 0 } : made.node }).toEqual({
      natGateways: count("AWS::EC2::NatGateway"),
      endpoints: interfaces.length,
      zones: chosen["subnetIds"]?.split(",").length ?? (chosen["profile"] === "lean" ? 1 : 2),
      node: store === undefined ? { count: 0 } : { type: store["CacheNodeType"] ?? store["NodeType"], count: Number(named["StoreNodes"]) },
      keys: count("AWS::KMS::Key"),
      secrets: count("AWS::SecretsManager::Secret"),
      alarms: Object.values(Resources)
        .filter(({ Type }) => Type === "AWS::CloudWatch::Alarm")
        .reduce((sum, { Properties }) => sum + metricsOf(Properties), 0),
      watchers: service?.["DesiredCount"] ?? (chosen["mode"] === "shadow" || chosen["profile"] === "lean" ? 1 : 2),
      isServerless: count("AWS::ElastiCache::ServerlessCache") === 1,
      addresses: assigned ? service?.["DesiredCount"] : 0,
    });
    expect(count("AWS::EC2::EIP")).toBe(made.natGateways);
  });

  /** The metrics that an alarm evaluates, each of which is billed. */
  const metricsOf = ({ Metrics = [{ MetricStat: {} }] }: { readonly Metrics?: readonly object[] }): number =>
    Metrics.filter((each) => "MetricStat" in each).length;

  it("the inputs of `deltaloop cost` are the parameters of serverless.yml", () => {
    // this repository's file
    const { params } = parseYaml(readFileSync("serverless.yml", "utf8")) as { readonly params: { readonly default: object } };
    expect(PARAMETERS.toSorted()).toEqual(Object.keys(params.default).toSorted());
  });

  it("the inputs include the size of functions and watcher, and the queues that Lambda polls, each with a maximum concurrency", () => {
    for (const [, { Properties }] of ofType("AWS::Lambda::Function")) expect(Properties["MemorySize"]).toBe(FUNCTION_GB * 1024);
    const [task] = ofType("AWS::ECS::TaskDefinition").map(([, { Properties }]) => Properties);
    expect(task).toMatchObject({ Cpu: String(WATCHER.cpu * 1024), Memory: String(WATCHER.gib * 1024) });
    const mappings = ofType("AWS::Lambda::EventSourceMapping").map(([, { Properties }]) => text(Properties));
    const fifo = mappings.filter((mapping) => /"Deltas(?:Dead)?Queue"/.test(mapping));
    expect({ fifo: fifo.length, standard: mappings.length - fifo.length }).toEqual(POLLED);
    // Without it, Lambda may use as few as two pollers.
    for (const mapping of mappings) expect(mapping).toContain("MaximumConcurrency");
  });
});
