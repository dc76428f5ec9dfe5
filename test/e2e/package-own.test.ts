/**
 * A user controller, created from the tarball in an empty folder as a new user would. Catches: an entry point or type that is missing from
 * the tarball, a project that does not install, test or run, an edit that is not reverted, and a saved file that is not run or stops the
 * old code.
 */
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { controlPlaneBinaries } from "../envtest/binaries.ts";
import { eventually, measured, ROOT } from "../support/e2e.ts";
import { packInto, runLine, startLine, userEnvironment } from "../support/packed.ts";
import type { Started } from "../support/packed.ts";
import { blocksOf, isQuoted, runPage } from "../support/pages.ts";

/** Limit in ms from a save to the write of the new code. If the key waited for the sweeper or for its back-off, it would take longer. */
const REPAIRED_MS_MAX = 3_000;
const CODE = "website.ts";

let scratch: string;
let tarball: string;
let project: string;
let bin: string;
beforeAll(async () => {
  scratch = await mkdtemp(join(tmpdir(), "deltaloop-own-"));
  const binaries = await controlPlaneBinaries();
  if ("missing" in binaries) throw new Error(binaries.missing);
  bin = join(scratch, "bin");
  await mkdir(bin);
  await symlink(binaries.kubectl, join(bin, "kubectl"));
  tarball = await packInto(scratch);
  const folder = join(scratch, "empty");
  await mkdir(folder);
  project = join(folder, "a");
});
afterAll(() => rm(scratch, { recursive: true, force: true }));

const run = (cwd: string, line: string, more: Readonly<Record<string, string>> = {}): Promise<string> =>
  runLine(cwd, line, { ...userEnvironment(bin), ...more });

describe("the tarball", () => {
  it("installs in an empty folder without a warning", async () => {
    expect(await run(dirname(project), `npm install --no-audit --no-fund ${tarball}`)).not.toMatch(/warn/i);
  });

  it("creates a project that depends on it, and refuses a folder that is not empty", async () => {
    expect(await run(dirname(project), "npx deltaloop init a")).toContain("cd a && npm install && npm test");
    const { dependencies } = JSON.parse(await readFile(join(project, "package.json"), "utf8")) as { readonly dependencies: object };
    expect(dependencies).toEqual({ deltaloop: expect.stringMatching(/^file:\.\.\/\.\.\/deltaloop-.*\.tgz$/) as string });
    await expect(run(dirname(project), "npx deltaloop init a")).rejects.toThrow(
      /exit 2: deltaloop: a is not empty: it holds \.gitignore, /,
    );
    await expect(run(dirname(project), "npx deltaloop init My_Site")).rejects.toThrow(/exit 2: .*"My_Site" cannot be the name/);
  });

  it("has types that need no other package, and JavaScript for Node", async () => {
    const alone = join(scratch, "types");
    await mkdir(alone);
    await cp(join(project, CODE), join(alone, CODE));
    await mkdir(join(alone, "node_modules", "deltaloop"), { recursive: true });
    await run(alone, `tar -xzf ${tarball} -C node_modules/deltaloop --strip-components=1`);
    await writeFile(join(alone, "package.json"), '{ "type": "module" }');
    const compilerOptions = {
      target: "es2024",
      module: "nodenext",
      types: [],
      noEmit: true,
      strict: true,
      exactOptionalPropertyTypes: true,
    };
    await writeFile(join(alone, "tsconfig.json"), JSON.stringify({ compilerOptions, files: [CODE] }));
    expect(await run(alone, `node ${join(ROOT, "node_modules/typescript/bin/tsc")}`)).toBe("");
    const printed = await run(alone, `node --input-type=module --eval 'console.log(Object.keys(await import("./${CODE}")).join())'`);
    expect(printed.trim()).toBe("Website,website");
  });
});

it("an example installs, type-checks and runs in a checkout that was never built", { timeout: 300_000 }, async () => {
  const page = `\`\`\`sh slow
npm --prefix examples/team-guard install --silent --no-package-lock
npm --prefix examples/team-guard run --silent types
\`\`\`
\`\`\`sh slow background
npm --prefix examples/team-guard run dev
\`\`\`
\`\`\`output ctrl-c
…
ready: … s, mode act
…
\`\`\`
`;
  for (const { want, got } of await runPage(blocksOf("an example", page), ["slow"])) expect(isQuoted(want, got) ? want : got).toBe(want);
});

it("the README's commands do what they say, in a checkout that was never built", { timeout: 300_000 }, async () => {
  const section = /^## Write your own\n[\s\S]*?(?=^## )/m.exec(await readFile(join(ROOT, "README.md"), "utf8"))?.[0] ?? "";
  expect(section.split("\n").length).toBeLessThanOrEqual(40);
  expect(section).toContain("Run `npm pack` in the checkout.");
  const lines = (/```sh\n([\s\S]*?)```/.exec(section)?.[1] ?? "").trim().split("\n");
  const commands = lines.map((line) => line.replace(/ +#.*$/, ""));
  const dev = commands.findIndex((command) => command.includes("deltaloop dev"));
  const block = (info: string, ...text: readonly string[]): string => ["```" + info, ...text, "```", ""].join("\n");
  // A reader types the next command later.
  const isReady = "kubectl wait website/a --for=jsonpath={.status.ready}=2 --timeout=60s";
  const page = [
    block("sh slow", "npm pack --silent"),
    block("sh slow", "mkdir mine && cd mine", ...commands.slice(0, dev), "cd ../.."),
    block("sh slow background", `bash -c 'cd mine/a && exec ${commands[dev] ?? ""}'`),
    block(
      "sh slow",
      "cd mine/a && export KUBECONFIG=$PWD/.deltaloop/kubeconfig",
      ...commands.slice(dev + 1).flatMap((command) => [command, isReady]),
      "cd ../..",
    ),
    block("sh slow", "kubectl wait deploy/a --for=jsonpath={.spec.replicas}=2 --timeout=20s"),
    block("output", "deployment.apps/a condition met"),
    block("output ctrl-c", "…", "… website default/a   Deployment default/a changed → apply Deployment default/a …", "…"),
  ].join("\n");
  const quotations = await runPage(blocksOf("README.md", page), ["slow"], {}, { kubectl: join(bin, "kubectl") });
  for (const { want, got } of quotations) expect(isQuoted(want, got) ? want : got).toBe(want);
});

describe("the project", () => {
  it("installs, type-checks and passes its tests", async () => {
    expect(await run(project, "npm install --no-audit --no-fund")).not.toMatch(/warn/i);
    await run(project, "npm run -s types");
    const startedMs = performance.now();
    expect(await run(project, "npm test")).toMatch(/pass 3\b[\s\S]*fail 0\b/);
    measured(`npm test of the project: ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
  });

  describe("npx deltaloop dev", () => {
    let dev: Started;
    const output = (): string => dev.output();
    const kubectl = (line: string): Promise<string> =>
      run(project, `kubectl ${line}`, { KUBECONFIG: join(project, ".deltaloop", "kubeconfig") });
    const save = async (...changes: readonly (readonly [from: string, to: string])[]): Promise<void> => {
      let text = await readFile(join(project, CODE), "utf8");
      for (const [from, to] of changes) {
        expect(text).toContain(from);
        text = text.replace(from, to);
      }
      await writeFile(join(project, CODE), text);
    };
    /** Another process of the same project. */
    const beside = (line: string) => startLine(project, `npx deltaloop ${line}`, userEnvironment(bin));
    /** The lines that were printed after this call. */
    const later = (): (() => string) => {
      const from = output().length;
      return () => output().slice(from);
    };
    beforeAll(async () => {
      dev = beside(`dev ${CODE}`);
      await eventually("ready", () => /^ready: /m.test(output()));
    });
    afterAll(() => dev?.stop("SIGTERM"));

    it("prints its kubeconfig, and reconciles a Website until it is ready", async () => {
      expect(output()).toContain(`export KUBECONFIG=${join(project, ".deltaloop", "kubeconfig")}`);
      await kubectl("apply -f website.yaml");
      await eventually("READY is 2", async () => /^a +2 /m.test(await kubectl("get website")));
      expect(output()).toMatch(/website default\/a {3}created → create Deployment default\/a \(missing\), create Service default\/a/);
      expect(await kubectl("get deploy,svc -o name")).toBe("deployment.apps/a\nservice/a\n");
    });

    it("reverts an edit of its field, keeps an edit of another field, and recreates a deleted Service", async () => {
      await kubectl("scale deploy/a --replicas=9");
      await eventually("2 replicas", async () => (await kubectl("get deploy/a -o jsonpath={.spec.replicas}")) === "2");
      await kubectl("annotate deploy/a x=y");
      await kubectl("delete svc/a");
      await eventually("a Service", async () => (await kubectl("get svc -o name")) === "service/a\n");
      expect(await kubectl("get deploy/a -o jsonpath={.metadata.annotations.x}")).toBe("y");
    });

    it("a second instance in the same folder uses its own kubeconfig and API server, and leaves those of the first unchanged", async () => {
      const other = beside("dev website.ts");
      await eventually("ready", () => /^ready: /m.test(other.output()));
      expect(other.output()).toContain(`export KUBECONFIG=${join(project, ".deltaloop", "kubeconfig-2")}\n`);
      await other.stop();
      expect(await readdir(join(project, ".deltaloop"))).toEqual(["kubeconfig"]);
      expect(await kubectl("get svc -o name")).toBe("service/a\n");
    });

    it("a second instance in shadow mode on the same API server prints that the last writes are unknown", async () => {
      const other = beside("dev website.ts --kubeconfig .deltaloop/kubeconfig");
      const writes =
        "apply Deployment default/a (last write unknown), apply Service default/a (last write unknown), status (last write unknown)";
      await eventually("a line", () => other.output().includes(`→ would ${writes}`));
      expect(other.output()).toMatch(/ website default\/a {3}listed, /);
      await other.stop();
    });

    it("reports a saved syntax error with its line, and the old code keeps running", async () => {
      const printed = later();
      await save(["const labels = ", "const labels = = "]);
      await eventually("the report", () => /website\.ts:\d+: does not load: .*; the old code keeps running\n/.test(printed()));
      await kubectl("delete svc/a");
      await eventually("a Service", async () => (await kubectl("get svc -o name")) === "service/a\n");
    });

    it("runs saved code", async () => {
      const startedMs = performance.now();
      await save(["const labels = = ", "const labels = "]);
      await save(["port: 80,", "port: 81,"]);
      await eventually("port 81", async () => (await kubectl("get svc/a -o jsonpath={.spec.ports[0].port}")) === "81");
      measured(`save to changed object: ${((performance.now() - startedMs) / 1_000).toFixed(2)} s`);
    });

    it("runs changed definitions: updates the CRD, and does not write objects in the desired state again", async () => {
      const printed = later();
      await save(["s.object({ image: s.string(),", "s.object({ note: s.string().optional(), image: s.string(),"]);
      await eventually("the new definition", () => printed().includes("loaded with changed definitions"));
      await eventually("a sync", () => printed().includes("website.ts saved → "));
      expect(printed()).toContain("website.ts saved → nothing");
      await kubectl(`patch website/a --type=merge -p '{"spec":{"note":"kept"}}'`);
      expect(await kubectl("get website/a -o jsonpath={.spec.note}")).toBe("kept");
      await save(['name: "website"', 'name: "Website"']);
      await eventually("the report", () => printed().includes("must be a DNS label"));
      await save(['name: "Website"', 'name: "website"']);
    });

    it("runs corrected code with a changed definition at once, although the key is in back-off", async () => {
      const printed = later();
      await save(["return { apply:", 'throw new Error("broken"); return { apply:']);
      await eventually("failures", () => printed().includes("retry 9 → sync failed"));
      const message = /sync failed, is retried with back-off: Error at website\.ts:\d+:\d+/;
      expect(await kubectl("get events --field-selector=reason=SyncFailed --no-headers")).toMatch(message);
      expect(await kubectl("get events --field-selector=reason=SyncFailed -o jsonpath={.items[*].count}")).toBe("1");
      await kubectl("delete svc/a");
      await save(['throw new Error("broken"); return', "return"], ["s.object({ note:", "s.object({ more: s.string().optional(), note:"]);
      const startedMs = performance.now();
      await eventually("a Service", async () => (await kubectl("get svc -o name")) === "service/a\n");
      expect(performance.now() - startedMs, printed()).toBeLessThan(REPAIRED_MS_MAX);
    });

    it("leaves nothing of a deleted Website, and no process and no kubeconfig after Ctrl-C", async () => {
      await kubectl("delete website/a");
      await eventually("nothing", async () => (await kubectl("get website,deploy,rs,pods,svc -o name")) === "");
      expect(output().replaceAll(/.*sync failed: broken.*/g, "")).not.toContain("sync failed");
      await dev.stop();
      expect(await readdir(join(project, ".deltaloop"))).toEqual([]);
    });
  });
});
