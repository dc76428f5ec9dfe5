/** The packaged product: zips and CloudFormation template, built in a temporary folder without credentials and network. */
import { spawnSync } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { text } from "node:stream/consumers";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";

import { build } from "esbuild";
import type { BuildOptions } from "esbuild";
import { openPromise } from "yauzl";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { BUNDLE_KIB_MAX, OWN_BUNDLE_KIB_MAX } from "../../infra/build/budgets.ts";
import { bundleCli, bundleFunction, functionNames } from "../../infra/build/bundle.ts";
import type { FunctionBundle } from "../../infra/build/bundle.ts";
import { leftOut } from "../../infra/build/left-out.ts";
import { ConfigurationError, parseConfiguration } from "../../shared/controllers/lambda/configuration.ts";
import { referencesIn, withSecrets } from "../../shared/controllers/lambda/secret-values.ts";
import { pageCode } from "../../shared/timeline/page-code.ts";
import { DEAD_DELTA_QUEUE, DELTA_QUEUE, DOORBELL_DEAD_QUEUE, DOORBELL_QUEUE } from "../../shared/local/queues.ts";
import { canary, found } from "../support/canaries.ts";
import { measured } from "../support/e2e.ts";
import { offline, packaged } from "../support/packaged.ts";
import type { Template } from "../support/packaged.ts";
import { startSecretsStandIn } from "../support/secrets-stand-in.ts";

const ROOT = process.cwd();
const FUNCTIONS = ["apply-deltas", "dead-deltas", "sweep", "sync-deployment", "sync-replicaset", "sync-replicationcontroller"];
/** The functions that call the API server. */
const USES_KUBE = /^(?:apply-|sync-)/;
const SYNCS = ["SyncDeployment", "SyncReplicaSet", "SyncReplicationController"];

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

let scratch: string;
let bundles: readonly FunctionBundle[];
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "deltaloop-package-"));
  const built: FunctionBundle[] = [];
  for (const name of await functionNames(ROOT)) built.push(await bundleFunction(ROOT, name, join(scratch, "dist", "functions")));
  bundles = built;
}, 120_000);
afterAll(async () => {
  await rm(scratch, { recursive: true });
});

/** The environment of a function whose secrets are references; `endpoint` is the only service. */
function referring(endpoint: string): Readonly<Record<string, string>> {
  const queues = ["DEPLOYMENT", "REPLICASET", "REPLICATIONCONTROLLER"].map((queue) => [`DELTALOOP_DOORBELLS_${queue}_URL`, NOBODY]);
  return {
    DELTALOOP_DEPLOYMENT: "test",
    DELTALOOP_CLUSTER: "0123456789ab",
    DELTALOOP_DIGEST_KEY_SECRET: "deltaloop/test/digest-key",
    DELTALOOP_MAC_KEY_SECRET: "deltaloop/test/mac-key",
    DELTALOOP_REDIS_SECRET: "deltaloop/test/redis",
    DELTALOOP_REDIS_URL: "redis://127.0.0.1:9",
    DELTALOOP_KUBE_SERVER: "https://127.0.0.1:9",
    DELTALOOP_DELTAS_URL: NOBODY,
    DELTALOOP_SQS_ENDPOINT: NOBODY,
    DELTALOOP_SECRETS_ENDPOINT: endpoint,
    AWS_REGION: "eu-central-1",
    AWS_ACCESS_KEY_ID: "none",
    AWS_SECRET_ACCESS_KEY: "none",
    ...Object.fromEntries(queues),
  };
}
const NOBODY = "http://127.0.0.1:9/q";

describe("zips", () => {
  // package-anywhere.test.ts checks that zips and template are identical byte for byte wherever they are built.
  it("each function has its own zip, with a fixed time", async () => {
    expect(bundles.map(({ name }) => name)).toEqual(FUNCTIONS);
    // The time and date of the first entry: 1980, independent of the build time.
    for (const { name, zip } of bundles) expect((await readFile(zip)).subarray(10, 14).toString("hex"), name).toBe("00002100");
  });

  it("zips contain the licence of every package in the bundle", async () => {
    for (const { name, zip } of bundles) {
      const files = await unzipped(zip);
      expect(Object.keys(files), name).toEqual(["handler.mjs", "THIRD-PARTY-LICENSES.txt"]);
      const licenses = files["THIRD-PARTY-LICENSES.txt"] ?? "";
      for (const used of ["ioredis", "valibot", "@smithy/signature-v4"]) expect(licenses, name).toMatch(new RegExp(`^${used} \\d`, "m"));
      expect(licenses, name).toContain("Apache License");
      expect(licenses, name).toContain("Permission is hereby granted");
      // Licences of dependencies, without those of tests and of the build.
      expect(licenses, name).not.toMatch(/^(?:vitest|esbuild|fauxqs) /m);
    }
  });

  it("stay within their size limits, and no limit is far above its zip", () => {
    expect(Object.keys(BUNDLE_KIB_MAX)).toEqual(FUNCTIONS);
    for (const { name, bytes } of bundles) {
      expect(bytes / 1024, name).toBeLessThanOrEqual(BUNDLE_KIB_MAX[name] ?? 0);
      expect(bytes / 1024, name).toBeGreaterThan(0.9 * (BUNDLE_KIB_MAX[name] ?? 0));
    }
  });

  it("have none of the built-in controllers' code in that of user controllers", async () => {
    const { bytes, bundle } = await bundleFunction(ROOT, "own", join(scratch, "own"), "", "test/harness/own/function.ts");
    expect(bytes / 1024).toBeLessThanOrEqual(OWN_BUNDLE_KIB_MAX);
    expect((await readFile(bundle, "utf8")).match(/FailedCreate|SuccessfulDelete|ReplicaSetUpdated/)?.[0]).toBeUndefined();
  });

  it("omit unused modules such as fetch, and do not make Node.js load them", async () => {
    for (const { name, bundle } of bundles) {
      expect(
        (await readFile(bundle, "utf8")).match(/DEBUG_COLORS|RedisCloudFixed|All sentinels are unreachable|geosearchstore/)?.[0],
        name,
      ).toBeUndefined();
      const code = `await import(${JSON.stringify(pathToFileURL(bundle).href)}); console.log(process.moduleLoadList.join("\\n")); process.exit(0);`;
      const loaded = (await offline(process.execPath, ["--input-type=module", "--eval", code], scratch)).split("\n");
      expect(loaded, name).toContain("NativeModule tls");
      expect(
        loaded.filter((each) => /undici/.test(each)),
        name,
      ).toEqual([]);
    }
  });

  it("the node agent does not load undici (fetch), to save memory", async () => {
    const command = join(scratch, "cli");
    await bundleCli(ROOT, command);
    await symlink(join(ROOT, "node_modules"), join(scratch, "node_modules"));
    const [file = ""] = (await readdir(command)).filter((name) => /^node-\w+\.js$/.test(name));
    const code = `await import(${JSON.stringify(pathToFileURL(join(command, file)).href)}); console.log(process.moduleLoadList.join("\\n")); process.exit(0);`;
    const loaded = (await offline(process.execPath, ["--input-type=module", "--eval", code], scratch)).split("\n");
    expect(loaded).toContain("NativeModule http2");
    expect(loaded.filter((each) => /undici/.test(each))).toEqual([]);
  });

  it("the packed command starts its queue and draws a timeline with only the packages that npm installs with it", async () => {
    const folder = join(scratch, "installed");
    await bundleCli(ROOT, join(folder, "dist"));
    const { dependencies } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8")) as Manifest;
    for (const name of Object.keys(dependencies)) {
      await mkdir(dirname(join(folder, "node_modules", name)), { recursive: true });
      await symlink(join(ROOT, "node_modules", name), join(folder, "node_modules", name));
    }
    await writeFile(join(folder, "package.json"), '{ "type": "module" }');
    const { stdout, stderr } = spawnSync(process.execPath, [join(folder, "dist", "deltaloop.js"), "queue", "--child"], {
      input: "",
      encoding: "utf8",
    });
    expect([stderr, JSON.parse(stdout)]).toEqual(["", { endpoint: expect.stringMatching(/^http:/), queues: expect.anything() }]);
    const [capture, html] = [join(ROOT, "test/captures/refused.watch.jsonl.gz"), join(folder, "page.html")];
    const drawn = spawnSync(process.execPath, [join(folder, "dist", "deltaloop.js"), "explain", capture, "--html", html], {
      encoding: "utf8",
    });
    expect(drawn.stdout, drawn.stderr).toContain(`Timeline: ${html}`);
    expect(await readFile(html, "utf8")).toContain(`<script>${(await pageCode()).script}</script>`);
  });

  it("the tarball has the node's unit file, the manifests, and each page that the command cites", () => {
    const packed = spawnSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], { cwd: ROOT, encoding: "utf8" });
    // the output of npm
    const [{ files }] = JSON.parse(packed.stdout) as readonly [{ readonly files: readonly { readonly path: string }[] }];
    const paths = files.map(({ path }) => path);
    const sources = globSync("cli/**/*.ts", { cwd: ROOT });
    const cited = sources.flatMap((file) => readFileSync(join(ROOT, file), "utf8").match(/\bdocs\/[a-z/-]+\.md\b/g) ?? []);
    const needed = new Set([...cited, "infra/node-agent/deltaloop-node.service", "infra/manifests/watcher.yaml"]);
    expect(needed.size).toBeGreaterThan(4);
    expect([...needed].filter((path) => !paths.includes(path))).toEqual([]);
  });

  it("zips are rebuilt only while the omitted modules exist", async () => {
    const options = {
      stdin: { contents: "export {}" },
      bundle: true,
      write: false,
      logLevel: "silent",
      plugins: [leftOut(ROOT)],
    } satisfies BuildOptions;
    await expect(build(options)).rejects.toThrow(/ioredis\/built\/utils\/debug\.js is not in the bundle/);
  });

  it("each bundle can be imported alone and exports a handler", async () => {
    for (const { name, bundle } of bundles) {
      const alone = join(scratch, `alone-${name}`);
      await cp(bundle, join(alone, "handler.mjs"));
      const code = `const m = await import(${JSON.stringify(pathToFileURL(join(alone, "handler.mjs")).href)}); console.log(typeof m.handler); process.exit(0);`;
      expect(await offline(process.execPath, ["--input-type=module", "--eval", code], alone), name).toBe("function");
      expect(await readdir(alone)).toEqual(["handler.mjs"]);
    }
  });

  it("log no minified name when Redis is unavailable", async () => {
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
    const lines = (await offline(process.execPath, ["--input-type=module", "--eval", code], scratch))
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

  it("start with references only, and read their own secrets in one call, without a secret in a log, error or environment", async () => {
    const parts = ["mac-key", "digest-key", "redis", ...FUNCTIONS.map((name) => `kube/${name}`)];
    const value = (part: string) => (part === "redis" ? JSON.stringify({ password: canary(part) }) : canary(part.replace("/", "-")));
    const secrets = await startSecretsStandIn(Object.fromEntries(parts.map((part) => [`deltaloop/test/${part}`, value(part)])));
    try {
      for (const { name, bundle } of bundles) {
        const own = ["mac-key", "digest-key", ...(USES_KUBE.test(name) ? [`kube/${name}`] : []), "redis"].map(
          (part) => `deltaloop/test/${part}`,
        );
        const code = `Object.assign(process.env, ${JSON.stringify({ ...referring(secrets.endpoint), ...(USES_KUBE.test(name) && { DELTALOOP_KUBE_SECRET: `deltaloop/test/kube/${name}` }) })});
          const { handler } = await import(${JSON.stringify(pathToFileURL(bundle).href)});
          const event = { Records: [{ messageId: "m1", receiptHandle: "r1", body: "no message", attributes: {} }] };
          for (let i = 0; i < 2; i++) await handler(event, { getRemainingTimeInMillis: () => 3000 }).catch((error) => console.log(error.stack));
          console.log(JSON.stringify(process.env));
          process.exit(0);`;
        secrets.asked.length = 0;
        const output = await offline(process.execPath, ["--input-type=module", "--eval", code], scratch);
        expect(secrets.asked, name).toEqual([{ action: "BatchGetSecretValue", names: own }]);
        expect(found([output]), name).toEqual([]);
      }
      secrets.values.set("deltaloop/test/mac-key", "CANARY");
      secrets.refused.set("deltaloop/test/digest-key", "AccessDeniedException");
      const code = `Object.assign(process.env, ${JSON.stringify(referring(secrets.endpoint))});
        const { handler } = await import(${JSON.stringify(pathToFileURL(bundles[2]?.bundle ?? "").href)});
        await handler().catch((error) => console.log(error.stack));
        process.exit(0);`;
      const output = await offline(process.execPath, ["--input-type=module", "--eval", code], scratch);
      expect(output).toContain("deltaloop/test/digest-key: access is denied: allow secretsmanager:GetSecretValue on it");
      expect(found([output])).toEqual([]);
    } finally {
      await secrets.stop();
    }
  });

  it("zips contain no @kubernetes/client-node, no file of shared/local, and no credential lookup", async () => {
    for (const { name, bundle } of bundles)
      expect(await readFile(bundle, "utf8"), name).not.toMatch(/loadFromDefault|fauxqs|makeApiClient|sso_start_url|credential_process/);
  });
});

describe("template", () => {
  let template: Template;
  let local: Template;
  beforeAll(async () => {
    template = await packaged("prod");
    local = await packaged("local");
  }, 120_000);

  const ofType = (type: string, from = template) => Object.entries(from.Resources).filter(([, resource]) => resource.Type === type);
  const properties = (name: string) => template.Resources[name]?.Properties;

  it("the template has a delta queue, a doorbell queue for each controller and a dead-letter queue for each, like local runs", () => {
    const names = ofType("AWS::SQS::Queue").map(([name]) => name);
    const kinds = ["Deltas", "Deployment", "ReplicaSet", "ReplicationController"];
    expect(names.toSorted()).toEqual(kinds.flatMap((kind) => [`${kind}DeadQueue`, `${kind}Queue`]).toSorted());
    for (const kind of kinds) {
      const { attributes, maxReceiveCount } = kind === "Deltas" ? DELTA_QUEUE : DOORBELL_QUEUE;
      const { QueueName, RedrivePolicy, ...rest } = withoutEncryption(properties(`${kind}Queue`));
      expect(QueueName).toMatch(/^deltaloop-prod-[a-z]+(\.fifo)?$/);
      expect(Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]))).toEqual(attributes);
      expect(RedrivePolicy).toEqual({ deadLetterTargetArn: { "Fn::GetAtt": [`${kind}DeadQueue`, "Arn"] }, maxReceiveCount });
    }
    for (const [name, attributes] of [
      ["DeltasDeadQueue", DEAD_DELTA_QUEUE],
      ["DeploymentDeadQueue", DOORBELL_DEAD_QUEUE],
    ] as const) {
      const { QueueName: _, RedriveAllowPolicy: __, ...dead } = withoutEncryption(properties(name));
      expect(Object.fromEntries(Object.entries(dead).map(([attribute, value]) => [attribute, String(value)]))).toEqual(attributes);
    }
  });

  it("drops a delta message after three attempts in stage local only, for tests", () => {
    expect(local.Resources["DeltasQueue"]?.Properties["RedrivePolicy"]).toMatchObject({ maxReceiveCount: 3 });
  });

  it("maps each queue to its function with partial failures and limited concurrency", () => {
    const mappings = ofType("AWS::Lambda::EventSourceMapping").map(([, resource]) => resource.Properties);
    expect(mappings).toHaveLength(5);
    for (const mapping of mappings) {
      expect(mapping).toMatchObject({ BatchSize: 10, Enabled: true, FunctionResponseTypes: ["ReportBatchItemFailures"] });
      const queue = /"(\w+)Queue"/.exec(JSON.stringify(mapping["EventSourceArn"]))?.[1];
      expect(mapping["ScalingConfig"], queue).toEqual({ MaximumConcurrency: queue === "Deltas" ? 25 : queue === "DeltasDead" ? 2 : 5 });
      // SQS rejects a batching window on a FIFO queue.
      expect(mapping).not.toHaveProperty("MaximumBatchingWindowInSeconds");
    }
  });

  it("runs every function on nodejs24.x, arm64, with a role of its own and recursive loop detection off [informer T72]", () => {
    const functions = ofType("AWS::Lambda::Function").map(([, resource]) => resource.Properties);
    expect(functions.map(({ FunctionName }) => FunctionName).toSorted()).toEqual(FUNCTIONS.map((name) => `deltaloop-prod-${name}`));
    for (const fn of functions) expect(fn).toMatchObject({ Runtime: "nodejs24.x", Architectures: ["arm64"], Handler: "handler.handler" });
    // The function sends no messages, so it cannot be part of a loop.
    const guarded = functions.filter((fn) => fn["RecursiveLoop"] !== "Allow").map(({ FunctionName }) => FunctionName);
    expect(guarded).toEqual(["deltaloop-prod-dead-deltas"]);
    expect(new Set(functions.map(({ Role }) => JSON.stringify(Role))).size).toBe(FUNCTIONS.length);
  });

  it("runs on nodejs22.x in stage local only, which LocalStack supports", () => {
    const runtimes = ofType("AWS::Lambda::Function", local).map(([, { Properties }]) => Properties["Runtime"]);
    expect(runtimes).toEqual(FUNCTIONS.map(() => "nodejs22.x"));
  });

  it("allows a function to read only its own queue, and to send only to doorbell queues", () => {
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

  it("sweeps every minute", () => {
    expect(ofType("AWS::Events::Rule").map(([, { Properties }]) => Properties["ScheduleExpression"])).toEqual(["rate(1 minute)"]);
  });

  it("sets the visibility timeout to six time limits, and only known variables on the functions", () => {
    for (const [name, { Properties }] of ofType("AWS::Lambda::Function")) {
      const { Variables } = Properties["Environment"] as { Variables: Record<string, unknown> };
      expect(Object.keys(Variables), name).toContain("DELTALOOP_MAC_KEY_SECRET");
      const known = Object.keys(Variables).filter((variable) => !variable.startsWith("DELTALOOP_CLUSTERS")); // read before the configuration
      const unknown = problemsOf(known).filter((problem) => problem.endsWith(": is not a variable of deltaloop"));
      expect(unknown, name).toEqual([]);
    }
    expect(properties("ApplyDashdeltasLambdaFunction")?.["Timeout"]).toBe(Number(DELTA_QUEUE.attributes.VisibilityTimeout) / 6);
    expect(properties("DeadDashdeltasLambdaFunction")?.["Timeout"]).toBe(Number(DEAD_DELTA_QUEUE.VisibilityTimeout) / 6);
    expect(properties("SyncDashreplicasetLambdaFunction")?.["Timeout"]).toBe(Number(DOORBELL_QUEUE.attributes.VisibilityTimeout) / 6);
  });

  it("gives a function only the names of its secrets, neither values nor dynamic references", () => {
    for (const [name, { Properties }] of ofType("AWS::Lambda::Function")) {
      expect(JSON.stringify(Properties), name).not.toContain("{{resolve:");
      const { Variables } = Properties["Environment"] as { Variables: Record<string, unknown> };
      const own = String(Properties["FunctionName"]).replace("deltaloop-prod-", "");
      const secret = Object.entries(Variables).filter(([variable, value]) => /SECRET$|KEY|TOKEN|PASSWORD/.test(variable) && value !== "");
      expect(Object.fromEntries(secret), name).toEqual({
        ...(own === "sweep" && { DELTALOOP_MAC_KEY_SECRET: { "Fn::If": ["ServesListed", "deltaloop/prod/mac-key", ""] } }),
        ...(own !== "sweep" && {
          DELTALOOP_MAC_KEY_SECRET: "deltaloop/prod/mac-key",
          DELTALOOP_DIGEST_KEY_SECRET: "deltaloop/prod/digest-key",
        }),
        DELTALOOP_REDIS_SECRET: {
          "Fn::If": ["MakesFunctionUsers", `deltaloop/prod/redis/${own}`, { "Fn::If": ["MakesStore", "deltaloop/prod/redis", ""] }],
        },
        ...(USES_KUBE.test(own) && {
          DELTALOOP_KUBE_SECRET: { "Fn::If": ["IsLean", `ssm:/deltaloop/prod/kube/${own}`, `deltaloop/prod/kube/${own}`] },
        }),
      });
    }
  });

  it("allows a function to read only its own secrets", () => {
    const functionRoles = ofType("AWS::IAM::Role").filter(([, role]) => JSON.stringify(role).includes('"lambda.amazonaws.com"'));
    expect(functionRoles).toHaveLength(FUNCTIONS.length);
    for (const [name, { Properties }] of functionRoles.filter(([, role]) => JSON.stringify(role).includes("ReadSecrets"))) {
      const text = JSON.stringify(Properties);
      const [, own = ""] = /"PolicyName":"([\w-]+)"/.exec(text) ?? [];
      expect([...text.matchAll(/secretsmanager:[^"]*:secret:([^"]+)/g)].map(([, secret]) => secret).toSorted(), name).toEqual(
        [
          ...(own === "sweep" ? ["mac-key"] : ["digest-key", "mac-key"]),
          ...(USES_KUBE.test(own) ? [`kube/${own}`] : []),
          "redis",
          `redis/${own}`,
        ]
          .toSorted()
          .map((part) => `deltaloop/prod/${part}-??????`),
      );
      expect(
        [...text.matchAll(/"Action":"(secretsmanager:\w+)","Resource":("\*")?/g)].map(([, action, all]) => [action, all]),
        name,
      ).toEqual([
        ["secretsmanager:GetSecretValue", undefined],
        ["secretsmanager:BatchGetSecretValue", '"*"'],
      ]);
    }
    const sweep = JSON.stringify(functionRoles.find(([name]) => name === "SweepRole"));
    expect(sweep, "only if doorbells are signed").toMatch(
      /"Fn::If":\["ServesListed",\{"Fn::Sub":"[^"]*mac-key-\?{6}"\},\{"Ref":"AWS::NoValue"\}\]/,
    );
  });

  it("allows a function to read only its own values of listed clusters, and only the sweeper to list them", () => {
    for (const [name, { Properties }] of ofType("AWS::IAM::Role").filter(([, role]) =>
      JSON.stringify(role).includes('"lambda.amazonaws.com"'),
    )) {
      const [, own = ""] = /"PolicyName":"([\w-]+)"/.exec(JSON.stringify(Properties)) ?? [];
      const [{ PolicyDocument }] = Properties["Policies"] as [{ PolicyDocument: { Statement: readonly Record<string, unknown>[] } }];
      const about = PolicyDocument.Statement.filter((statement) => JSON.stringify(statement).includes("/clusters/"));
      const path = `arn:\${AWS::Partition}:ssm:\${AWS::Region}:\${AWS::AccountId}:parameter/deltaloop/prod/clusters/deltaloop-${own}`;
      const [lists, paths] = own === "sweep" ? [["ssm:GetParametersByPath"], [path]] : [[], []];
      expect(about, name).toEqual([
        {
          "Fn::If": [
            "ServesListed",
            {
              Sid: "ReadClusters",
              Effect: "Allow",
              Action: [...lists, "ssm:GetParameters"],
              Resource: [...paths, `${path}/*`].map((arn) => ({ "Fn::Sub": arn })),
            },
            { Ref: "AWS::NoValue" },
          ],
        },
      ]);
    }
  });

  it("leaves half of Lambda's 4 KiB environment limit free", () => {
    // Bytes of the values that a deployment fills in: a CA in base64, URLs of queues and of a Store.
    const filled: Readonly<Record<string, number>> = { DELTALOOP_KUBE_CA: 1_500, DELTALOOP_KUBE_SERVER: 80, DELTALOOP_CLUSTER: 12 };
    const sizes = ofType("AWS::Lambda::Function").map(([, { Properties }]) => {
      const { Variables } = Properties["Environment"] as { Variables: Record<string, unknown> };
      const bytes = Object.entries(Variables).map(
        ([name, value]) => name.length + (filled[name] ?? (typeof value === "string" ? value.length : 90)),
      );
      return { name: String(Properties["FunctionName"]), bytes: bytes.reduce((sum, each) => sum + each, 0) };
    });
    measured(`environments: ${sizes.map(({ name, bytes }) => `${name.replace("deltaloop-prod-", "")} ${bytes} bytes`).join(", ")}`);
    for (const { name, bytes } of sizes) expect(bytes - 1_500, name).toBeLessThanOrEqual(2_048);
  });
});

/** Returns the configuration errors of a function with these environment variables. */
function problemsOf(variables: readonly string[]): readonly string[] {
  try {
    const environment = Object.fromEntries(variables.map((variable) => [variable, variable.endsWith("_SECONDS") ? "5" : "x"]));
    parseConfiguration(withSecrets(environment, referencesIn(environment), new Map([["x", "x"]])).variables);
  } catch (error) {
    if (error instanceof ConfigurationError) return error.problems;
    throw error;
  }
  return [];
}

async function unzipped(path: string): Promise<Readonly<Record<string, string>>> {
  const archive = await openPromise(path);
  try {
    const files: Record<string, string> = {};
    for await (const entry of archive.eachEntry()) files[entry.fileName] = await text(await archive.openReadStreamPromise(entry));
    return files;
  } finally {
    archive.close();
  }
}

/** test/tooling/stack.test.ts tests the removed properties. */
function withoutEncryption(properties: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(properties).filter(([name]) => !/^(?:Kms|SqsManagedSse)/.test(name)));
}
