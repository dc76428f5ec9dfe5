/** Runs `serverless deploy` and `serverless remove` of serverless.yml, stage `local`, against LocalStack. */
import { randomUUID } from "node:crypto";
import { spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { AwsError, awsJson } from "@deltaloop/store/aws";
import { functionsOf, kubeSecret, secretName, REGISTRY } from "@deltaloop/controllers/registry";
import type * as Bundler from "../build/bundle.ts";

/** Configuration of the functions; serverless.yml has the rest of the stage. */
export interface LocalDeployment {
  /** LocalStack's endpoint. */
  readonly endpoint: string;
  /** Serves the clusters of Parameter Store instead of one. */
  readonly listed?: { readonly allow: string };
  readonly clusterId: string;
  readonly mode: "act" | "shadow";
  readonly redisUrl: string;
  readonly digestKey: string;
  readonly macKey: string;
  readonly kubeServer: string;
  /** PEM. */
  readonly kubeCa?: string;
  /** Bearer token by function; a function without one is anonymous. */
  readonly kubeTokens: Readonly<Record<string, string>>;
  readonly logLevel: "debug" | "info";
}

/** The build to deploy. */
export interface Edition {
  /** Checkout with its node_modules. Default: this one. */
  readonly root?: string;
  /** Code that each function runs when it is loaded. */
  readonly preamble?: string;
  /** How long functions and watcher cache a secret. Default: the product's. */
  readonly secretsSeconds?: number;
  /** DELTALOOP_KUBERNETES of the watcher. Default: the product's. */
  readonly kubernetes?: "supported" | "any";
}

export const ROOT = join(import.meta.dirname, "..", "..");
/** Name of the stage, and so part of every Redis key and queue name. */
export const STAGE = "local";
const OSLS_MS_MAX = 180_000;

/** Bundles the functions with the checkout's own bundler and deploys them. @throws {Error} with the output of osls */
export async function deploy(deployment: LocalDeployment, edition: Edition = {}): Promise<void> {
  const { root = ROOT, preamble } = edition;
  const { bundleFunction, functionNames } = await bundlerOf(root);
  for (const name of await functionNames(root)) await bundleFunction(root, name, join(root, "dist", "functions"), preamble);
  await osls("deploy", deployment, edition);
}

/** Removes everything that `deploy` created. @throws {Error} with the output of osls */
export async function remove(deployment: LocalDeployment, edition: Edition = {}): Promise<void> {
  await osls("remove", deployment, edition);
}

async function bundlerOf(root: string): Promise<typeof Bundler> {
  // another commit has the same module
  return (await import(pathToFileURL(join(root, "infra", "build", "bundle.ts")).href)) as typeof Bundler;
}

/** Writes the secrets that the functions' environments refer to. */
export async function putSecrets({ endpoint, macKey, digestKey, kubeTokens }: LocalDeployment): Promise<void> {
  const { call, close } = awsJson({ name: "secretsmanager", target: "secretsmanager", version: "1.1" }, { endpoint });
  const callers = functionsOf(REGISTRY).filter(({ usesKube }) => usesKube);
  const values: Readonly<Record<string, string>> = {
    "mac-key": macKey,
    "digest-key": digestKey,
    ...Object.fromEntries(callers.map(({ name }) => [kubeSecret(name), JSON.stringify({ token: kubeTokens[name] })])),
  };
  try {
    for (const [part, SecretString] of Object.entries(values)) {
      const name = secretName(STAGE, part);
      await call("CreateSecret", endpoint, { Name: name, SecretString, ClientRequestToken: randomUUID() }).catch(async (error: unknown) => {
        if (!(error instanceof AwsError && error.name === "ResourceExistsException")) throw error;
        await call("PutSecretValue", endpoint, { SecretId: name, SecretString, ClientRequestToken: randomUUID() });
      });
    }
  } finally {
    close();
  }
}

async function osls(verb: "deploy" | "remove", deployment: LocalDeployment, { root = ROOT, secretsSeconds }: Edition): Promise<void> {
  const home = await mkdtemp(join(tmpdir(), "deltaloop-osls-"));
  const images = await noImages();
  try {
    const parameters = {
      mode: deployment.mode,
      clusters: deployment.listed ? "listed" : "",
      clustersAllow: deployment.listed?.allow ?? "",
      clusterId: deployment.clusterId,
      kubeServer: deployment.kubeServer,
      kubeCa: Buffer.from(deployment.kubeCa ?? "").toString("base64"),
      redisUrl: deployment.redisUrl,
      sqsEndpoint: deployment.endpoint,
      secretsEndpoint: deployment.endpoint,
      secretsSeconds: secretsSeconds === undefined ? "" : String(secretsSeconds),
      logLevel: deployment.logLevel,
    };
    // osls rejects an empty parameter; an absent one has the same effect.
    const args = Object.entries(parameters).flatMap(([name, value]) => (value === "" ? [] : [`--param=${name}=${value}`]));
    await run(root, join(root, "node_modules", ".bin", "osls"), [verb, "--stage", STAGE, "--region", "us-east-1", ...args], {
      PATH: process.env["PATH"],
      HOME: home,
      NO_COLOR: "1",
      // LocalStack accepts any credentials.
      AWS_ACCESS_KEY_ID: "test",
      AWS_SECRET_ACCESS_KEY: "test",
      AWS_EC2_METADATA_DISABLED: "true",
      AWS_ENDPOINT_URL: deployment.endpoint,
      AWS_ENDPOINT_URL_ECR: images.url,
    });
  } finally {
    images.server.close();
    await rm(home, { recursive: true, force: true });
  }
}

/** Answers osls' request to ECR for images to remove, since LocalStack's free edition has no ECR. */
async function noImages(): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(400, { "content-type": "application/x-amz-json-1.1", connection: "close" });
    response.end(JSON.stringify({ __type: "RepositoryNotFoundException", message: "there are no images" }));
  });
  await new Promise<void>((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  const address = server.address();
  return { url: `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`, server };
}

async function run(cwd: string, program: string, args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], timeout: OSLS_MS_MAX, killSignal: "SIGKILL" });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  const how = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(signal ?? `exit code ${code}`));
  });
  if (how !== "exit code 0") throw new Error(`serverless ${args[0]} failed with ${how}:\n${output.trim()}`);
}
