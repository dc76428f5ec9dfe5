/**
 * User controllers on a real API server. Catches: a CRD or role that the API server rejects, a missing right, a field that remains after
 * the code has dropped it, an unnecessary request, and a change of another owner's object.
 */
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { upgradePatch } from "../../shared/sdk/writes.ts";
import type { ObjectBody } from "../../shared/sdk/writes.ts";
import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { deltaloop, eventually, ROOT, startCluster, whereRealPartsAre } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";

const MANAGER = "deltaloop-site";
const FILES = ["website", "team-guard", "pull-secret", "scheduled-scaler", "pod-janitor"].map((name) => `examples/${name}/${name}.ts`);

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
    ])("kubectl auth can-i $can as $as: $want", async ({ can, as, want }) => {
      const user = `--as=system:serviceaccount:deltaloop:deltaloop-sync-${as}`;
      // `kubectl auth can-i` exits with 1 for "no".
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
      JSON.parse(await cluster.kubectl("get", resource, "-o", "json", "--show-managed-fields")) as ObjectBody; // JSON printed by kubectl

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

  describe("deltaloop dev FILE", () => {
    const SITE = "websites.demo.example.com";
    /** A copy of the example with fields that the test can drop, and with a sync that can hang. */
    const labels = "{ app: name, ...(EXTRA ? { extra: EXTRA } : {}) }";
    const code = (extra: string): Promise<string> =>
      readFile(join(ROOT, "examples/website/website.ts"), "utf8").then((text) =>
        fileOf(
          "site.ts",
          text
            .replace("const labels = { app: name };", `const EXTRA = ${JSON.stringify(extra)}; const labels = { app: name };`)
            .replace("Service({ metadata: { name }", `Service({ metadata: { name, labels: ${labels} }`)
            .replace("apply: [deployment, service]", 'apply: image === "alone" ? [deployment] : [deployment, service]')
            .replaceAll('"deltaloop/kinds"', JSON.stringify(join(ROOT, "shared/sdk/kinds.ts")))
            .replaceAll('"deltaloop"', JSON.stringify(join(ROOT, "shared/sdk/index.ts")))
            .replace(
              "  sync({ object, owned, condition }) {",
              '  async sync({ object, owned, condition }) {\n    if (object.spec.image === "slow") await new Promise((end) => setTimeout(end, 3_000));',
            ),
        ),
      );
    const started: ReturnType<typeof deltaloop>[] = [];
    async function dev(path: string, ...flags: readonly string[]) {
      const running = deltaloop(["dev", path, "--kubeconfig", cluster.plane.adminKubeconfig, ...flags]);
      started.push(running);
      await eventually("ready", () => running.output().includes("ready: "));
      return running;
    }
    const stop = async (running: ReturnType<typeof deltaloop>): Promise<void> => {
      process.kill(running.pid, "SIGTERM");
      await running.exited;
    };
    afterAll(async () => {
      for (const { pid, exited } of started)
        if ((await Promise.race([exited, Promise.resolve(undefined)])) === undefined) process.kill(pid, "SIGKILL");
    });
    const site = (name: string, spec: object = { image: "nginx" }) =>
      cluster.apply({ apiVersion: "demo.example.com/v1", kind: "Website", metadata: { name, namespace: "default" }, spec });
    const field = (of: string, path: string): Promise<string> => cluster.kubectl("get", of, "-o", `jsonpath={${path}}`);
    const writesOf = async (): Promise<readonly string[]> =>
      (await cluster.audit()).flatMap(({ verb, userAgent = "", requestURI, objectRef }) =>
        userAgent.includes("sync-website") && !["get", "list", "watch"].includes(verb)
          ? [`${verb} ${objectRef?.resource} ${requestURI}`]
          : [],
      );

    it("prints in shadow mode each write with its reason, and sends nothing", async () => {
      await site("shown");
      await cluster.kubectl("create", "service", "clusterip", "held", "--tcp=80");
      await site("held");
      const running = await dev(await code(""));
      await eventually("a line", () => running.output().includes("would create Deployment default/shown (missing)"));
      expect(running.output()).toContain("create Service default/shown (missing), status (desired state changed)");
      const taken = "NameTaken: Service default/held exists and has no controller: delete or rename it";
      await eventually("a blocked write", () => running.output().includes(`blocked: create Service default/held (${taken})`));
      await stop(running);
      expect(await writesOf()).toEqual([]);
      await cluster.kubectl("delete", SITE, "shown", "held");
      await cluster.kubectl("delete", "service", "held");
    });

    it("refuses credentials of a cluster-admin without --yes, and prints what it would write", async () => {
      const refused = deltaloop(["dev", await code(""), "--act", "--kubeconfig", cluster.plane.adminKubeconfig]);
      expect((await refused.exited).code).toBe(2);
      expect(refused.output()).toContain("website may: create, patch, delete deployments.apps");
      expect(refused.output()).toMatch(/these credentials may do everything.*--yes/);
    });

    describe("--act", () => {
      let running: ReturnType<typeof deltaloop>;
      beforeAll(async () => {
        running = await dev(await code("old"), "--act", "--yes");
      });
      // It also loads each saved file, and would write beside the process of a later test.
      afterAll(async () => await stop(running));
      const settled = async (key: string): Promise<void> =>
        void (await eventually(`${key} is settled`, () => {
          const lines = running
            .output()
            .split("\n")
            .filter((line) => line.includes(` ${key} `));
          return /→ nothing/.test(lines.at(-1) ?? "");
        }));

      it("creates the desired objects of a primary, and reports them in the status", async () => {
        await site("a");
        await eventually(
          "both objects",
          async () => (await field("deployment/a", ".spec.replicas")) === "1" && (await field("service/a", ".spec.selector.app")) === "a",
        );
        await eventually("the status", async () => (await field("website/a", ".status.conditions[0].reason")) === "Replicas");
        expect(await field("service/a", ".metadata.ownerReferences[0].kind")).toBe("Website");
      });

      it("reverts an edit of its own field, and leaves a field of another manager", async () => {
        await cluster.kubectl(
          "patch",
          "deployment",
          "a",
          "--type=merge",
          "-p",
          '{"spec":{"replicas":7},"metadata":{"annotations":{"mine":"yes"}}}',
        );
        await eventually("the replicas", async () => (await field("deployment/a", ".spec.replicas")) === "1");
        expect(await field("deployment/a", ".metadata.annotations.mine")).toBe("yes");
      });

      it("recreates a deleted Service", async () => {
        const uid = await field("service/a", ".metadata.uid");
        await cluster.kubectl("delete", "service", "a");
        await eventually("another Service", async () => ![uid, ""].includes(await field("service/a", ".metadata.uid").catch(() => "")));
      });

      it("applies a change of the primary", async () => {
        await cluster.kubectl("patch", SITE, "a", "--type=merge", "-p", '{"spec":{"replicas":2}}');
        await eventually("two replicas", async () => (await field("deployment/a", ".spec.replicas")) === "2");
      });

      it("sends nothing in a sync whose objects already have the desired state", async () => {
        await settled("default/a");
        const before = (await writesOf()).length;
        const lines = running.output().split("\n").length;
        // Sets a status field of an owned object that no schema of the controller contains: the key is synced and needs no write.
        await cluster.kubectl(
          "patch",
          "deployment",
          "a",
          "--subresource=status",
          "--type=merge",
          "-p",
          '{"status":{"observedGeneration":99}}',
        );
        await eventually("a sync", () => running.output().split("\n").length > lines);
        await settled("default/a");
        expect((await writesOf()).slice(before)).toEqual([]);
      });

      it("does not touch an object whose name is taken, reports it, and continues once the name is free", async () => {
        await cluster.kubectl("create", "service", "clusterip", "taken", "--tcp=80");
        const before = await field("service/taken", ".metadata.resourceVersion");
        await site("taken");
        await eventually("the Event", async () => (await cluster.kubectl("get", "events")).includes("NameTaken"));
        await eventually(
          "the condition",
          async () => (await field("website/taken", '.status.conditions[?(@.type=="Applied")].status')) === "False",
        );
        expect(await field("service/taken", ".metadata.resourceVersion")).toBe(before);
        await cluster.kubectl("delete", "service", "taken");
        await eventually(
          "its own Service",
          async () => (await field("service/taken", ".metadata.ownerReferences[0].name").catch(() => "")) === "taken",
        );
        await eventually(
          "no condition",
          async () => (await field("website/taken", '.status.conditions[?(@.type=="Applied")].status')) === "",
        );
      });

      it("reaches the same state when its function host is killed in the middle of a sync", async () => {
        await site("killed", { image: "slow" });
        const pid = Number(/function host started pid=(\d+)/.exec(running.output())?.[1]);
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        process.kill(pid, "SIGKILL");
        await eventually("the failure", () => running.output().includes("the function host exited (SIGKILL)"));
        await eventually("both objects", async () =>
          (await cluster.kubectl("get", "deployment/killed", "service/killed", "-o", "name")).includes("service/killed"),
        );
      });

      it("prunes objects that are no longer desired, and nothing else", async () => {
        await site("alone");
        await eventually("its Service", async () => (await cluster.kubectl("get", "services", "-o", "name")).includes("service/alone"));
        await cluster.kubectl("patch", SITE, "alone", "--type=merge", "-p", '{"spec":{"image":"alone"}}');
        await eventually("no Service", async () => !(await cluster.kubectl("get", "services", "-o", "name")).includes("service/alone"));
        expect(await field("deployment/alone", ".metadata.name")).toBe("alone");
        expect(running.output()).toContain("prune Service default/alone (no longer desired)");
        await settled("default/alone");
      });

      it("removes a field that the code no longer sets, even if a killed process created the object", async () => {
        expect(await field("service/a", ".metadata.labels.extra")).toBe("old");
        await site("between");
        await eventually("one object", async () => (await field("deployment/between", ".metadata.name").catch(() => "")) !== "");
        process.kill(running.pid, "SIGKILL");
        await running.exited;
        running = await dev(await code(""), "--act", "--yes");
        await eventually(
          "no label",
          async () =>
            (await field("service/a", ".metadata.labels.extra")) === "" && (await field("service/a", ".metadata.labels.app")) === "a",
        );
        await eventually(
          "the Service",
          async () => (await field("service/between", ".metadata.ownerReferences[0].name").catch(() => "")) === "between",
        );
        await settled("default/between");
        const creates = (await writesOf()).filter((write) => write.startsWith("create ") && !write.includes("events"));
        expect(new Set(creates.map((write) => write.split(" ")[1]))).toEqual(new Set(["deployments", "services"]));
      });

      it("leaves the deletion of owned objects to the garbage collector", async () => {
        await cluster.kubectl("delete", SITE, "a");
        await eventually(
          "neither",
          async () =>
            (await cluster.kubectl("get", "deployments,services", "-l", "app=a", "-o", "name")) === "" &&
            (await field("deployment/a", ".metadata.name").catch(() => "gone")) === "gone",
        );
        expect(running.output()).not.toContain("sync failed");
      });
    });

    it("never applies the result of older code after that of newer code, while saves change code and definitions", async () => {
      const version = async (n: number): Promise<string> => {
        const path = await code(`v${n}`);
        // Changes the definition back and forth.
        await writeFile(path, (await readFile(path, "utf8")).replace("for: Website,", `for: Website, concurrency: ${1 + (n >> 1)},`));
        return path;
      };
      const running = await dev(await version(0), "--act", "--yes");
      const names = Array.from({ length: 8 }, (_, i) => `roll-${i}`);
      for (const name of names) await site(name);
      const binaries = await controlPlaneBinaries();
      if ("missing" in binaries) throw new Error(binaries.missing);
      const columns = '{.metadata.name} {.metadata.labels.extra}{"\\n"}';
      const watch = spawn(binaries.kubectl, ["get", "services", "-w", "-o", `jsonpath=${columns}`], {
        env: { ...process.env, KUBECONFIG: cluster.plane.adminKubeconfig },
        stdio: ["ignore", "pipe", "inherit"],
      });
      let seen = "";
      watch.stdout.setEncoding("utf8").on("data", (text: string) => (seen += text));
      const last = 6;
      try {
        await eventually("all Services", () => names.every((name) => seen.includes(`${name} v0`)));
        for (let n = 1; n <= last; n++) {
          await version(n);
          await eventually(`version ${n}`, () => seen.includes(` v${n}`));
        }
        await eventually("the last version everywhere", () => names.every((name) => seen.includes(`${name} v${last}`)));
      } finally {
        watch.kill();
        await stop(running);
      }
      for (const name of names) {
        const versions = [...seen.matchAll(new RegExp(`^${name} v(\\d)$`, "gm"))].map(([, n]) => Number(n));
        expect(versions, name).toEqual(versions.toSorted());
        expect(versions.length, name).toBeGreaterThan(1);
      }
      expect(running.output()).toContain("loaded with changed definitions");
      expect(running.output()).toMatch(/saved: loaded in \d+ ms, \d+ keys requeued/);
      await cluster.kubectl("delete", SITE, ...names);
    });

    it("--built-in: runs the built-in controllers as well, so that a Website becomes ready", async () => {
      const running = await dev(await code(""), "--act", "--yes", "--built-in", "--lease-namespace", "kube-system");
      await running.line("ready: cache synced");
      await site("whole", { image: "nginx", replicas: 2 });
      await eventually(
        "it is ready",
        async () => (await field("website/whole", ".status.conditions[0].message").catch(() => "")) === "2/2",
      );
      await stop(running);
    });

    it("runs the other examples: a cluster-scoped primary, live reads, fields of the primary, and objects that leave `where`", async () => {
      const files = ["team-guard", "pull-secret", "scheduled-scaler"].map((name) => `examples/${name}/${name}.ts`);
      const running = deltaloop(["dev", ...files, "--act", "--yes", "--kubeconfig", cluster.plane.adminKubeconfig]);
      started.push(running);
      await eventually("ready", () => running.output().includes("ready: "));
      const namespace = (labels: object) => cluster.apply({ apiVersion: "v1", kind: "Namespace", metadata: { name: "team", labels } });
      await cluster.kubectl("create", "secret", "generic", "pull", "-n", "registry", "--from-literal=key=CANARY-1");
      await namespace({ "example.com/team": "a", "example.com/pulls": "yes" });
      await eventually("three objects", async () =>
        (await cluster.kubectl("get", "networkpolicy/deny", "resourcequota/team", "secret/pull", "-n", "team", "-o", "name")).includes(
          "secret/pull",
        ),
      );
      await cluster.kubectl("delete", "secret", "pull", "-n", "registry");
      await cluster.kubectl("create", "secret", "generic", "pull", "-n", "registry", "--from-literal=key=CANARY-2");
      const copied = async () =>
        Buffer.from(await cluster.kubectl("get", "secret", "pull", "-n", "team", "-o", "jsonpath={.data.key}"), "base64").toString();
      await eventually("the new value", async () => (await copied()) === "CANARY-2");
      await cluster.kubectl("label", "namespace", "team", "example.com/team-");
      await eventually(
        "no quota",
        async () => !(await cluster.kubectl("get", "resourcequota", "-n", "team", "-o", "name")).includes("quota/team"),
      );
      expect(await copied()).toBe("CANARY-2");
      expect(running.output()).not.toContain("CANARY");

      const template = { metadata: { labels: { app: "timed" } }, spec: { containers: [{ name: "c", image: "i" }] } };
      const metadata = { name: "timed", namespace: "default", annotations: { "example.com/replicas": "00:00=4" } };
      await cluster.apply({
        apiVersion: "apps/v1",
        kind: "Deployment",
        metadata,
        spec: { replicas: 1, selector: { matchLabels: { app: "timed" } }, template },
      });
      await eventually("four replicas", async () => (await field("deployment/timed", ".spec.replicas")) === "4");
      await cluster.kubectl("annotate", "deployment", "timed", "example.com/replicas-");
      await eventually(
        "no entry of its manager",
        async () =>
          !(await cluster.kubectl("get", "deployment", "timed", "-o", "yaml", "--show-managed-fields")).includes(
            "deltaloop-scheduled-scaler",
          ),
      );
      expect(await field("deployment/timed", ".spec.replicas")).toBe("4");
      await stop(running);
      expect(running.output()).not.toContain("sync failed");
    });
  });
});
