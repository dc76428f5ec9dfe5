/**
 * The packaged product: zips and CloudFormation template, made in a scratch folder with neither credentials nor network.
 * Catches: a zip that changes from run to run, a script left out of a bundle, a queue or role that is missing, a queue that
 * differs from the one local runs use, Lambda's recursion guard left on.
 */
import { spawn } from "node:child_process";
import { cp, mkdtemp, readdir, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { bundleFunction, functionNames } from "../../infra/build/bundle.ts";
import type { FunctionBundle } from "../../infra/build/bundle.ts";
import { ConfigurationError, parseConfiguration } from "../../shared/lambda/configuration.ts";
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_QUEUE } from "../../shared/local/queues.ts";

const ROOT = process.cwd();
const FUNCTIONS = ["apply-deltas", "dead-deltas", "sweep", "sync-deployment", "sync-replicaset", "sync-replicationcontroller"];
const SYNCS = ["SyncDeployment", "SyncReplicaSet", "SyncReplicationController"];

interface Resource {
  readonly Type: string;
  readonly Properties: Readonly<Record<string, unknown>>;
}
type Template = { readonly Resources: Readonly<Record<string, Resource>> };

let scratch: string;
let bundles: readonly FunctionBundle[];
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "deltaloop-package-"));
  for (const file of ["serverless.yml", "infra", "package.json"]) await cp(join(ROOT, file), join(scratch, file), { recursive: true });
  await symlink(join(ROOT, "node_modules"), join(scratch, "node_modules"));
  const built: FunctionBundle[] = [];
  for (const name of await functionNames(ROOT)) built.push(await bundleFunction(ROOT, name, join(scratch, "dist", "functions")));
  bundles = built;
}, 120_000);
afterAll(async () => {
  await rm(scratch, { recursive: true });
});

describe("zips", () => {
  it("are one per function, byte for byte the same from run to run", async () => {
    expect(bundles.map(({ name }) => name)).toEqual(FUNCTIONS);
    for (const { name, zip } of bundles) {
      const again = await bundleFunction(ROOT, name, join(scratch, "again"));
      const bytes = await readFile(zip);
      expect((await readFile(again.zip)).equals(bytes), name).toBe(true);
      // Time and date of the first entry: 1980, whenever it was built.
      expect(bytes.subarray(10, 14).toString("hex"), name).toBe("00002100");
    }
  });

  it("stay within 480 KiB unpacked", () => {
    for (const { name, bytes } of bundles) expect(bytes / 1024, name).toBeLessThanOrEqual(480);
  });

  it("hold everything: each bundle can be imported alone and exports a handler", async () => {
    for (const { name, bundle } of bundles) {
      const alone = join(scratch, `alone-${name}`);
      await cp(bundle, join(alone, "handler.mjs"));
      const code = `const m = await import(${JSON.stringify(pathToFileURL(join(alone, "handler.mjs")).href)}); console.log(typeof m.handler); process.exit(0);`;
      expect(await run(process.execPath, ["--input-type=module", "--eval", code], alone), name).toBe("function");
      expect(await readdir(alone)).toEqual(["handler.mjs"]);
    }
  });

  it("log no name that the minifier has made up, when Redis is away", async () => {
    const name = "sync-replicaset";
    const handler = pathToFileURL(bundles.find((each) => each.name === name)?.bundle ?? "").href;
    const queues = ["DEPLOYMENT", "REPLICASET", "REPLICATIONCONTROLLER"].map((queue) => [
      `DELTALOOP_DOORBELLS_${queue}_URL`,
      "http://127.0.0.1:9/q",
    ]);
    const environment = {
      DELTALOOP_DEPLOYMENT: "test",
      DELTALOOP_CLUSTER: "0123456789ab",
      DELTALOOP_DIGEST_KEY: "0123456789abcdef",
      DELTALOOP_MAC_KEY: "fedcba9876543210",
      DELTALOOP_REDIS_URL: "redis://127.0.0.1:9",
      DELTALOOP_KUBE_SERVER: "http://127.0.0.1:9",
      DELTALOOP_DELTAS_URL: "http://127.0.0.1:9/q",
      DELTALOOP_SQS_ENDPOINT: "http://127.0.0.1:9",
      AWS_REGION: "eu-central-1",
      AWS_ACCESS_KEY_ID: "none",
      AWS_SECRET_ACCESS_KEY: "none",
      ...Object.fromEntries(queues),
    };
    const body = JSON.stringify({ v: 1, c: "0123456789ab", ctl: "replicaset", e: "e1", k: "shop/web" });
    const event = {
      Records: [{ messageId: "m1", receiptHandle: "r1", body, attributes: { SentTimestamp: "1", ApproximateReceiveCount: "1" } }],
    };
    const code = `Object.assign(process.env, ${JSON.stringify(environment)});
      const { handler } = await import(${JSON.stringify(handler)});
      await handler(${JSON.stringify(event)}, { getRemainingTimeInMillis: () => 15000 });
      process.exit(0);`;
    const lines = (await run(process.execPath, ["--input-type=module", "--eval", code], scratch))
      .split("\n")
      .filter((line) => line.startsWith("{"));
    const told = lines.map((line) => JSON.parse(line) as Readonly<Record<string, unknown>>);
    const failure = told.find(({ message }) => message === "record failed");
    expect(failure).toMatchObject({ level: "ERROR", service: "deltaloop-replicaset", messageId: "m1", receiveCount: 1 });
    expect(failure?.["error"]).toMatch(/^(?:[A-Z]\w+)?Error: /);
    const names = told
      .flatMap((line) => Object.entries(line))
      .flatMap(([, value]) => (typeof value === "string" ? (/^(\w+): /.exec(value)?.[1] ?? []) : []));
    expect(names.filter((each) => each.length < 4)).toEqual([]);
  });

  it("carry neither client-node nor anything of shared/local, nor a search for credentials", async () => {
    for (const { name, bundle } of bundles)
      expect(await readFile(bundle, "utf8"), name).not.toMatch(/loadFromDefault|fauxqs|makeApiClient|sso_start_url|credential_process/);
  });
});

describe("template", () => {
  let template: Template;
  let local: Template;
  beforeAll(async () => {
    template = await osls("prod");
    local = await osls("local");
  }, 120_000);

  const ofType = (type: string, from = template) => Object.entries(from.Resources).filter(([, resource]) => resource.Type === type);
  const properties = (name: string) => template.Resources[name]?.Properties;

  it("has Q1, a Q2 for each controller and a dead-letter queue for each, as local runs have them", () => {
    const names = ofType("AWS::SQS::Queue").map(([name]) => name);
    const kinds = ["Deltas", "Deployment", "ReplicaSet", "ReplicationController"];
    expect(names.toSorted()).toEqual(kinds.flatMap((kind) => [`${kind}DeadQueue`, `${kind}Queue`]).toSorted());
    for (const kind of kinds) {
      const { attributes, maxReceiveCount } = kind === "Deltas" ? DELTA_QUEUE : DOORBELL_QUEUE;
      const { QueueName, RedrivePolicy, ...rest } = properties(`${kind}Queue`) ?? {};
      expect(QueueName).toMatch(/^deltaloop-prod-[a-z]+(\.fifo)?$/);
      expect(Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]))).toEqual(attributes);
      expect(RedrivePolicy).toEqual({ deadLetterTargetArn: { "Fn::GetAtt": [`${kind}DeadQueue`, "Arn"] }, maxReceiveCount });
    }
    const { QueueName: _, ...dead } = properties("DeltasDeadQueue") ?? {};
    expect(Object.fromEntries(Object.entries(dead).map(([name, value]) => [name, String(value)]))).toEqual(DEAD_DELTA_QUEUE);
  });

  it("gives a delta message up after three tries in stage local only, where somebody waits for it", () => {
    expect(local.Resources["DeltasQueue"]?.Properties["RedrivePolicy"]).toMatchObject({ maxReceiveCount: 3 });
  });

  it("maps each queue to its function with partial failures and limited concurrency", () => {
    const mappings = ofType("AWS::Lambda::EventSourceMapping").map(([, resource]) => resource.Properties);
    expect(mappings).toHaveLength(5);
    for (const mapping of mappings) {
      expect(mapping).toMatchObject({ BatchSize: 10, Enabled: true, FunctionResponseTypes: ["ReportBatchItemFailures"] });
      const queue = /"(\w+)Queue"/.exec(JSON.stringify(mapping["EventSourceArn"]))?.[1];
      expect(mapping["ScalingConfig"], queue).toEqual({ MaximumConcurrency: queue === "Deltas" ? 25 : queue === "DeltasDead" ? 2 : 5 });
      // A batching window on a FIFO queue would be refused.
      expect(mapping).not.toHaveProperty("MaximumBatchingWindowInSeconds");
    }
  });

  it("runs every function on nodejs24.x, arm64, with a role of its own and the recursion guard off [informer T72]", () => {
    const functions = ofType("AWS::Lambda::Function").map(([, resource]) => resource.Properties);
    expect(functions.map(({ FunctionName }) => FunctionName).toSorted()).toEqual(FUNCTIONS.map((name) => `deltaloop-prod-${name}`));
    for (const fn of functions) expect(fn).toMatchObject({ Runtime: "nodejs24.x", Architectures: ["arm64"], Handler: "handler.handler" });
    // This one sends nothing, so it is in no chain.
    const guarded = functions.filter((fn) => fn["RecursiveLoop"] !== "Allow").map(({ FunctionName }) => FunctionName);
    expect(guarded).toEqual(["deltaloop-prod-dead-deltas"]);
    expect(new Set(functions.map(({ Role }) => JSON.stringify(Role))).size).toBe(FUNCTIONS.length);
  });

  it("runs on nodejs22.x in stage local only, which LocalStack knows", () => {
    const runtimes = ofType("AWS::Lambda::Function", local).map(([, { Properties }]) => Properties["Runtime"]);
    expect(runtimes).toEqual(FUNCTIONS.map(() => "nodejs22.x"));
  });

  it("lets a function read its own queue and no other, and send to no queue but doorbells", () => {
    const others: Readonly<Record<string, readonly string[]>> = {
      ApplyDeltas: ["DeltasQueue"],
      DeadDeltas: ["DeltasDeadQueue"],
      Sweep: [],
    };
    for (const name of [...SYNCS, ...Object.keys(others)]) {
      const text = JSON.stringify(properties(`${name}Role`));
      const consumed = [...text.matchAll(/"Sid":"Consume".*?"Resource":\{"Fn::GetAtt":\["(\w+)"/g)].map(([, queue]) => queue);
      expect(consumed, name).toEqual(others[name] ?? [`${name.slice("Sync".length)}Queue`]);
      const ring = /"Sid":"Ring".*?"Resource":(\[.*?\]\}\])/.exec(text)?.[1] ?? "";
      expect(ring.includes("DeltasQueue"), name).toBe(false);
      expect(ring === "", name).toBe(name === "DeadDeltas");
      expect(text).not.toContain('"Action":"*"');
    }
  });

  it("sweeps every minute, twice never at once", () => {
    expect(ofType("AWS::Events::Rule").map(([, { Properties }]) => Properties["ScheduleExpression"])).toEqual(["rate(1 minute)"]);
    expect(properties("SweepLambdaFunction")).toMatchObject({ ReservedConcurrentExecutions: 1 });
  });

  it("gives the visibility six time limits and the functions nothing but known variables", () => {
    for (const [name, { Properties }] of ofType("AWS::Lambda::Function")) {
      const { Variables } = Properties["Environment"] as { Variables: Record<string, unknown> };
      expect(Object.keys(Variables), name).toContain("DELTALOOP_MAC_KEY");
      const unknown = problemsOf(Object.keys(Variables)).filter((problem) => problem.endsWith(": is not a variable of deltaloop"));
      expect(unknown, name).toEqual([]);
    }
    expect(properties("ApplyDashdeltasLambdaFunction")?.["Timeout"]).toBe(Number(DELTA_QUEUE.attributes.VisibilityTimeout) / 6);
    expect(properties("DeadDashdeltasLambdaFunction")?.["Timeout"]).toBe(Number(DEAD_DELTA_QUEUE.VisibilityTimeout) / 6);
    expect(properties("SyncDashreplicasetLambdaFunction")?.["Timeout"]).toBe(Number(DOORBELL_QUEUE.attributes.VisibilityTimeout) / 6);
  });

  it("holds no secret", () => {
    const text = JSON.stringify(template);
    for (const key of ["digestKey", "macKey"]) expect(text).toContain(`{{resolve:secretsmanager:deltaloop-prod:SecretString:${key}}}`);
    for (const key of ["local-digest-key", "local-mac-key"]) expect(text).not.toContain(key);
  });
});

/** What a function says of an environment with these variables in it. */
function problemsOf(variables: readonly string[]): readonly string[] {
  try {
    parseConfiguration(Object.fromEntries(variables.map((variable) => [variable, "x"])));
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}

/** Without credentials, and with a proxy that leads nowhere. */
async function osls(stage: string): Promise<Template> {
  const output = join(scratch, `out-${stage}`);
  await run(join(ROOT, "node_modules/.bin/osls"), ["package", "--stage", stage, "--package", output], scratch);
  return JSON.parse(await readFile(join(output, "cloudformation-template-update-stack.json"), "utf8")) as Template;
}

async function run(program: string, parameters: readonly string[], cwd: string): Promise<string> {
  const nowhere = "http://127.0.0.1:9";
  const env = {
    PATH: process.env["PATH"] ?? "",
    HOME: scratch,
    HTTPS_PROXY: nowhere,
    HTTP_PROXY: nowhere,
    AWS_EC2_METADATA_DISABLED: "true",
  };
  const child = spawn(program, parameters, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const code = await new Promise<number | null>((resolve, reject) => child.once("error", reject).once("close", resolve));
  if (code !== 0) throw new Error(`${program} ${parameters.join(" ")} ended with ${code}:\n${output}`);
  return output.trim();
}
