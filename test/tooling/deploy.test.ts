/** `npm run deploy` before AWS is asked. Catches: a deployment that begins with something missing, a rule of CloudFormation's that we do not say first. */
import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { withoutWhatIsLeftOut } from "../../infra/deploy/conditions.js";
import { chosenIn, lacksOf } from "../../infra/deploy/lacks.ts";
import type { Chosen } from "../../infra/deploy/lacks.ts";

const COMPLETE: Chosen = {
  stage: "prod",
  mode: "act",
  redisCluster: "false",
  redisDurability: "B",
  clusterId: "5d3f00aa11bb",
  kubeServer: "https://k8s.example.com",
  kubeCidr: "192.0.2.7/32",
  network: "own",
  vpcId: "",
  subnetIds: "",
  store: "valkey",
  redisUrl: "",
  secrets: "given",
  alarmTopics: "arn:aws:sns:eu-central-1:123456789012:people",
  watcherImage: "registry.example.com/deltaloop:0.1.0",
};

const REFUSED: readonly { readonly name: string; readonly chosen: Partial<Chosen>; readonly want: RegExp }[] = [
  { name: "no cluster", chosen: { clusterId: "" }, want: /^clusterId is missing/ },
  { name: "a cluster's name instead of its id", chosen: { clusterId: "prod-eu" }, want: /^clusterId=prod-eu/ },
  { name: "no API server", chosen: { kubeServer: "" }, want: /^kubeServer is missing/ },
  { name: "a credential in plain text", chosen: { kubeServer: "http://k8s" }, want: /https/ },
  { name: "a VPC without its name", chosen: { network: "given", subnetIds: "subnet-1,subnet-2" }, want: /^vpcId is missing/ },
  { name: "one subnet", chosen: { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1" }, want: /^subnetIds has 1/ },
  { name: "no subnet", chosen: { network: "given", vpcId: "vpc-1" }, want: /^subnetIds has 0/ },
  { name: "a store nowhere", chosen: { network: "none" }, want: /^a store is made in a VPC only/ },
  { name: "a given store without a URL", chosen: { store: "given" }, want: /^redisUrl is missing/ },
  { name: "a password in a URL", chosen: { store: "given", redisUrl: "rediss://u:p@cache:6379" }, want: /password/ },
  { name: "a store without TLS", chosen: { store: "given", redisUrl: "redis://cache:6379" }, want: /without TLS/ },
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
  { name: "the whole internet", chosen: { kubeCidr: "0.0.0.0/0" }, want: /^kubeCidr/ },
];

describe("a deployment", () => {
  it("of which everything is said goes on", () => {
    expect(lacksOf(COMPLETE)).toEqual({ refused: [], noted: [] });
    const given = { network: "given", vpcId: "vpc-1", subnetIds: "subnet-1,subnet-2", store: "given", redisUrl: "rediss://cache:6379" };
    expect(lacksOf({ ...COMPLETE, ...given }).refused).toEqual([]);
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
    const names = "ClusterId KubeServer KubeCidr Network VpcId SubnetIds Store RedisUrl Secrets AlarmTopics WatcherImage".split(" ");
    const environment = {
      DELTALOOP_MODE: "act",
      DELTALOOP_REDIS_CLUSTER: { "Fn::If": ["MakesMemoryDb", "true", "false"] },
      DELTALOOP_REDIS_DURABILITY: { "Fn::If": ["MakesMemoryDb", "A", "B"] },
    };
    const stackParameters = names.map((name) => ({ ParameterKey: name, ParameterValue: `of ${name}` }));
    expect(chosenIn("prod", { service: { provider: { stackParameters, environment } } })).toEqual({
      stage: "prod",
      mode: "act",
      redisCluster: "false",
      redisDurability: "B",
      ...Object.fromEntries(names.map((name) => [(name[0] ?? "").toLowerCase() + name.slice(1), `of ${name}`])),
    });
  });
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
