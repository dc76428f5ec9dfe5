/**
 * Would catch: a provider that runs for other images or for each pull, an expired response, a provider that hangs or fails and thereby
 * stops pulls, and a secret in a log.
 */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { nodeCredentials } from "../../../../cli/node/node-credentials.ts";
import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { VirtualClock } from "../../../../shared/base/memory/clock.ts";
import { createNodeCredentials } from "../../../../shared/node-agent/credentials/credential-provider.ts";
import type { NodeCredentials } from "../../../../shared/node-agent/ports/node-credentials.ts";
import { recordingLog } from "../../recording-log.ts";

const ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com";
const PROVIDER = {
  name: "ecr-credential-provider",
  apiVersion: "credentialprovider.kubelet.k8s.io/v1",
  matchImages: ["*.dkr.ecr.*.amazonaws.com"],
  defaultCacheMs: 60_000,
  args: ["get-credentials"],
  env: { AWS_REGION: "eu-west-1" },
};

let folder: string;
let clock: VirtualClock;
let log: ReturnType<typeof recordingLog>;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "deltaloop-credentials-"));
  clock = createVirtualClock(0);
  log = recordingLog();
});
afterEach(() => rm(folder, { recursive: true }));

/** Writes a provider like ECR's: it records its input and prints `answer`, in which `COUNT` is the number of its calls. */
async function program(answer: object, script = ""): Promise<void> {
  const path = join(folder, PROVIDER.name);
  await writeFile(
    path,
    `#!/bin/sh\necho "$1 $AWS_REGION $(cat)" >> ${folder}/calls\n${script}\nsed "s/COUNT/$(wc -l < ${folder}/calls)/" ${folder}/answer\n`,
  );
  await chmod(path, 0o755);
  await writeFile(
    join(folder, "answer"),
    JSON.stringify({ kind: "CredentialProviderResponse", apiVersion: PROVIDER.apiVersion, ...answer }),
  );
}

function credentials(): NodeCredentials {
  return createNodeCredentials({
    configFolders: { "config.json": [join(folder, "a"), join(folder, "b")], ".dockercfg": [join(folder, "c")] },
    providers: [PROVIDER],
    binDir: folder,
    environment: { PATH: process.env["PATH"], AWS_REGION: "elsewhere" },
    clock,
    log,
  });
}

const calls = async (): Promise<readonly string[]> =>
  (await readFile(join(folder, "calls"), "utf8").catch(() => "")).split("\n").slice(0, -1);
const auth = { "*.dkr.ecr.*.amazonaws.com": { username: "AWS", password: "5ecret-COUNT" } };

describe("a credential provider [node-agent 448]", () => {
  it("a credential provider runs as configured for matching images, and its response is cached for the registry until it expires", async () => {
    await program({ cacheKeyType: "Registry", cacheDuration: "1h", auth });
    const node = credentials();
    expect(await node.lookup("web:1")).toEqual([]);
    expect(await calls()).toEqual([]);
    expect(await node.lookup(`${ECR}/web:1`)).toEqual([{ username: "AWS", password: "5ecret-1" }]);
    expect(await node.lookup(`${ECR}/other:1`)).toEqual([{ username: "AWS", password: "5ecret-1" }]);
    expect(await calls()).toEqual([
      `get-credentials eu-west-1 {"kind":"CredentialProviderRequest","apiVersion":"${PROVIDER.apiVersion}","image":"${ECR}/web"}`,
    ]);
    await clock.advance(3_600_001);
    expect(await node.lookup(`${ECR}/web:1`)).toEqual([{ username: "AWS", password: "5ecret-2" }]);
  });

  it("a credential provider runs once for concurrent pulls of one image, and for each pull if its responses are not cached", async () => {
    await program({ cacheKeyType: "Image", cacheDuration: "0s", auth });
    const node = credentials();
    await Promise.all([node.lookup(`${ECR}/web:1`), node.lookup(`${ECR}/web:1`)]);
    expect(await calls()).toHaveLength(1);
    await node.lookup(`${ECR}/web:1`);
    expect(await calls()).toHaveLength(2);
  });

  it("returns nothing after a plugin failure, and reports the reason without the plugin's response", async () => {
    await program({ cacheKeyType: "Image", auth }, "cat $0.none 2>/dev/null; echo no session >&2; exit 3");
    expect(await credentials().lookup(`${ECR}/web:1`)).toEqual([]);
    expect(log.lines).toMatchObject([
      { level: "error", fields: { provider: PROVIDER.name, error: expect.stringMatching(/exit status 3: no session/u) as string } },
    ]);
    await program({ cacheKeyType: "Pod", auth });
    expect(await credentials().lookup(`${ECR}/web:1`)).toEqual([]);
    expect(JSON.stringify(log.lines)).not.toContain("5ecret");
  });
});

describe("the node's docker configuration [node-agent 449]", () => {
  const put = async (place: string, username: string): Promise<void> => {
    await mkdir(join(folder, place, ".."), { recursive: true });
    const entries = { [ECR]: { username, password: "x" } };
    await writeFile(join(folder, place), JSON.stringify(place.endsWith("json") ? { auths: entries } : entries));
  };
  const users = async (node: NodeCredentials): Promise<readonly unknown[]> =>
    (await node.lookup(`${ECR}/web`)).map(({ username }) => username);

  it("the docker configuration is taken from the first readable file, precedes providers, and is read again after 5 minutes", async () => {
    await program({ cacheKeyType: "Image", auth });
    await put("c/.dockercfg", "c");
    const node = credentials();
    expect(await users(node)).toEqual(["c", "AWS"]);
    await put("b/config.json", "b");
    expect(await users(node)).toEqual(["c", "AWS"]);
    await clock.advance(300_000);
    expect(await users(node)).toEqual(["b", "AWS"]);
    await mkdir(join(folder, "a"));
    await writeFile(join(folder, "a/config.json"), '{"auths": "5ecret');
    await clock.advance(300_000);
    expect(await users(node)).toEqual(["b", "AWS"]);
    expect(log.lines).toMatchObject([{ level: "warn", fields: { path: join(folder, "a/config.json") } }]);
    expect(JSON.stringify(log.lines)).not.toContain("5ecret");
  });

  it("as in upstream, a docker configuration without auths is valid, so that later files are not read", async () => {
    await program({ cacheKeyType: "Image", auth });
    await put("b/config.json", "b");
    await put("c/.dockercfg", "c");
    await mkdir(join(folder, "a"));
    await writeFile(join(folder, "a/config.json"), '{"credsStore": "secretservice"}');
    expect(await users(credentials())).toEqual(["AWS"]);
    expect(log.lines).toEqual([]);
  });
});

describe("the flags of credential providers [node-agent 447]", () => {
  const of = (config: string | undefined, binDir: string | undefined): Promise<NodeCredentials> =>
    nodeCredentials(
      {
        rootDir: folder,
        ...(config !== undefined && { imageCredentialProviderConfig: config }),
        ...(binDir !== undefined && { imageCredentialProviderBinDir: binDir }),
      },
      { clock, log },
    );
  const written = async (name: string, ...providers: readonly string[]): Promise<void> => {
    const entry = { apiVersion: PROVIDER.apiVersion, matchImages: ["r.test"], defaultCacheDuration: "1h" };
    const config = {
      apiVersion: "kubelet.config.k8s.io/v1",
      kind: "CredentialProviderConfig",
      providers: providers.map((one) => ({ ...entry, name: one })),
    };
    await writeFile(join(folder, name), JSON.stringify(config));
  };

  it("the flags must be set together, and contain existing programs, each once", async () => {
    await program({});
    await expect(of(join(folder, "none.yaml"), undefined)).rejects.toThrow("must be set together");
    await expect(of(join(folder, "none.yaml"), folder)).rejects.toThrow("ENOENT");
    await expect(of(folder, folder)).rejects.toThrow("no configuration files found in directory");
    await written("1.yaml", PROVIDER.name);
    await of(folder, folder);
    await written("2.json", "missing");
    await expect(of(folder, folder)).rejects.toThrow(`plugin binary executable ${join(folder, "missing")} did not exist`);
    await written("2.json", PROVIDER.name);
    await expect(of(folder, folder)).rejects.toThrow(`duplicate provider name "${PROVIDER.name}"`);
    await of(undefined, undefined);
  });
});
