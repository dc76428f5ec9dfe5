/**
 * Usage errors of `deltaloop dev FILE`, on a real API server. Catches: an error after something was started, an error without file and
 * line, and an error of more than one line.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { crdManifest } from "../../shared/sdk/definitions.ts";
import { Website } from "../../examples/website/website.ts";
import { deltaloop, eventually, ROOT, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";

const HEAD = `import { customResource, defineController, kind, s, watch } from "${ROOT}/shared/sdk/index.ts";
import { ConfigMap, Deployment, Pod } from "${ROOT}/shared/sdk/kinds.ts";
`;
const controller = (name: string, rest: string): string =>
  `export const ${name.replaceAll(/\W/g, "_")} = defineController({ name: "${name}", ${rest}, sync: () => undefined });\n`;
const SITE = `customResource({ group: "demo.example.com", version: "v1", kind: "Site", spec: s.object({ image: s.string() }) })`;
const CERTIFICATE = `kind()({ group: "cert-manager.io", version: "v1", kind: "Certificate", plural: "certificates", scope: "Namespaced" })`;
const WEBSITE = join(ROOT, "examples/website/website.ts");
const CRD = { name: "websites.demo.example.com", path: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions" };
const ACCOUNT = "deltaloop-sync-website";

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
}

await whereRealPartsAre("mistakes of controllers on a real API server", () => {
  let cluster: Cluster;
  let folder: string;
  beforeAll(async () => {
    cluster = await startCluster({ machines: false });
    folder = await mkdtemp(join(tmpdir(), "deltaloop-own-"));
  });
  afterAll(async () => {
    await cluster?.stop();
    await rm(folder, { recursive: true, force: true });
  });

  /** Runs a command that must exit with 2 before it starts anything, and returns its output lines. */
  async function refused(files: readonly string[], kubeconfig = cluster.plane.adminKubeconfig): Promise<readonly string[]> {
    const command = deltaloop(["dev", ...files, "--act", "--yes", "--kubeconfig", kubeconfig]);
    expect((await command.exited).code, command.output()).toBe(2);
    expect(command.output()).not.toMatch(/ready:|^\s+at /m);
    const writes = (await cluster.audit()).filter(
      ({ verb, userAgent = "" }) => userAgent.includes("sync-") && !["get", "list", "watch"].includes(verb),
    );
    expect(writes).toEqual([]);
    // The function host starts first, because it loads the files.
    const lines = command.output().trim().replaceAll(`${folder}/`, "").split("\n");
    return lines.filter((line) => !line.includes("function host started"));
  }
  const can = (what: string): Promise<string> =>
    // kubectl exits with 1 for "no".
    cluster.kubectl("auth", "can-i", ...what.split(" "), `--as=system:serviceaccount:deltaloop:${ACCOUNT}`).then(
      () => "yes",
      () => "no",
    );
  const file = async (content: string): Promise<string> => {
    const path = join(folder, "c.ts");
    await writeFile(path, content);
    return path;
  };

  it.each([
    {
      what: "a name that is no DNS label",
      text: HEAD + controller("Bad_Name", "for: Pod"),
      want: 'deltaloop: "Bad_Name": `name` must be a DNS label of at most 32 characters: use a-z, 0-9 and - as in "team-guard"',
    },
    {
      what: "the name of a built-in controller",
      text: HEAD + controller("replicaset", "for: Pod"),
      want: 'deltaloop: "replicaset": the name is taken by another controller: choose another one',
    },
    {
      what: "two controllers with one name",
      text: `${HEAD}${controller("twice", "for: Pod")}${controller("twice", "for: Deployment").replace("const twice", "const other")}`,
      want: 'deltaloop: "twice": the name is taken by another controller: choose another one',
    },
    {
      what: "a file without a controller",
      text: "export const a = 1;\n",
      want: "deltaloop: c.ts: exports no controller: export what defineController returns",
    },
    { what: "a syntax error", text: `${HEAD}const a = ;\n`, want: /^deltaloop: c\.ts:3: does not load: / },
    { what: "code that throws", text: `${HEAD}\nthrow new Error("no");\n`, want: "deltaloop: c.ts:4:7: does not load: no" },
    {
      what: "code that never ends",
      text: "for (;;) {}\n",
      want: "deltaloop: c.ts: does not load within 5 s: move slow work into `sync`",
    },
    {
      what: "a kind that the cluster lacks",
      text: HEAD + controller("c", `for: ${CERTIFICATE}`),
      want: "deltaloop: the cluster lacks the kind Certificate (certificates.cert-manager.io, v1): install its CRD, or correct the declaration",
    },
    {
      what: "a custom resource that the cluster lacks",
      text: HEAD + controller("c", `for: ${SITE}`),
      want: "deltaloop: the cluster lacks the kind Site (sites.demo.example.com, v1): apply what `deltaloop manifests FILE` prints",
    },
    {
      what: "a path in `where` that the schema lacks",
      text: HEAD + controller("c", `for: ${SITE}, where: { fields: { "spec.imag": ["a"] } }`),
      want: "deltaloop: c: `where.fields` has the path spec.imag, which the schema of Site lacks: correct it, or add it to the schema",
    },
    {
      what: "a path in `see` that the schema lacks",
      text: HEAD + controller("c", `for: ${SITE}, see: { spec: { imag: true } }`),
      want: "deltaloop: c: `see` has the path spec.imag, which the schema of Site lacks: correct it, or add it to the schema",
    },
    {
      what: "data of a ConfigMap in a mapping",
      text: HEAD + controller("c", `for: Pod, watches: [watch(ConfigMap, { by: { name: "same" }, see: { data: true } })]`),
      want: "deltaloop: c: `watches of ConfigMap` shows only the metadata of a ConfigMap: read its data by `live`",
    },
    {
      what: "a mapping that names no key",
      text: HEAD + controller("c", `for: Pod, watches: [watch(ConfigMap, { by: { label: "no key" } })]`),
      want: 'deltaloop: c: `watches of ConfigMap: label` has "no key", which is not a valid key: use one as in "example.com/team"',
    },
  ])("reports $what in one line, and starts nothing", async ({ text, want }) => {
    expect(await refused([await file(text)])).toEqual([typeof want === "string" ? want : expect.stringMatching(want)]);
  });

  describe("with a CRD that the cluster already has", () => {
    beforeAll(async () => {
      const crd = JSON.stringify(crdManifest(Website.data)).replace('"minimum":0,', '"minimum":1,');
      await cluster.client.request("POST", CRD.path, JSON.parse(crd) as object);
      await eventually("Websites are served", () => cluster.client.list("/apis/demo.example.com/v1/websites").then(() => true));
    });

    it("reports the fields in which its CRD differs", async () => {
      expect(await refused([WEBSITE])).toEqual([
        "deltaloop: the CRD websites.demo.example.com differs from Website in spec.replicas.minimum: apply what `deltaloop manifests FILE` prints",
      ]);
    });

    describe("with the service account that `manifests` prints", () => {
      let kubeconfig: string;
      beforeAll(async () => {
        await cluster.client.request("DELETE", `${CRD.path}/${CRD.name}`);
        const printed = deltaloop(["manifests", WEBSITE]);
        await printed.exited;
        const path = join(folder, "manifests.yaml");
        await writeFile(path, printed.output());
        await eventually("another CRD", () => cluster.kubectl("apply", "-f", path));
        await eventually("Websites are served", () => cluster.client.list("/apis/demo.example.com/v1/websites").then(() => true));
        kubeconfig = await cluster.plane.serviceAccountKubeconfig("deltaloop", ACCOUNT);
      });

      it("starts without --yes", async () => {
        const running = deltaloop(["dev", WEBSITE, "--act", "--kubeconfig", kubeconfig]);
        try {
          expect(await running.line("ready: ")).toContain("mode act");
        } finally {
          await running.stop();
        }
      });

      it("reports verb and resource of a lost permission", async () => {
        const path = `/apis/rbac.authorization.k8s.io/v1/clusterroles/${ACCOUNT}`;
        const { rules } = (await cluster.get<{ readonly rules: readonly Rule[] }>(path)) ?? expect.fail("no ClusterRole");
        const fewer = rules.map((rule) =>
          rule.resources.includes("services") ? { ...rule, verbs: rule.verbs.filter((verb) => verb !== "create") } : rule,
        );
        await cluster.client.request("PATCH", path, { rules: fewer }, "application/merge-patch+json");
        await eventually("it is lost", async () => (await can("create services")) === "no");
        expect(await refused([WEBSITE], kubeconfig)).toEqual([
          "deltaloop: missing permission: create services: grant what `deltaloop manifests FILE` prints",
        ]);
      });
    });
  });
});
