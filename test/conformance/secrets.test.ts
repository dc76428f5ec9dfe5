/** The secrets adapter with files, and over HTTP with a stand-in for AWS. */
import { chmod, chown, lstat, mkdtemp, open, readdir, readFile, rm, stat, symlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";

import { placeOf } from "../../shared/store/secrets/reference.ts";
import { createSecrets } from "../../shared/store/secrets/secrets.ts";
import type { SecretsOptions } from "../../shared/store/secrets/secret-reader.ts";
import { startSecretsStandIn } from "../support/secrets-stand-in.ts";
import { secretsConformance } from "./secrets.ts";

const ends: (() => unknown)[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const end of ends.splice(0)) await end();
});

async function standIn(values: Readonly<Record<string, string>>, options: SecretsOptions = {}) {
  const server = await startSecretsStandIn(values);
  const secrets = createSecrets({ endpoint: server.endpoint, ...options });
  ends.push(secrets.close, server.stop);
  return { server, secrets };
}

const prefixed = (prefix: string, values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [prefix + name, value]));

secretsConformance("Secrets Manager, by name", async (values) => ({
  ...(await standIn(prefixed("deltaloop/test/", values))),
  reference: (name) => `deltaloop/test/${name}`,
}));
secretsConformance("Secrets Manager, by ARN", async (values) => ({
  ...(await standIn(values)),
  reference: (name) => `arn:aws:secretsmanager:us-east-1:000000000000:secret:${name}-a1B2c3`,
}));
secretsConformance("Parameter Store", async (values) => ({
  ...(await standIn(prefixed("/deltaloop/", values))),
  reference: (name) => `ssm:/deltaloop/${name}`,
}));
secretsConformance("files", async (values) => {
  const folder = await mkdtemp(join(tmpdir(), "deltaloop-secrets-"));
  ends.push(() => rm(folder, { recursive: true }));
  for (const [name, value] of Object.entries(values)) await writeFile(join(folder, name), `${value}\n`);
  return { secrets: createSecrets(), reference: (name) => `file:${join(folder, name)}` };
});

describe("secrets over HTTP, in addition to the port's suite", () => {
  it("all secrets are read by one call of each service", async () => {
    const { server, secrets } = await standIn({ a: "1", b: "2", "/c": "3", "/d": "4" });
    await secrets.read(["a", "ssm:/c", "b", "ssm:/d"]);
    expect(server.asked.toSorted((one, other) => one.action.localeCompare(other.action))).toEqual([
      { action: "BatchGetSecretValue", names: ["a", "b"] },
      { action: "GetParameters", names: ["/c", "/d"] },
    ]);
  });

  it.each([
    {
      name: "one of several secrets",
      references: ["a", "b"],
      refuse: ["b", "AccessDeniedException"],
      want: "b: access is denied: allow secretsmanager:GetSecretValue on it, and kms:Decrypt if its key is your own",
    },
    {
      name: "the call itself",
      references: ["a"],
      refuse: ["BatchGetSecretValue", "AccessDeniedException"],
      want: "a: access is denied: allow secretsmanager:BatchGetSecretValue (on *) and secretsmanager:GetSecretValue on it, and kms:Decrypt if its key is your own",
    },
    {
      name: "a parameter",
      references: ["ssm:/c"],
      refuse: ["/c", "AccessDeniedException"],
      want: "ssm:/c: access is denied: allow ssm:GetParameters on it, and kms:Decrypt if its key is your own",
    },
    {
      name: "the KMS key of the secret",
      references: ["a", "b"],
      refuse: ["a", "DecryptionFailure"],
      want: "a: cannot be decrypted: the KMS key is disabled, or kms:Decrypt on it is not allowed (DecryptionFailure)",
    },
    {
      name: "an unknown error code",
      references: ["a"],
      refuse: ["a", "InternalServiceErrorException"],
      want: "a: failed with InternalServiceErrorException",
    },
  ])(
    "reports why a request was denied, without quoting the response (SR2): $name",
    async ({ references, refuse: [what = "", code = ""], want }) => {
      const { server, secrets } = await standIn({ a: "1", b: "2", "/c": "3" });
      server.refused.set(what, code);
      await expect(secrets.read(references)).rejects.toThrow(new RegExp(`^${want.replaceAll(/[()*]/g, String.raw`\$&`)}$`));
    },
  );

  it("reports a secret that has no value yet", async () => {
    const { server, secrets } = await standIn({});
    server.values.set("empty", undefined);
    await expect(secrets.read(["empty"])).rejects.toThrow("empty: does not exist, or has no value yet (ResourceNotFoundException)");
  });

  it("the read fails with not found if the response lacks one of the requested secrets (SR1, SR2)", async () => {
    const { server, secrets } = await standIn({ a: "1", b: "2" });
    server.passedOver.add("b");
    await expect(secrets.read(["a", "b"])).rejects.toThrow(/^b: does not exist, or has no value yet \(ResourceNotFoundException\)$/);
  });

  it("reports the missing permission when a write is denied", async () => {
    const { server, secrets } = await standIn({ a: "1" });
    server.refused.set("PutSecretValue", "AccessDeniedException");
    await expect(secrets.write("a", "2")).rejects.toThrow("a: access is denied: allow secretsmanager:PutSecretValue on it");
    expect(server.values.get("a")).toBe("1");
  });

  it("times out when a request gets no response", async () => {
    const { server, secrets } = await standIn({ a: "1" }, { timeoutMs: 20 });
    server.silent = true;
    await expect(secrets.read(["a"])).rejects.toThrow("a: could not be reached (ETIMEDOUT)");
  });

  it("reports a missing region", async () => {
    vi.stubEnv("AWS_REGION", undefined);
    vi.stubEnv("AWS_DEFAULT_REGION", undefined);
    await expect(createSecrets().read(["a"])).rejects.toThrow("the region of the secrets is not known: set AWS_REGION");
  });
});

describe("a secret in a file", () => {
  async function place(name = "key"): Promise<{ readonly folder: string; readonly path: string; readonly write: () => Promise<void> }> {
    const folder = await mkdtemp(join(tmpdir(), "deltaloop-secrets-"));
    ends.push(() => rm(folder, { recursive: true }));
    const path = join(folder, name);
    await writeFile(path, "one");
    return { folder, path, write: () => createSecrets().write(`file:${path}`, "two") };
  }

  it("a secret file is replaced atomically: a concurrent reader reads the complete old value, and no temporary file remains", async () => {
    const { folder, path, write } = await place();
    const old = await open(path);
    await write();
    expect([await old.readFile("utf8"), await readFile(path, "utf8"), await readdir(folder)]).toEqual(["one", "two", ["key"]]);
    await old.close();
  });

  it("a secret file keeps its old value when there is no space for the new one", async () => {
    const { path, write } = await place("k".repeat(250)); // the watch reports no event for a longer name in the same folder
    await expect(write()).rejects.toThrow(`file:${path}: `);
    expect(await readFile(path, "utf8")).toBe("one");
  });

  it("[informer T113] a secret file always has the complete value of one of several concurrent writers, and no write fails", async () => {
    const { folder, path } = await place();
    const values = Array.from({ length: 40 }, (_, index) => String.fromCodePoint(0x41 + index).repeat(100_000));
    const seen = new Set<string>(["one"]);
    let isOver = false;
    const reader = (async () => {
      while (!isOver) seen.add(await readFile(path, "utf8"));
    })();
    await Promise.all(values.map((value) => createSecrets().write(`file:${path}`, value))).finally(() => (isOver = true));
    await reader;
    expect([...seen].filter((text) => text !== "one" && !values.includes(text)).map(({ length }) => length)).toEqual([]);
    expect(values).toContain(await readFile(path, "utf8"));
    expect(await readdir(folder)).toEqual(["key"]);
  });

  it("[informer T113] ignores the leftover file of a crash, and removes it once no writer can use it", async () => {
    const { folder, path, write } = await place();
    const [old, fresh, other] = ["key.0123abcd.tmp", "key.0123abce.tmp", "key.of-somebody.tmp"];
    for (const name of [old, fresh, other]) await writeFile(join(folder, name), "left", { mode: 0o644 });
    const longAgo = new Date(Date.now() - 120_000);
    for (const name of [old, other]) await utimes(join(folder, name), longAgo, longAgo);
    await write();
    expect([await readFile(path, "utf8"), (await readdir(folder)).toSorted()]).toEqual(["two", ["key", fresh, other]]);
    expect(await readFile(join(folder, fresh), "utf8")).toBe("left");
  });

  it.each([
    { was: "644", is: "600" },
    { was: "666", is: "600" },
    { was: "640", is: "640" },
    { was: "660", is: "640" },
    { was: "400", is: "600" },
  ])(
    "writes a file of mode $was with mode $is: readable by its owner, and by its group unless other users could read it",
    async ({ was, is }) => {
      const { path, write } = await place();
      await chmod(path, Number.parseInt(was, 8));
      await write();
      expect(((await stat(path)).mode & 0o777).toString(8)).toBe(is);
    },
  );

  it.skipIf(process.getuid?.() !== 0)(
    "a secret file keeps its owner when root writes it (only root can change a file's owner)",
    async () => {
      const { path, write } = await place();
      await chown(path, 65_534, 65_533);
      await write();
      expect(await stat(path)).toMatchObject({ uid: 65_534, gid: 65_533 });
    },
  );

  it("a linked secret file is replaced at the target of its link, and the link remains", async () => {
    const { folder, path, write } = await place("target");
    const link = join(folder, "link");
    await symlink("target", link);
    await createSecrets().write(`file:${link}`, "by the link");
    expect([(await lstat(link)).isSymbolicLink(), await readFile(path, "utf8")]).toEqual([true, "by the link"]);
    await rm(path);
    await expect(createSecrets().write(`file:${link}`, "lost")).rejects.toThrow(`file:${link}: could not be reached (ENOENT)`);
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
    await write();
  });

  it("a missing secret file is created, but its directory is not created", async () => {
    const { folder } = await place();
    await createSecrets().write(`file:${join(folder, "new")}`, "first");
    expect((await stat(join(folder, "new"))).mode & 0o777).toBe(0o600);
    await expect(createSecrets().write(`file:${join(folder, "no/new")}`, "first")).rejects.toThrow("could not be reached (ENOENT)");
  });

  it("a secret is never read from or written to a device", async () => {
    await expect(createSecrets().write("file:/dev/null", "lost")).rejects.toThrow("file:/dev/null: is not a regular file");
    expect((await stat("/dev/null")).isCharacterDevice()).toBe(true);
  });
});

it.each([
  { reference: "deltaloop/prod/mac-key", want: { kind: "secretsmanager", id: "deltaloop/prod/mac-key" } },
  {
    reference: "arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:k/mac-a1B2c3",
    want: { kind: "secretsmanager", id: "arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:k/mac-a1B2c3", region: "cn-north-1" },
  },
  { reference: "ssm:/deltaloop/mac", want: { kind: "ssm", id: "/deltaloop/mac" } },
  {
    reference: "arn:aws:ssm:eu-west-1:123456789012:parameter/deltaloop/mac",
    want: { kind: "ssm", id: "arn:aws:ssm:eu-west-1:123456789012:parameter/deltaloop/mac", region: "eu-west-1" },
  },
  { reference: "file:/var/run/mac", want: { kind: "file", id: "/var/run/mac" } },
  { reference: "file:relative", want: undefined },
  { reference: "arn:aws:s3:::bucket", want: undefined },
  { reference: "two words", want: undefined },
  { reference: "old,new", want: undefined },
  { reference: "", want: undefined },
])("parses the reference “$reference” as $want", ({ reference, want }) => {
  expect(placeOf(reference)).toEqual(want);
});
