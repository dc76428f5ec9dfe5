/**
 * Manifests and writes of user controllers on a real API server. Catches: a CRD or role that it refuses, a right that is missing, and a
 * create whose fields stay when the code drops them.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { upgradePatch } from "../../shared/sdk/writes.ts";
import type { ObjectBody } from "../../shared/sdk/writes.ts";
import { deltaloop, eventually, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";

const MANAGER = "deltaloop-site";
const FILES = ["website", "team-guard", "pull-secret", "scheduled-scaler", "pod-janitor"].map((name) => `examples/controllers/${name}.ts`);

await whereRealPartsAre("user controllers on a real API server", () => {
  let cluster: Cluster;
  let folder: string;
  beforeAll(async () => {
    cluster = await startCluster();
    folder = await mkdtemp(join(tmpdir(), "deltaloop-own-"));
  });
  afterAll(async () => {
    await cluster?.stop();
    await rm(folder, { recursive: true });
  });

  async function fileOf(name: string, content: string): Promise<string> {
    const path = join(folder, name);
    await writeFile(path, content);
    return path;
  }

  describe("deltaloop manifests", () => {
    beforeAll(async () => {
      const printed = deltaloop(["manifests", ...FILES]);
      expect((await printed.exited).code, printed.output()).toBe(0);
      const path = await fileOf("manifests.yaml", printed.output());
      await cluster.kubectl("create", "namespace", "registry");
      await cluster.kubectl("apply", "-f", path);
    });

    it("prints a CRD with defaults, validation and printer columns that the API server applies", async () => {
      const site = { apiVersion: "demo.example.com/v1", kind: "Website", metadata: { name: "a", namespace: "default" } };
      const path = await fileOf("site.json", JSON.stringify({ ...site, spec: { image: "nginx" } }));
      await eventually("the kind is served", async () => await cluster.kubectl("apply", "-f", path));
      expect(await cluster.kubectl("get", "websites", "a", "-o", "jsonpath={.spec}")).toBe('{"image":"nginx","replicas":1}');
      await cluster.kubectl("patch", "website", "a", "--subresource=status", "--type=merge", "-p", '{"status":{"ready":2}}');
      expect(await cluster.kubectl("get", "websites")).toMatch(/^NAME\s+READY\s+AGE\na\s+2\s/);
      const wrong = await fileOf("wrong.json", JSON.stringify({ ...site, spec: { image: "nginx", replicas: -1 } }));
      await expect(cluster.kubectl("apply", "-f", wrong)).rejects.toThrow("should be greater than or equal to 0");
    });

    it.each([
      { can: "create deployments", as: "website", want: "yes" },
      { can: "patch websites --subresource=status", as: "website", want: "yes" },
      { can: "update websites --subresource=finalizers", as: "website", want: "yes" },
      { can: "create secrets", as: "website", want: "no" },
      { can: "delete namespaces", as: "website", want: "no" },
      { can: "create networkpolicies", as: "team-guard", want: "yes" },
      { can: "get secrets/pull -n registry", as: "pull-secret", want: "yes" },
      { can: "list configmaps", as: "pull-secret", want: "no" },
      { can: "patch deployments", as: "scheduled-scaler", want: "yes" },
      { can: "delete pods", as: "pod-janitor", want: "yes" },
      { can: "create pods", as: "pod-janitor", want: "no" },
    ])("lets $as $can: $want", async ({ can, as, want }) => {
      const user = `--as=system:serviceaccount:deltaloop:deltaloop-sync-${as}`;
      // kubectl exits with 1 for a no.
      const answer = await cluster.kubectl("auth", "can-i", ...can.split(" "), user).catch((error: unknown) => String(error));
      expect(answer.startsWith("yes") ? "yes" : /exit 1: (?:Warning: .*)?$/s.test(answer) ? "no" : answer).toBe(want);
    });
  });

  describe.each([
    {
      kind: "ConfigMap",
      apiVersion: "v1",
      field: { data: { a: "1", b: "2" } },
      less: { data: { a: "1" } },
      path: "{.data}",
      want: '{"a":"1"}',
    },
    {
      kind: "Service",
      apiVersion: "v1",
      field: { spec: { ports: [{ port: 80 }], selector: { app: "a", tier: "b" } } },
      less: { spec: { ports: [{ port: 80 }], selector: { app: "a" } } },
      path: "{.spec.selector}",
      want: '{"app":"a"}',
    },
  ])("a $kind that was created by POST", ({ kind, apiVersion, field, less, path, want }) => {
    const name = "created";
    const metadata = { name, namespace: "default" };
    const resource = `${kind.toLowerCase()}/${name}`;
    const applied = (file: string, object: object) =>
      fileOf(file, JSON.stringify({ apiVersion, kind, metadata, ...object })).then((at) =>
        cluster.kubectl("apply", "--server-side", `--field-manager=${MANAGER}`, "-f", at),
      );
    const stored = async (): Promise<ObjectBody> =>
      JSON.parse(await cluster.kubectl("get", resource, "-o", "json", "--show-managed-fields")) as ObjectBody; // as kubectl prints it

    it("loses a field that the code no longer sets, once its managedFields entry has operation Apply", async () => {
      const at = await fileOf("created.json", JSON.stringify({ apiVersion, kind, metadata, ...field }));
      await cluster.kubectl("create", `--field-manager=${MANAGER}`, "-f", at);
      const patch = upgradePatch(await stored(), MANAGER);
      expect(patch).toBeDefined();
      await cluster.kubectl("patch", resource, "--type=json", `--field-manager=${MANAGER}`, "-p", JSON.stringify(patch));
      expect(upgradePatch(await stored(), MANAGER)).toBeUndefined();
      await applied("less.json", less);
      expect(await cluster.kubectl("get", resource, "-o", `jsonpath=${path}`)).toBe(want);
    });

    it("is not recreated by an apply with the uid of the deleted object", async () => {
      const { uid } = (await stored()).metadata;
      await cluster.kubectl("delete", resource);
      await expect(applied("late.json", { ...less, metadata: { ...metadata, uid } })).rejects.toThrow("uid mismatch");
    });
  });
});
