/** `npm run deploy` before it calls AWS. Catches: a deployment that starts without a required setting, or with another run's template. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { applyConditions } from "../../infra/deploy/conditions.js";
import { PARAMETERS } from "../../shared/controllers/registry/stack.ts";
import { parameterTexts } from "../../shared/controllers/registry/parameter-texts.ts";
import { alone } from "../../infra/deploy/alone.ts";
import { settingsOf, checkSettings } from "../../infra/deploy/check-settings.ts";
import type { Settings } from "../../infra/deploy/check-settings.ts";
import { storeProblems } from "../../infra/deploy/probe-store.ts";
import { wrongValuesIn } from "../../infra/deploy/values.ts";

const COMPLETE: Settings = {
  stage: "prod",
  mode: "act",
  redisCluster: "false",
  redisDurability: "B",
  clusters: "one",
  clustersAllow: "",
  clusterId: "5d3f00aa11bb",
  kubeServer: "https://k8s.example.com",
  kubePort: "443",
  kubeCidr: "192.0.2.7/32",
  kubeCa: "",
  kubeEksCluster: "",
  network: "own",
  vpcId: "",
  subnetIds: "",
  profile: "standard",
  natGateway: "true",
  store: "valkey",
  storeNodes: "2",
  redisUrl: "",
  redisSecret: "",
  secrets: "given",
  alarmTopics: "arn:aws:sns:eu-central-1:123456789012:people",
  watcherImage: "registry.example.com/deltaloop:0.1.0",
};

const REFUSED: readonly { readonly name: string; readonly settings: Partial<Settings>; readonly want: RegExp }[] = [
  { name: "a missing cluster id", settings: { clusterId: "" }, want: /^clusterId is missing.* clusters=listed$/ },
  { name: "a cluster's name instead of its id", settings: { clusterId: "prod-eu" }, want: /^clusterId=prod-eu/ },
  { name: "listed clusters beside one of its own", settings: { clusters: "listed" }, want: /^clusters=listed .* remove clusterId/ },
  {
    name: "an unknown allowance, with which each function would fail at its start",
    settings: { clusters: "listed", clusterId: "", kubeServer: "", clustersAllow: "exec,localhost" },
    want: /^clustersAllow=localhost: must be some of exec, .*loopback/,
  },
  { name: "a missing API server", settings: { kubeServer: "" }, want: /^kubeServer is missing.* clusters=listed$/ },
  { name: "class B without a replica", settings: { storeNodes: "1" }, want: /^redisDurability=B with storeNodes=1/ },
  { name: "class B on ElastiCache Serverless", settings: { store: "serverless" }, want: /^redisDurability=B with store=serverless/ },
  { name: "a credential in plain text", settings: { kubeServer: "http://k8s" }, want: /https/ },
  { name: "an API server that is not a URL", settings: { kubeServer: "https://" }, want: /^kubeServer=https:/ },
  {
    name: "an API server's port that the security groups forbid",
    settings: { kubeServer: "https://k8s:6443" },
    want: /^kubePort=443.*:6443/,
  },
  { name: "the port of another server", settings: { kubePort: "6443" }, want: /^kubePort=6443.*:443/ },
  { name: "an address instead of a CIDR block", settings: { kubeCidr: "192.0.2.7" }, want: /^kubeCidr=192.0.2.7: / },
  {
    name: "a CIDR block without the API server",
    settings: { kubeServer: "https://192.0.2.8" },
    want: /^kubeCidr=192.0.2.7\/32.*192.0.2.8/,
  },
  { name: "a truncated CA certificate", settings: { kubeCa: "LS0tLS1CRUdJTi…" }, want: /^kubeCa: / },
  { name: "mode act on EKS, whose controllers cannot be turned off", settings: { kubeEksCluster: "prod" }, want: /^mode=act.*EKS/ },
  { name: "a topic's name instead of its ARN", settings: { alarmTopics: "people" }, want: /^alarmTopics=people: / },
  { name: "six topics", settings: { alarmTopics: Array(6).fill("arn:aws:sns:eu-central-1:123456789012:people").join() }, want: /five/ },
  { name: "a store that is not a URL", settings: { store: "given", redisUrl: "cache:6379" }, want: /^redisUrl: must be rediss/ },
  { name: "an existing VPC without its id", settings: { network: "given", subnetIds: "subnet-1,subnet-2" }, want: /^vpcId is missing/ },
  { name: "one subnet", settings: { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1" }, want: /^subnetIds has 1 subnet:/ },
  { name: "no subnet", settings: { network: "given", vpcId: "vpc-1" }, want: /^subnetIds has 0 subnets:/ },
  { name: "a store to create without a VPC", settings: { network: "none" }, want: /^store=valkey needs a VPC/ },
  { name: "an existing store without a URL", settings: { store: "given" }, want: /^redisUrl is missing/ },
  { name: "a password in a URL", settings: { store: "given", redisUrl: "rediss://u:p@cache:6379" }, want: /password/ },
  { name: "a store without TLS", settings: { store: "given", redisUrl: "redis://cache:6379" }, want: /without TLS/ },
  {
    name: "[informer T117] a store's port that the security groups forbid",
    settings: { store: "given", redisUrl: "rediss://cache:6380" },
    want: /^redisUrl uses port :6380.*6379$/,
  },
  {
    name: "[informer T117] a store's secret that no role may read",
    settings: { store: "given", redisUrl: "rediss://cache:6379", redisSecret: "people/redis" },
    want: /^redisSecret=people\/redis: .* deltaloop\/prod\/redis /,
  },
  {
    name: "[informer T117] a store's secret of another stage",
    settings: {
      store: "given",
      redisUrl: "rediss://cache:6379",
      redisSecret: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:deltaloop/test/redis-a1B2c3",
    },
    want: /^redisSecret=arn:.* deltaloop\/prod\/redis /,
  },
  {
    name: "durability class B on a Redis cluster",
    settings: { store: "given", redisUrl: "rediss://cache:6379", redisCluster: "true" },
    want: /^redisDurability=B/,
  },
  { name: "a stage that is not valid in resource names", settings: { stage: "Prod" }, want: /^--stage Prod/ },
];

const NOTED: readonly { readonly name: string; readonly settings: Partial<Settings>; readonly want: RegExp }[] = [
  { name: "no watcher", settings: { watcherImage: "" }, want: /^watcherImage/ },
  { name: "secrets without a value", settings: { secrets: "make" }, want: /^credentials/ },
  { name: "mode shadow", settings: { mode: "shadow" }, want: /^mode=shadow/ },
  { name: "alarms without topics", settings: { alarmTopics: "" }, want: /^alarmTopics/ },
  {
    name: "profile lean, whose credentials are parameters",
    settings: { profile: "lean", secrets: "make" },
    want: /rotate tokens --secrets ssm:\/deltaloop\/prod\/kube\/` writes them$/,
  },
  {
    name: "listed clusters, whose credentials no `rotate tokens` writes",
    settings: { profile: "lean", secrets: "make", clusters: "listed", clusterId: "", kubeServer: "", clustersAllow: "exec,loopback" },
    want: /^clusters=listed: add each with `deltaloop cluster add NAME --kubeconfig FILE --clusters ssm:\/deltaloop\/prod\/clusters`$/,
  },
  {
    name: "an API server that functions without IPv4 cannot reach",
    settings: { profile: "lean", natGateway: "false", kubeServer: "https://192.0.2.7" },
    want: /^kubeServer=.*over IPv6 only/,
  },
  { name: "a store without a replica", settings: { storeNodes: "1", redisDurability: "C" }, want: /^redisDurability=C: .*calls in flight/ },
  {
    name: "a task in subnets that may not reach S3",
    settings: { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1,subnet-2" },
    want: /^watcherImage.*S3.*gateway endpoint/,
  },
  {
    name: "a task without a VPC",
    settings: { network: "none", store: "given", redisUrl: "rediss://cache:6379" },
    want: /^watcherImage is ignored.*network=none/,
  },
  { name: "an unused VPC", settings: { vpcId: "vpc-1" }, want: /^vpcId.*network=given/ },
  { name: "an unused store", settings: { redisUrl: "rediss://cache:6379" }, want: /^redisUrl.*store=given/ },
  { name: "an API server at any address", settings: { kubeCidr: "0.0.0.0/0" }, want: /^kubeCidr/ },
];

describe("checkSettings", () => {
  it("finds nothing in complete settings", () => {
    expect(checkSettings(COMPLETE)).toEqual({ refused: [], noted: [] });
    const given = { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1,subnet-2", store: "given", redisUrl: "rediss://cache:6379" };
    expect(checkSettings({ ...COMPLETE, ...given }).refused).toEqual([]);
    const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:deltaloop/prod/redis-a1B2c3";
    for (const redisSecret of ["deltaloop/prod/redis", arn])
      expect(checkSettings({ ...COMPLETE, ...given, redisSecret }).refused).toEqual([]);
    // Without a VPC there are no security groups, so any port is valid.
    const outside = { network: "none", store: "given", redisUrl: "rediss://cache:6380" };
    expect(checkSettings({ ...COMPLETE, ...outside }).refused).toEqual([]);
  });

  it.each(REFUSED)("rejects settings in one line: $name", ({ settings, want }) => {
    const { refused } = checkSettings({ ...COMPLETE, ...settings });
    expect(refused).toHaveLength(1);
    expect(refused[0]).toMatch(want);
    expect(refused[0]).not.toContain("\n");
  });

  it.each(NOTED)("accepts settings and prints a note: $name", ({ settings, want }) => {
    const { refused, noted } = checkSettings({ ...COMPLETE, ...settings });
    expect(refused).toEqual([]);
    expect(noted).toHaveLength(1);
    expect(noted[0]).toMatch(want);
  });

  it("rejects all that the CloudFormation rules reject, with messages that start the same", () => {
    const rules = [...readFileSync("infra/rules.yml", "utf8").matchAll(/AssertDescription: "([^":]+)/g)].map(([, words = ""]) => words);
    expect(rules.length).toBeGreaterThan(4);
    const ours = REFUSED.flatMap(({ settings }) => checkSettings({ ...COMPLETE, ...settings }).refused).join("\n");
    for (const words of rules) expect(ours).toContain(/^\w+ is missing|^store=\w+ needs a VPC/.exec(words)?.[0] ?? words);
  });

  it("reads the settings from the service that osls packaged", () => {
    const names =
      "Clusters ClusterId KubeServer KubePort KubeCidr Network VpcId SubnetIds Profile NatGateway Store StoreNodes RedisUrl Secrets AlarmTopics WatcherImage".split(
        " ",
      );
    const environment = {
      DELTALOOP_MODE: "act",
      DELTALOOP_KUBE_CA: "of KubeCa",
      DELTALOOP_CLUSTERS_ALLOW: "exec",
      DELTALOOP_KUBE_EKS_CLUSTER: "",
      DELTALOOP_REDIS_CLUSTER: { "Fn::If": ["MakesMemoryDb", "true", "false"] },
      DELTALOOP_REDIS_DURABILITY: { "Fn::If": ["MakesMemoryDb", "A", "B"] },
      DELTALOOP_REDIS_SECRET: { "Fn::If": ["MakesStore", "deltaloop/prod/redis", "deltaloop/prod/given"] },
    };
    const stackParameters = names.map((name) => ({ ParameterKey: name, ParameterValue: `of ${name}` }));
    expect(settingsOf("prod", { service: { provider: { stackParameters, environment } } })).toEqual({
      stage: "prod",
      mode: "act",
      kubeCa: "of KubeCa",
      clustersAllow: "exec",
      kubeEksCluster: "",
      redisCluster: "false",
      redisDurability: "B",
      redisSecret: "deltaloop/prod/given",
      ...Object.fromEntries(names.map((name) => [(name[0] ?? "").toLowerCase() + name.slice(1), `of ${name}`])),
    });
  });
});

describe("the store's probe before a deployment", () => {
  const serverless = { store: "serverless", redisCluster: "false", redisDurability: "C" };

  it("is required for ElastiCache Serverless, and may have passed elsewhere", async () => {
    expect(await storeProblems(serverless, undefined)).toEqual([expect.stringMatching(/^store=serverless was not tried/)]);
    expect(await storeProblems(serverless, "passed")).toEqual([]);
    expect(await storeProblems({ ...serverless, store: "valkey" }, undefined)).toEqual([]);
    expect(await storeProblems(serverless, "yes")).toEqual([expect.stringMatching(/^--probe: must be/)]);
  });

  it("reports each refused command, and a store that does not answer, without the password", async () => {
    const asked: unknown[] = [];
    const problems = await storeProblems(serverless, "rediss://u:5ecret@cache:6379", (redis, durability) => {
      asked.push(redis.cluster, durability);
      const [ok, failure] = ["ok", "failure"] as const;
      return Promise.resolve([
        { state: ok, what: "CONFIG", seen: "refused" },
        { state: failure, what: "commands in scripts", seen: "ZMSCORE" },
      ]);
    });
    expect(problems).toEqual(["--probe: commands in scripts: ZMSCORE"]);
    expect(asked).toEqual([true, "C"]);
    const away = await storeProblems(serverless, "rediss://u:5ecret@cache:6379", () => Promise.reject(new Error("connect ECONNREFUSED")));
    expect(away).toEqual(["--probe: the store does not answer: connect ECONNREFUSED"]);
  });
});

describe("wrongValuesIn", () => {
  const KINDS = {
    StoreNodes: { Type: "Number", AllowedValues: [2, 3] },
    KubePort: { Type: "Number", MinValue: 1, MaxValue: 65_535 },
    KeyArn: { Type: "String", AllowedPattern: "make|none|arn:.+:kms:.+" },
    RedisUrl: { Type: "String", NoEcho: true, AllowedPattern: "rediss:.+" },
  };
  const wrong = (given: Readonly<Record<string, string>>, environment: object = {}, maxReceiveCount = "1000"): readonly string[] =>
    wrongValuesIn({
      service: {
        provider: {
          stackParameters: Object.entries(given).map(([ParameterKey, ParameterValue]) => ({ ParameterKey, ParameterValue })),
          environment,
          compiledCloudFormationTemplate: {
            Parameters: KINDS,
            Resources: { DeltasQueue: { Properties: { RedrivePolicy: { maxReceiveCount } } } },
          },
        },
      },
    });

  it("accepts parameter values that CloudFormation accepts", () => {
    expect(
      wrong({ StoreNodes: "3", KubePort: "6443", KeyArn: "arn:aws:kms:eu-central-1:123456789012:key/x", RedisUrl: "rediss:x" }),
    ).toEqual([]);
  });

  it("reports values that CloudFormation would reject, under the names of serverless.yml and without secrets", () => {
    expect(wrong({ StoreNodes: "5", KubePort: "0", KeyArn: "make one", RedisUrl: "5ecret" })).toEqual([
      "storeNodes=5: must be one of 2, 3",
      "kubePort=0: must be from 1 to 65535",
      "keyArn=make one: must match make|none|arn:.+:kms:.+",
      "redisUrl: must match rediss:.+",
    ]);
    expect(wrong({ KubePort: "https" })).toEqual(["kubePort=https: must be from 1 to 65535"]);
  });

  it.each(["0", "1001", "often"])(
    "[informer T117] reports a maxReceiveCount that SQS would reject during the deployment: %s",
    (receives) => {
      expect(wrong({}, {}, receives)).toEqual([`deltasMaxReceiveCount=${receives}: must be from 1 to 1000`]);
    },
  );

  it("reports values with which a function would not start", () => {
    const good = {
      DELTALOOP_MODE: "act",
      DELTALOOP_GUARD: "off",
      DELTALOOP_LOG_LEVEL: "warn",
      DELTALOOP_SECRETS_SECONDS: "60",
      DELTALOOP_REDIS_DURABILITY: { "Fn::If": ["MakesMemoryDb", "A", "B"] },
    };
    expect(wrong({}, good)).toEqual([]);
    const bad = { DELTALOOP_MODE: "Act", DELTALOOP_GUARD: "false", DELTALOOP_LOG_LEVEL: "chatty", DELTALOOP_SECRETS_SECONDS: "3600" };
    const durability = { DELTALOOP_REDIS_DURABILITY: { "Fn::If": ["MakesMemoryDb", "A", "D"] } };
    expect(wrong({}, { ...bad, ...durability }).toSorted()).toEqual([
      "guard: must be on or off",
      "logLevel: must be debug, info, warn or error",
      "mode: must be act or shadow",
      "redisDurability: must be A, B or C",
      "secretsSeconds: must be a whole number from 1 to 300",
    ]);
  });
});

describe("a file of parameters", () => {
  it("a parameter file is read as text, so that off, leading zeros and numbers keep their notation", () => {
    const text = "guard: off\nclusterId: 012345670123\nnatGateway: false\nkubePort: 6443 # https\nvpcId:\nmode: 'act'\n";
    expect(parameterTexts(text)).toEqual({
      guard: "off",
      clusterId: "012345670123",
      natGateway: "false",
      kubePort: "6443",
      vpcId: "",
      mode: "act",
    });
    expect(() => parameterTexts("alarmTopics: [a, b]")).toThrow("alarmTopics");
    expect(() => parameterTexts("- a")).toThrow("name: value");
    expect(() => parameterTexts("a: [")).toThrow("not YAML");
  });
});

it.each([
  {
    what: "a parameter",
    flags: ["--param=clusterId=5d3f00aa11bb", "--param=kubeSever=https://k8s.example.com"],
    says: /^deploy: unknown parameter kubeSever; valid parameters: .*kubeServer.*\n$/,
  },
  { what: "a flag", flags: ["--dry-run"], says: /^package: Unknown option '--dry-run'; see npm run package -- --help\n$/ },
  { what: "a file", flags: ["--params", "nowhere.yml"], says: /^deploy: ENOENT.*nowhere\.yml'\n$/ },
])("rejects $what that does not exist before it builds anything", ({ flags, says }) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["infra/deploy/run.ts", "package", ...flags], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(says);
});

describe("[informer T118] two deployments at once in one checkout", () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-alone-"));
  const lock = join(folder, "cache", "deploy.lock");
  afterAll(() => rmSync(folder, { recursive: true }));

  it("do not run at the same time: the second fails and reports the first, whose end lets the next one start", async () => {
    const order: string[] = [];
    const first = alone(lock, async () => {
      await expect(alone(lock, async () => void order.push("second"))).rejects.toThrow(`process ${process.pid} is deploying`);
      order.push("first");
      throw new Error("osls failed");
    });
    await expect(first).rejects.toThrow("osls failed");
    await alone(lock, async () => void order.push("third"));
    expect(order).toEqual(["first", "third"]);
  });

  it("ignore the lock of a deployment that was killed", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"]);
    writeFileSync(lock, String(pid));
    expect(await alone(lock, async () => "done")).toBe("done");
    expect(existsSync(lock)).toBe(false);
  });
});

describe("commands in the documents", () => {
  const DOCUMENTS = [
    ...["deploy", "hand-over", "incident", "operate", "rotate-keys", "troubleshoot", "upgrade"].map((name) => `docs/guides/${name}.md`),
    "docs/concepts/shadow-mode.md",
    "infra/README.md",
    "cli/README.md",
  ];

  it("documented commands use a parameter file whose names exist", () => {
    const [, block = ""] =
      /```yaml prod.yml\n([^`]+)```/.exec(readFileSync("docs/guides/deploy.md", "utf8").replace(/ `[^`\n]+`/g, "")) ?? [];
    const names = Object.keys(parameterTexts(block.replaceAll(/^ {3}/gm, "")));
    expect(names.length).toBeGreaterThan(4);
    expect(names.filter((name) => !PARAMETERS.includes(name))).toEqual([]);
  });

  it.each(DOCUMENTS)("documented commands use flags that exist, in %s", (document) => {
    const text = readFileSync(document, "utf8").replaceAll(/\\\n\s*/g, "");
    const uses = [...text.matchAll(/(?:^|[ `])deltaloop ([a-z]+)((?: (?:--?[a-z-]+|[\w.:/,=$<>…-]+))*)/gm)];
    for (const [use, verb = "", rest = ""] of uses.filter(([, word]) => existsSync(`cli/${word}.ts`))) {
      const taken = sources(`cli/${verb}.ts`);
      const flags = [...rest.matchAll(/(?<= )--?[a-z][a-z-]*/g)].map(([flag]) => flag).filter((flag) => flag !== "--help");
      expect(
        flags.filter((flag) => !new RegExp(`[ "\`]${flag}[ ,"]`).test(taken)),
        use,
      ).toEqual([]);
    }
    expect(uses.length).toBeGreaterThan(0);
  });

  /** Returns the sources of a verb: its file and its imports from folders of cli. */
  function sources(path: string): string {
    const text = readFileSync(path, "utf8");
    const imported = [...text.matchAll(/from "\.\/([\w-]+\/[\w/-]+\.ts)"/g)].map(([, file = ""]) =>
      readFileSync(join("cli", file), "utf8"),
    );
    return [text, ...imported].join("\n");
  }
});

describe("applyConditions", () => {
  const template = {
    Conditions: {
      InVpc: { "Fn::Not": [{ "Fn::Equals": [{ Ref: "Network" }, "none"] }] },
      MakesStore: {
        "Fn::And": [
          { Condition: "InVpc" },
          { "Fn::Or": [{ "Fn::Equals": [{ Ref: "Store" }, "valkey"] }, { "Fn::Equals": [{ Ref: "Nodes" }, 3] }] },
        ],
      },
      HasTopics: { "Fn::Not": [{ "Fn::Equals": [{ "Fn::Join": ["", { Ref: "Topics" }] }, ""] }] },
    },
    Resources: {
      Queue: { Properties: { Key: { "Fn::If": ["InVpc", { "Fn::If": ["HasTopics", "both", "vpc"] }, "none"] } } },
      Store: { Condition: "MakesStore", Properties: { Zone: { "Fn::Select": [0, { "Fn::GetAZs": "" }] } } },
    },
    Outputs: { Store: { Condition: "MakesStore", Value: { Ref: "Store" } } },
  };
  const left = (parameters: Readonly<Record<string, string>>) =>
    applyConditions(template, { Network: "none", Store: "valkey", Nodes: "2", Topics: "", ...parameters }) as typeof template;

  it("removes excluded resources and outputs, and replaces each Fn::If by its selected branch", () => {
    expect(left({})).toMatchObject({ Resources: { Queue: { Properties: { Key: "none" } } }, Outputs: {} });
    expect(Object.keys(left({}).Resources)).toEqual(["Queue"]);
    expect(Object.keys(left({ Network: "own" }).Resources)).toEqual(["Queue", "Store"]);
    expect(Object.keys(left({ Network: "own", Store: "given" }).Outputs)).toEqual([]);
    expect(Object.keys(left({ Network: "own", Store: "given", Nodes: "3" }).Outputs)).toEqual(["Store"]);
    expect(left({ Network: "own", Topics: "arn" }).Resources.Queue.Properties.Key).toBe("both");
  });

  it("throws for an unsupported function and for an undefined condition", () => {
    const odd = { Conditions: { Odd: { "Fn::Contains": [] } }, Resources: { A: { Condition: "Odd" } } };
    expect(() => applyConditions(odd, {})).toThrow("Fn::Contains");
    expect(() => applyConditions({ ...template, Conditions: {} }, {})).toThrow("is not defined");
  });
});
