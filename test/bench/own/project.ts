/** What a new user waits for: the packed command in an empty folder, from `init` to the first sync, after a save, and in `npm test`. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../../support/eventually.ts";
import { packInto, runLine, startLine } from "../../support/packed.ts";

export interface ProjectTimes {
  readonly initToSyncSeconds: number;
  /** One for each save. */
  readonly saveToSyncSeconds: readonly number[];
  readonly npmTestSeconds: number;
}

const SAVES = 5;
const FIRST_PORT = 80;
const WEBSITE = {
  apiVersion: "demo.example.com/v1",
  kind: "Website",
  metadata: { name: "a", namespace: "default" },
  spec: { image: "nginx" },
};

export async function projectTimes(): Promise<ProjectTimes> {
  const scratch = await mkdtemp(join(tmpdir(), "deltaloop-bench-"));
  try {
    const tarball = await packInto(scratch);
    const folder = join(scratch, "empty");
    await mkdir(folder);
    await runLine(folder, `npm install --no-audit --no-fund ${tarball}`);
    const project = join(folder, "a");
    const startedMs = performance.now();
    await runLine(folder, "npx deltaloop init a");
    await runLine(project, "npm install --no-audit --no-fund");
    const dev = startLine(project, "npx deltaloop dev website.ts");
    try {
      await eventually("ready", () => /^ready: /m.test(dev.output()));
      await post(await readFile(join(project, ".deltaloop", "kubeconfig"), "utf8"));
      await untilPrinted(() => dev.output(), "create Service default/a");
      const initToSyncSeconds = secondsSince(startedMs);
      const saveToSyncSeconds: number[] = [];
      const code = join(project, "website.ts");
      for (let port = FIRST_PORT; port < FIRST_PORT + SAVES; port += 1) {
        const text = await readFile(code, "utf8");
        const from = dev.output().length;
        const savedMs = performance.now();
        await writeFile(code, text.replace(`port: ${port},`, `port: ${port + 1},`));
        await untilPrinted(() => dev.output().slice(from), "apply Service default/a");
        saveToSyncSeconds.push(secondsSince(savedMs));
      }
      await dev.stop();
      const testedMs = performance.now();
      await runLine(project, "npm test");
      return { initToSyncSeconds, saveToSyncSeconds, npmTestSeconds: secondsSince(testedMs) };
    } finally {
      await dev.stop("SIGTERM");
    }
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function post(kubeconfig: string): Promise<void> {
  const [, server = ""] = /"server": "([^"]+)"/.exec(kubeconfig) ?? [];
  const url = `${server}/apis/demo.example.com/v1/namespaces/default/websites`;
  const { ok, status } = await fetch(url, {
    method: "POST",
    body: JSON.stringify(WEBSITE),
    headers: { "content-type": "application/json" },
  });
  if (!ok) throw new Error(`POST ${url}: ${status}`);
}

const POLL_MS = 5;
const PRINTED_MS_MAX = 30_000;

/** Polls more often than `eventually`, so that the poll is no part of the figure. */
async function untilPrinted(output: () => string, text: string): Promise<void> {
  for (const startedMs = performance.now(); !output().includes(text);) {
    if (performance.now() - startedMs > PRINTED_MS_MAX) throw new Error(`dev did not print "${text}": ${output()}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

function secondsSince(startedMs: number): number {
  return (performance.now() - startedMs) / 1_000;
}
