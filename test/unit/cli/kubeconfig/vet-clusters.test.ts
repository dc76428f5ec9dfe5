/**
 * Vetting of kubeconfigs from other users in a deployment with several clusters. Catches: a field that runs a program, reads a file, or
 * reaches more than the cluster.
 */
import { describe, expect, it } from "vitest";

import { changesBetween, clusterId, repeatedServers } from "../../../../shared/kube/kubeconfig/clusters/directory.ts";
import type { ListedCluster } from "../../../../shared/kube/kubeconfig/clusters/directory.ts";
import { addressProblem, ALLOWANCES, vetKubeconfig } from "../../../../shared/kube/kubeconfig/clusters/vet.ts";
import type { Allowance } from "../../../../shared/kube/kubeconfig/clusters/vet.ts";
import { parseKubeconfig } from "../../../../shared/kube/kubeconfig/kubeconfig.ts";
import type { Kubeconfig } from "../../../../shared/kube/kubeconfig/schema.ts";
import { kubeconfigOf } from "../../../support/kubeconfig.ts";

const SERVER = "https://blue.example.com:6443";
const SECRET = "s3cr3t";
const TOKEN = { token: SECRET };

function parsed(text: string): Kubeconfig {
  return parseKubeconfig(Buffer.from(text), "blue.yaml");
}

interface Row {
  readonly name: string;
  readonly cluster?: Readonly<Record<string, unknown>>;
  readonly user?: object;
  readonly place: string;
  /** Absent if nothing can allow it. */
  readonly allowance?: Allowance;
}

const REJECTED: readonly Row[] = [
  { name: "an exec plugin", user: { exec: { command: SECRET } }, place: "users[0].user.exec", allowance: "exec" },
  { name: "an auth provider", user: { "auth-provider": { name: SECRET } }, place: "users[0].user.auth-provider" },
  { name: "a password", user: { username: SECRET, password: SECRET }, place: "users[0].user.username" },
  { name: "impersonation", user: { as: SECRET }, place: "users[0].user.as" },
  { name: "impersonated groups", user: { "as-groups": [SECRET] }, place: "users[0].user.as-groups" },
  { name: "a proxy", cluster: { "proxy-url": `http://${SECRET}:1` }, place: "clusters[0].cluster.proxy-url", allowance: "proxy" },
  { name: "a CA file", cluster: { "certificate-authority": SECRET }, place: "clusters[0].cluster.certificate-authority" },
  { name: "a certificate file", user: { "client-certificate": SECRET }, place: "users[0].user.client-certificate" },
  { name: "a key file", user: { "client-key": SECRET }, place: "users[0].user.client-key" },
  { name: "a token file", user: { tokenFile: SECRET }, place: "users[0].user.tokenFile" },
  {
    name: "insecure TLS",
    cluster: { "insecure-skip-tls-verify": true },
    place: "clusters[0].cluster.insecure-skip-tls-verify",
    allowance: "insecure",
  },
  {
    name: "a server without TLS",
    cluster: { server: "http://blue.example.com" },
    place: "clusters[0].cluster.server",
    allowance: "insecure",
  },
  { name: "a password in the server URL", cluster: { server: `https://u:${SECRET}@blue` }, place: "clusters[0].cluster.server" },
  { name: "a server that is not a URL", cluster: { server: SECRET }, place: "clusters[0].cluster.server" },
  ...["127.0.0.1", "127.9.9.9", "localhost", "a.localhost.", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "2130706433", "0x7f.1"].map(
    (host): Row => ({
      name: `loopback as ${host}`,
      cluster: { server: `https://${host}:6443` },
      place: "clusters[0].cluster.server",
      allowance: "loopback",
    }),
  ),
  ...["169.254.169.254", "[fe80::1]", "[fd00:ec2::254]", "[::ffff:169.254.0.1]"].map((host): Row => ({
    name: `link-local as ${host}`,
    cluster: { server: `https://${host}` },
    place: "clusters[0].cluster.server",
    allowance: "link-local",
  })),
];

describe("rejects, in one line with the field and the remedy, and without quoting the file,", () => {
  it.each(REJECTED)("a file with $name", ({ cluster, user, place, allowance }) => {
    const config = parsed(kubeconfigOf({ server: SERVER, ...cluster }, user ?? TOKEN));
    const [problem = "", ...others] = vetKubeconfig(config, new Set());
    expect(problem).toMatch(/^[^\n]+: [^\n]+: [^\n]+$/);
    expect(problem.split(": ")[0]).toBe(place);
    expect([problem, ...others].join()).not.toContain(SECRET);
    const allAllowed = vetKubeconfig(config, new Set(ALLOWANCES));
    expect(allAllowed.length === 0).toBe(allowance !== undefined);
    if (allowance === undefined) return;
    expect(problem).toContain(`--allow ${allowance}`);
    expect(vetKubeconfig(config, new Set([allowance]))).toEqual([]);
    expect(vetKubeconfig(config, new Set(ALLOWANCES.filter((other) => other !== allowance)))).toContain(problem);
  });

  it("a file with an invalid entry that no context uses, because a component may select another context", () => {
    const config = parsed(kubeconfigOf({ server: SERVER }, TOKEN));
    const user = parsed(kubeconfigOf({ server: SERVER }, { exec: { command: "x" } })).users.map((each) => ({ ...each, name: "unused" }));
    expect(vetKubeconfig({ ...config, users: [...config.users, ...user] }, new Set())).toEqual([
      expect.stringMatching(/^users\[1\]\.user\.exec: /),
    ]);
  });

  it("a file with two servers, which could lead one role to another cluster", () => {
    const config = parsed(kubeconfigOf({ server: SERVER }, TOKEN));
    const other = parsed(kubeconfigOf({ server: "https://red.example.com" })).clusters.map((each) => ({ ...each, name: "other" }));
    expect(vetKubeconfig({ ...config, clusters: [...config.clusters, ...other] }, new Set(ALLOWANCES))).toEqual([
      "clusters: has several servers: keep one cluster per file",
    ]);
    expect(vetKubeconfig({ ...config, "current-context": "" }, new Set())).toEqual([expect.stringMatching(/^current-context: /)]);
  });

  it("a host name with a loopback address, even if its other addresses are public", () => {
    expect(addressProblem(["203.0.113.1", "::1"], new Set())).toMatch(
      /^clusters\[0\]\.cluster\.server: resolves to a loopback .*--allow loopback$/,
    );
    expect(addressProblem(["169.254.169.254"], new Set(["loopback"]))).toContain("--allow link-local");
    expect(addressProblem(["203.0.113.1", "10.0.0.1"], new Set())).toBeUndefined();
  });
});

it.each([
  { name: "a token", user: TOKEN },
  { name: "a certificate", user: { "client-certificate-data": "QQ==", "client-key-data": "QQ==" } },
  { name: "a private address", cluster: { server: "https://10.0.0.1:6443" } },
  { name: "a CA", cluster: { "certificate-authority-data": "QQ==", "tls-server-name": "kubernetes" } },
])("accepts $name", ({ cluster, user }) => {
  expect(vetKubeconfig(parsed(kubeconfigOf({ server: SERVER, ...cluster }, user)), new Set())).toEqual([]);
});

describe("the id of a cluster", () => {
  const idOf = (name: string, cluster: Readonly<Record<string, unknown>>, user: object = TOKEN): string =>
    clusterId(name, parsed(kubeconfigOf({ server: SERVER, ...cluster }, user)));
  it("changes with the name, server, CA and tls-server-name", () => {
    const ids = [
      idOf("blue", {}),
      idOf("red", {}),
      idOf("blue", { server: "https://red.example.com" }),
      idOf("blue", { "certificate-authority-data": "QQ==" }),
      idOf("blue", { "tls-server-name": "red" }),
    ];
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids[0]).toMatch(/^[0-9a-f]{32}$/);
  });

  it("stays the same when credentials change, or the server URL is written differently", () => {
    expect(idOf("blue", {}, { token: "another" })).toBe(idOf("blue", {}));
    expect(idOf("blue", { server: "https://BLUE.example.com:6443/" })).toBe(idOf("blue", {}));
  });
});

const cluster = (name: string, cid = name, isPaused = false): ListedCluster => ({
  name,
  cid,
  isPaused,
  server: `https://${name}`,
  kubeconfig: `/${name}`,
});

it.each([
  { name: "no change", before: [cluster("a")], after: [cluster("a")], want: [] },
  { name: "an added cluster", before: [], after: [cluster("a")], want: [["added", "a"]] },
  { name: "a removed cluster", before: [cluster("a")], after: [], want: [["removed", "a"]] },
  { name: "a paused cluster", before: [cluster("a")], after: [cluster("a", "a", true)], want: [["paused", "a"]] },
  { name: "a resumed cluster", before: [cluster("a", "a", true)], after: [cluster("a")], want: [["resumed", "a"]] },
  {
    name: "another server under the same name, as a removed and then an added cluster",
    before: [cluster("a", "1")],
    after: [cluster("a", "2")],
    want: [
      ["removed", "1"],
      ["added", "2"],
    ],
  },
])("reports $name", ({ before, after, want }) => {
  expect(changesBetween(before, after).map(({ kind, cluster: { cid } }) => [kind, cid])).toEqual(want);
});

it("serves a server that is in two files only under the first of their names", () => {
  const server = "https://x:443/";
  expect([...repeatedServers([{ name: "b", server }, { name: "a", server: "https://X" }, cluster("c")])]).toEqual([["b", "a"]]);
});
