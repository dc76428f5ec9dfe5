/** `deltaloop cluster` as a process. Catches: a file that is written before it is vetted, or that other users can read. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { it as base, expect } from "vitest";

import { ROLES } from "../../../shared/controllers/registry/rights.ts";
import { startFakeParameters } from "../../support/fake-parameters.ts";
import { kubeconfigOf } from "../../support/kubeconfig.ts";

const ROOT = join(import.meta.dirname, "../../..");
const SECRET = "s3cr3t";
/** They call no API server. */
const WITHOUT_RIGHTS = ["deltaloop-dead-deltas", "deltaloop-sweep"];

interface Harness {
  readonly root: string;
  readonly folder: string;
  cluster(...args: readonly string[]): { readonly status: number | null; readonly stdout: string; readonly stderr: string };
}

const it = base.extend<{ harness: Harness }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest reads the names of the fixtures that it needs
  harness: async ({}, use) => {
    const root = mkdtempSync(join(tmpdir(), "deltaloop-cluster-"));
    const folder = join(root, "clusters");
    const cluster: Harness["cluster"] = (...args) =>
      spawnSync(process.execPath, [join(ROOT, "cli/main.ts"), "cluster", ...args, "--clusters", folder], { encoding: "utf8" });
    await use({ root, folder, cluster });
    rmSync(root, { recursive: true });
  },
});

it("adds, lists, pauses, resumes and removes a cluster, and prints no credentials", ({ harness: { root, folder, cluster } }) => {
  const [kubeconfig, tokenFile] = [join(root, "kubeconfig"), join(root, "token")];
  writeFileSync(tokenFile, `${SECRET}\n`);
  writeFileSync(kubeconfig, kubeconfigOf({ server: "https://blue.example.com" }, { tokenFile: "token" }));

  const refused = cluster("add", "blue", "--kubeconfig", kubeconfig);
  expect(refused.status).toBe(2);
  expect(refused.stderr).toContain(`${kubeconfig}: users[0].user.tokenFile: refers to a file of this machine`);

  expect(cluster("add", "blue", "--kubeconfig", kubeconfig, "--embed")).toMatchObject({ status: 0, stderr: "" });
  expect(readdirSync(folder)).toEqual(["blue"]);
  expect(statSync(join(folder, "blue")).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(folder, "blue"), "utf8")).toContain(SECRET);
  expect(cluster("add", "twin", "--kubeconfig", kubeconfig, "--embed").stderr).toContain("cluster blue has the same server");

  expect(cluster("pause", "blue").status).toBe(0);
  const { stdout } = cluster("ls", "-o", "json");
  expect(JSON.parse(stdout)).toEqual({
    name: "blue",
    status: "paused",
    server: "https://blue.example.com",
    id: expect.stringMatching(/^[0-9a-f]{32}$/),
  });
  expect(cluster("resume", "blue").status).toBe(0);
  expect(cluster("ls").stdout).toBe("blue\tactive\thttps://blue.example.com\n");

  expect(cluster("rm", "red")).toMatchObject({ status: 2, stderr: expect.stringContaining("it has: blue") });
  expect(cluster("rm", "blue").status).toBe(0);
  expect(readdirSync(folder)).toEqual([]);
}, 60_000);

it("lists a rejected file with its problem, and exits with 1", ({ harness: { root, cluster, folder } }) => {
  const kubeconfig = join(root, "kubeconfig");
  writeFileSync(kubeconfig, kubeconfigOf({ server: "https://127.0.0.1:1" }, { token: SECRET }));
  expect(cluster("add", "near", "--kubeconfig", kubeconfig).status).toBe(2);
  expect(cluster("add", "near", "--kubeconfig", kubeconfig, "--allow", "loopback").status).toBe(0);
  const listed = cluster("ls");
  expect(listed).toMatchObject({ status: 1, stderr: "" });
  expect(listed.stdout).toMatch(/^near\trejected\tnear: clusters\[0\]\.cluster\.server: .*--allow loopback\n$/);
  expect(listed.stdout).not.toContain(SECRET);
  expect(readdirSync(folder)).toEqual(["near"]);
});

it("edits a path in Parameter Store: a parameter for each role, which nobody else can read", async ({ harness: { root } }) => {
  const fake = await startFakeParameters();
  const kubeconfig = join(root, "kubeconfig");
  writeFileSync(kubeconfig, kubeconfigOf({ server: "https://blue.example.com" }, { token: SECRET }));
  /** Does not block, since the fake is served by this process. */
  const cluster = async (...args: readonly string[]) => {
    const child = spawn(process.execPath, [join(ROOT, "cli/main.ts"), "cluster", ...args, "--clusters", "ssm:/deltaloop/prod/clusters"], {
      env: { ...process.env, DELTALOOP_SECRETS_ENDPOINT: fake.endpoint },
    });
    let out = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk: Buffer) => (out += chunk.toString()));
    const [status] = (await once(child, "close")) as [number];
    return { status, out };
  };
  try {
    expect(await cluster("add", "blue", "--kubeconfig", kubeconfig, "--allow", "exec")).toMatchObject({
      status: 2,
      out: expect.stringMatching(/^deltaloop: --allow exec needs a folder: [^\n]*\n$/),
    });
    expect(fake.values.size).toBe(0);
    expect(await cluster("add", "blue", "--kubeconfig", kubeconfig)).toEqual({ status: 0, out: "" });
    const names = [...fake.values.keys()];
    const roles = [...ROLES.map(({ name }) => name), ...WITHOUT_RIGHTS];
    expect(names.map((name) => name.replace(/[0-9a-f]{32}$/, "ID")).toSorted()).toEqual(
      roles.map((name) => `/deltaloop/prod/clusters/${name}/ID`).toSorted(),
    );
    const secret = [...fake.values].filter(([, { value }]) => value.includes(SECRET)).map(([name]) => name);
    expect(secret.toSorted()).toEqual(names.filter((name) => !WITHOUT_RIGHTS.some((role) => name.includes(`/${role}/`))).toSorted());
    expect(names.at(-1)).toContain("/deltaloop-watcher/");
    expect((await cluster("pause", "blue")).status).toBe(0);
    expect(await cluster("ls")).toEqual({ status: 0, out: "blue\tpaused\thttps://blue.example.com\n" });
    // Another CA makes another cluster, so the old one's parameters go.
    const ca = Buffer.from("another authority").toString("base64");
    writeFileSync(kubeconfig, kubeconfigOf({ server: "https://blue.example.com", "certificate-authority-data": ca }, { token: SECRET }));
    expect(await cluster("add", "blue", "--kubeconfig", kubeconfig)).toEqual({ status: 0, out: "" });
    expect([...fake.values.keys()].filter((name) => names.includes(name))).toEqual([]);
    expect((await cluster("ls")).out).toBe("blue\tpaused\thttps://blue.example.com\n");
    for (const name of fake.values.keys()) if (name.includes("-watcher/")) fake.values.delete(name); // as a removal that fails half-way
    expect((await cluster("rm", "blue")).status).toBe(0);
    expect(fake.values.size).toBe(0);
    expect(await cluster("rm", "blue")).toMatchObject({ status: 2, out: expect.stringContaining("has no cluster blue") });
    fake.denied.add("GetParametersByPath");
    expect(await cluster("ls")).toMatchObject({ status: 2, out: expect.stringContaining("allow ssm:GetParametersByPath") });
  } finally {
    fake.stop();
  }
}, 60_000);
