/** `npm run deploy` before AWS is asked. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { withoutWhatIsLeftOut } from "../../infra/deploy/conditions.js";
import { PARAMETERS } from "../../shared/controllers/registry/stack.ts";
import { parameterTexts } from "../../shared/controllers/registry/parameter-texts.ts";
import { alone } from "../../infra/deploy/alone.ts";
import { chosenIn, lacksOf } from "../../infra/deploy/lacks.ts";
import type { Chosen } from "../../infra/deploy/lacks.ts";
import { wrongValuesIn } from "../../infra/deploy/values.ts";

const COMPLETE: Chosen = {
  stage: "prod",
  mode: "act",
  redisCluster: "false",
  redisDurability: "B",
  clusterId: "5d3f00aa11bb",
  kubeServer: "https://k8s.example.com",
  kubePort: "443",
  kubeCidr: "192.0.2.7/32",
  kubeCa: "",
  kubeEksCluster: "",
  network: "own",
  vpcId: "",
  subnetIds: "",
  store: "valkey",
  redisUrl: "",
  redisSecret: "",
  secrets: "given",
  alarmTopics: "arn:aws:sns:eu-central-1:123456789012:people",
  watcherImage: "registry.example.com/deltaloop:0.1.0",
};

const REFUSED: readonly { readonly name: string; readonly chosen: Partial<Chosen>; readonly want: RegExp }[] = [
  { name: "no cluster", chosen: { clusterId: "" }, want: /^clusterId is missing/ },
  { name: "a cluster's name instead of its id", chosen: { clusterId: "prod-eu" }, want: /^clusterId=prod-eu/ },
  { name: "no API server", chosen: { kubeServer: "" }, want: /^kubeServer is missing/ },
  { name: "a credential in plain text", chosen: { kubeServer: "http://k8s" }, want: /https/ },
  { name: "an API server that is no URL", chosen: { kubeServer: "https://" }, want: /^kubeServer=https:/ },
  { name: "a port that the security groups let nobody reach", chosen: { kubeServer: "https://k8s:6443" }, want: /^kubePort=443.*:6443/ },
  { name: "the port of another server", chosen: { kubePort: "6443" }, want: /^kubePort=6443.*:443/ },
  { name: "no addresses", chosen: { kubeCidr: "192.0.2.7" }, want: /^kubeCidr=192.0.2.7: / },
  { name: "addresses of others", chosen: { kubeServer: "https://192.0.2.8" }, want: /^kubeCidr=192.0.2.7\/32.*192.0.2.8/ },
  { name: "half an authority", chosen: { kubeCa: "LS0tLS1CRUdJTi…" }, want: /^kubeCa: / },
  { name: "a control plane whose loops nobody can end", chosen: { kubeEksCluster: "prod" }, want: /^mode=act.*EKS/ },
  { name: "a topic by its name", chosen: { alarmTopics: "people" }, want: /^alarmTopics=people: / },
  { name: "six topics", chosen: { alarmTopics: Array(6).fill("arn:aws:sns:eu-central-1:123456789012:people").join() }, want: /five/ },
  { name: "a store that is no URL", chosen: { store: "given", redisUrl: "cache:6379" }, want: /^redisUrl: rediss/ },
  { name: "a VPC without its name", chosen: { network: "given", subnetIds: "subnet-1,subnet-2" }, want: /^vpcId is missing/ },
  { name: "one subnet", chosen: { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1" }, want: /^subnetIds has 1/ },
  { name: "no subnet", chosen: { network: "given", vpcId: "vpc-1" }, want: /^subnetIds has 0/ },
  { name: "a store nowhere", chosen: { network: "none" }, want: /^a store is made in a VPC only/ },
  { name: "a given store without a URL", chosen: { store: "given" }, want: /^redisUrl is missing/ },
  { name: "a password in a URL", chosen: { store: "given", redisUrl: "rediss://u:p@cache:6379" }, want: /password/ },
  { name: "a store without TLS", chosen: { store: "given", redisUrl: "redis://cache:6379" }, want: /without TLS/ },
  {
    name: "[informer T117] a store's port that the security groups let nobody reach",
    chosen: { store: "given", redisUrl: "rediss://cache:6380" },
    want: /^redisUrl is at :6380.*6379$/,
  },
  {
    name: "[informer T117] a store's secret that no role may read",
    chosen: { store: "given", redisUrl: "rediss://cache:6379", redisSecret: "people/redis" },
    want: /^redisSecret=people\/redis: .* deltaloop\/prod\/redis /,
  },
  {
    name: "[informer T117] a store's secret of another stage",
    chosen: {
      store: "given",
      redisUrl: "rediss://cache:6379",
      redisSecret: "arn:aws:secretsmanager:eu-central-1:123456789012:secret:deltaloop/test/redis-a1B2c3",
    },
    want: /^redisSecret=arn:.* deltaloop\/prod\/redis /,
  },
  {
    name: "class B on a cluster",
    chosen: { store: "given", redisUrl: "rediss://cache:6379", redisCluster: "true" },
    want: /^redisDurability=B/,
  },
  { name: "a stage that AWS cannot name things after", chosen: { stage: "Prod" }, want: /^--stage Prod/ },
];

const NOTED: readonly { readonly name: string; readonly chosen: Partial<Chosen>; readonly want: RegExp }[] = [
  { name: "no watcher", chosen: { watcherImage: "" }, want: /^watcherImage/ },
  { name: "secrets without a value", chosen: { secrets: "make" }, want: /^credentials/ },
  { name: "shadow", chosen: { mode: "shadow" }, want: /^mode=act/ },
  { name: "alarms that nobody hears", chosen: { alarmTopics: "" }, want: /^alarmTopics/ },
  { name: "a VPC that is not used", chosen: { vpcId: "vpc-1" }, want: /^vpcId.*network=given/ },
  { name: "a store that is not used", chosen: { redisUrl: "rediss://cache:6379" }, want: /^redisUrl.*store=given/ },
  { name: "the whole internet", chosen: { kubeCidr: "0.0.0.0/0" }, want: /^kubeCidr/ },
];

describe("a deployment", () => {
  it("of which everything is said goes on", () => {
    expect(lacksOf(COMPLETE)).toEqual({ refused: [], noted: [] });
    const given = { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1,subnet-2", store: "given", redisUrl: "rediss://cache:6379" };
    expect(lacksOf({ ...COMPLETE, ...given }).refused).toEqual([]);
    const arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:deltaloop/prod/redis-a1B2c3";
    for (const redisSecret of ["deltaloop/prod/redis", arn]) expect(lacksOf({ ...COMPLETE, ...given, redisSecret }).refused).toEqual([]);
    // Without security groups of ours nothing is known of ports.
    const outside = { network: "none", store: "given", redisUrl: "rediss://cache:6380" };
    expect(lacksOf({ ...COMPLETE, ...outside }).refused).toEqual([]);
  });

  it.each(REFUSED)("with $name is refused in one line", ({ chosen, want }) => {
    const { refused } = lacksOf({ ...COMPLETE, ...chosen });
    expect(refused).toHaveLength(1);
    expect(refused[0]).toMatch(want);
    expect(refused[0]).not.toContain("\n");
  });

  it.each(NOTED)("with $name goes on, and says so", ({ chosen, want }) => {
    const { refused, noted } = lacksOf({ ...COMPLETE, ...chosen });
    expect(refused).toEqual([]);
    expect(noted).toHaveLength(1);
    expect(noted[0]).toMatch(want);
  });

  it("is never refused by CloudFormation for what we had not refused in the same words", () => {
    const rules = [...readFileSync("infra/rules.yml", "utf8").matchAll(/AssertDescription: "([^":]+)/g)].map(([, words = ""]) => words);
    expect(rules.length).toBeGreaterThan(4);
    const ours = REFUSED.flatMap(({ chosen }) => lacksOf({ ...COMPLETE, ...chosen }).refused).join("\n");
    for (const words of rules) expect(ours).toContain(/^(?:\w+(?= is missing)|a store is made in a VPC only)/.exec(words)?.[0] ?? words);
  });

  it("is read from what osls packaged", () => {
    const names = "ClusterId KubeServer KubePort KubeCidr Network VpcId SubnetIds Store RedisUrl Secrets AlarmTopics WatcherImage".split(
      " ",
    );
    const environment = {
      DELTALOOP_MODE: "act",
      DELTALOOP_KUBE_CA: "of KubeCa",
      DELTALOOP_KUBE_EKS_CLUSTER: "",
      DELTALOOP_REDIS_CLUSTER: { "Fn::If": ["MakesMemoryDb", "true", "false"] },
      DELTALOOP_REDIS_DURABILITY: { "Fn::If": ["MakesMemoryDb", "A", "B"] },
      DELTALOOP_REDIS_SECRET: { "Fn::If": ["MakesStore", "deltaloop/prod/redis", "deltaloop/prod/given"] },
    };
    const stackParameters = names.map((name) => ({ ParameterKey: name, ParameterValue: `of ${name}` }));
    expect(chosenIn("prod", { service: { provider: { stackParameters, environment } } })).toEqual({
      stage: "prod",
      mode: "act",
      kubeCa: "of KubeCa",
      kubeEksCluster: "",
      redisCluster: "false",
      redisDurability: "B",
      redisSecret: "deltaloop/prod/given",
      ...Object.fromEntries(names.map((name) => [(name[0] ?? "").toLowerCase() + name.slice(1), `of ${name}`])),
    });
  });
});

describe("values", () => {
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

  it("that CloudFormation takes are taken", () => {
    expect(
      wrong({ StoreNodes: "3", KubePort: "6443", KeyArn: "arn:aws:kms:eu-central-1:123456789012:key/x", RedisUrl: "rediss:x" }),
    ).toEqual([]);
  });

  it("that it would refuse are refused, in the words of the file, and no secret is shown", () => {
    expect(wrong({ StoreNodes: "5", KubePort: "0", KeyArn: "make one", RedisUrl: "5ecret" })).toEqual([
      "storeNodes=5: one of 2, 3",
      "kubePort=0: from 1 to 65535",
      "keyArn=make one: it does not look like make|none|arn:.+:kms:.+",
      "redisUrl: it does not look like rediss:.+",
    ]);
    expect(wrong({ KubePort: "https" })).toEqual(["kubePort=https: from 1 to 65535"]);
  });

  it.each(["0", "1001", "often"])(
    "[informer T117] that SQS would refuse in the middle of a deployment are refused: %s receives",
    (receives) => {
      expect(wrong({}, {}, receives)).toEqual([`deltasMaxReceiveCount=${receives}: from 1 to 1000`]);
    },
  );

  it("that functions would not start with are refused", () => {
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
  it("says what is written: no word of YAML's becomes another value", () => {
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
    says: /^deploy: kubeSever: no parameter of a deployment; there are .*kubeServer.*\n$/,
  },
  { what: "a flag", flags: ["--dry-run"], says: /^package: Unknown option '--dry-run'; see npm run package -- --help\n$/ },
  { what: "a file", flags: ["--params", "nowhere.yml"], says: /^deploy: ENOENT.*nowhere\.yml'\n$/ },
])("$what that nobody knows is refused before anything is built", ({ flags, says }) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, ["infra/deploy/run.ts", "package", ...flags], { encoding: "utf8" });
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toMatch(says);
});

describe("[informer T118] two deployments at once in one checkout", () => {
  const folder = mkdtempSync(join(tmpdir(), "deltaloop-alone-"));
  const lock = join(folder, "cache", "deploy.lock");
  afterAll(() => rmSync(folder, { recursive: true }));

  it("are one, and the second is told whose it is; after its end, however it ended, the next one begins", async () => {
    const order: string[] = [];
    const first = alone(lock, async () => {
      await expect(alone(lock, async () => void order.push("second"))).rejects.toThrow(`process ${process.pid} is at it`);
      order.push("first");
      throw new Error("osls failed");
    });
    await expect(first).rejects.toThrow("osls failed");
    await alone(lock, async () => void order.push("third"));
    expect(order).toEqual(["first", "third"]);
  });

  it("are one and what a killed one has left", async () => {
    const { pid } = spawnSync(process.execPath, ["--version"]);
    writeFileSync(lock, String(pid));
    expect(await alone(lock, async () => "done")).toBe("done");
    expect(existsSync(lock)).toBe(false);
  });
});

describe("what people are told to type", () => {
  const DOCUMENTS = [
    ...["deploy", "hand-over", "incident", "operate", "rotate-keys", "troubleshoot", "upgrade"].map((name) => `docs/guides/${name}.md`),
    "docs/concepts/shadow-mode.md",
    "infra/README.md",
    "cli/README.md",
  ];

  it("is a file of parameters that a deployment takes", () => {
    const [, block = ""] =
      /```yaml prod.yml\n([^`]+)```/.exec(readFileSync("docs/guides/deploy.md", "utf8").replace(/ `[^`\n]+`/g, "")) ?? [];
    const names = Object.keys(parameterTexts(block.replaceAll(/^ {3}/gm, "")));
    expect(names.length).toBeGreaterThan(4);
    expect(names.filter((name) => !PARAMETERS.includes(name))).toEqual([]);
  });

  it.each(DOCUMENTS)("is taken by the command, in %s", (document) => {
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

  /** A verb's file and what it imports from folders of cli. */
  function sources(path: string): string {
    const text = readFileSync(path, "utf8");
    const imported = [...text.matchAll(/from "\.\/([\w-]+\/[\w/-]+\.ts)"/g)].map(([, file = ""]) =>
      readFileSync(join("cli", file), "utf8"),
    );
    return [text, ...imported].join("\n");
  }
});

describe("what conditions leave out", () => {
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
    withoutWhatIsLeftOut(template, { Network: "none", Store: "valkey", Nodes: "2", Topics: "", ...parameters }) as typeof template;

  it("is gone from a template for LocalStack, outputs too, and of each If the branch stays that is taken", () => {
    expect(left({})).toMatchObject({ Resources: { Queue: { Properties: { Key: "none" } } }, Outputs: {} });
    expect(Object.keys(left({}).Resources)).toEqual(["Queue"]);
    expect(Object.keys(left({ Network: "own" }).Resources)).toEqual(["Queue", "Store"]);
    expect(Object.keys(left({ Network: "own", Store: "given" }).Outputs)).toEqual([]);
    expect(Object.keys(left({ Network: "own", Store: "given", Nodes: "3" }).Outputs)).toEqual(["Store"]);
    expect(left({ Network: "own", Topics: "arn" }).Resources.Queue.Properties.Key).toBe("both");
  });

  it("is an error where a condition says what nobody here understands", () => {
    const odd = { Conditions: { Odd: { "Fn::Contains": [] } }, Resources: { A: { Condition: "Odd" } } };
    expect(() => withoutWhatIsLeftOut(odd, {})).toThrow("Fn::Contains");
    expect(() => withoutWhatIsLeftOut({ ...template, Conditions: {} }, {})).toThrow("there is no condition");
  });
});
