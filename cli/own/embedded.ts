/** The in-memory cluster of `dev FILE…`: an API server with the CRDs, the built-in controllers and scripted nodes. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { createApiServer, createInProcessKube, runScriptedNodes, serveHttp } from "@deltaloop/api-server";
import type { Log } from "@deltaloop/base";
import { isObject, UsageError } from "@deltaloop/base";
import { createSystemClock, createSystemRandom } from "@deltaloop/base/system";
import { shutGate, UPKEEP_TIMES } from "@deltaloop/controllers/cache";
import { isNotFound, readClusterIdentity } from "@deltaloop/kube/client";
import { createClient, createKubeHttp, kubeOver } from "@deltaloop/kube/http";
import type { KubeClient } from "@deltaloop/kube/http";
import { messageOf } from "@deltaloop/kube/objects";
import { createDigester } from "@deltaloop/kube/pod-template";
import { assembleSystem, memoryBackend } from "@deltaloop/local";
import { crdManifest, kindsOf } from "@deltaloop/sdk/definitions";
import type { KindData, Manifest } from "@deltaloop/sdk/definitions";
import { createSigner } from "@deltaloop/store/ports";
import { embeddedKubeconfig } from "../dev/embedded-kubeconfig.ts";
import { functionHandlers } from "../functions/functions.ts";
import { readCrds } from "./crd-files.ts";
import type { OwnTarget } from "./target.ts";

const NODES = 3;
const POLL_MS = 10;
const SERVED_MS_MAX = 5_000;
const ANSWER_MS_MAX = 1_000;
/** A folder in the working directory, so that another terminal finds the kubeconfig. */
const FOLDER = ".deltaloop";
const CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Prepares the in-memory cluster. @param crdPaths files and folders with further CRDs */
export async function embeddedTarget(log: Log, crdPaths: readonly string[] = []): Promise<OwnTarget> {
  const others = readCrds(crdPaths);
  const [clock, random] = [createSystemClock(), createSystemRandom()];
  const server = createApiServer({ clock, random, managedFields: true });
  const http = await serveHttp(server);
  const access = { server: http.url };
  const client = createClient({ ...access, component: "dev" });
  const cluster = await readClusterIdentity(kubeOver(client));

  const digester = createDigester(randomBytes(32));
  const quiet: Log = { ...log, info: () => undefined };
  const backend = memoryBackend({ clock, random, digester, deployment: "dev-built-in", cluster: cluster.cid });
  const nodes = { count: NODES, clock, random, bindPods: true, log: quiet };
  const system = assembleSystem(
    {
      ...{ clock, random, digester, signer: createSigner([randomBytes(32).toString("hex")], cluster.cid), log: quiet },
      ...backend,
      kube: (name) => createKubeHttp({ ...access, component: name.replace("sync-", "") }),
      functions: functionHandlers,
    },
    {
      ...{ cluster: cluster.cid, clusterUid: cluster.uid, upkeep: UPKEEP_TIMES },
      nodes: (ends) => runScriptedNodes(createInProcessKube(server, { component: "scripted-nodes" }), nodes, ends),
    },
  );
  const kubeconfig = embeddedKubeconfig(http.url, "deltaloop-dev");
  const file = await writeKubeconfig(kubeconfig);
  log.info(`in-memory API server with built-in controllers and ${NODES} scripted nodes: export KUBECONFIG=${file}`);
  return {
    access,
    act: true,
    async prepare(definitions) {
      for (const { file, name, crd } of others) await applyCrd(client, name, crd, file);
      for (const kind of definitions.flatMap(kindsOf)) {
        const crd = crdManifest(kind);
        if (crd !== undefined) await applyCrd(client, `${kind.plural}.${kind.group}`, crd);
      }
      while ((await shutGate(backend.store)) !== undefined) await clock.after(POLL_MS);
      await untilServed(client, definitions.flatMap(kindsOf), (ms) => clock.after(ms));
      return cluster;
    },
    async stop() {
      // Another `dev` may have taken its place after a moment without an answer.
      if (existsSync(file) && readFileSync(file, "utf8") === kubeconfig) rmSync(file);
      await system.stop();
      await http.close();
      server.close();
      await backend.store.close();
    },
  };
}

/** Writes `kubeconfig`, or `kubeconfig-2` and so on while another `dev` in this folder serves the one before. @returns its path */
async function writeKubeconfig(text: string): Promise<string> {
  for (let n = 1; ; n++) {
    const file = resolve(join(FOLDER, n === 1 ? "kubeconfig" : `kubeconfig-${n}`));
    try {
      mkdirSync(FOLDER, { recursive: true, mode: 0o700 });
      if (existsSync(file)) {
        if (await isServed(readFileSync(file, "utf8"))) continue;
        rmSync(file, { force: true }); // of a `dev` that was killed
      }
      writeFileSync(file, text, { mode: 0o600, flag: "wx" });
      return file;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST" && statSync(FOLDER).isDirectory()) continue; // another one was faster
      throw new UsageError(`cannot write ${file}: ${messageOf(error)}: run it in a folder that you may write to`);
    }
  }
}

/** Whether the server of a kubeconfig of `dev` answers. */
async function isServed(text: string): Promise<boolean> {
  const [, server] = /"server": "(http:[^"]+)"/.exec(text) ?? [];
  if (server === undefined) return false;
  return await fetch(`${server}/version`, { signal: AbortSignal.timeout(ANSWER_MS_MAX) }).then(
    ({ ok }) => ok,
    () => false,
  );
}

/** Creates the CRD, or replaces the one of earlier code. @throws {UsageError} with what the API server refuses */
async function applyCrd(client: KubeClient, name: string, crd: Manifest, file?: string): Promise<void> {
  const path = `${CRDS}/${name}`;
  try {
    const stored = await client.json({ method: "GET", path }).catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
    const metadata = isObject(stored) && isObject(stored["metadata"]) ? stored["metadata"] : undefined;
    if (metadata === undefined) await client.json({ method: "POST", path: CRDS, body: crd });
    else await client.json({ method: "PUT", path, body: { ...crd, metadata: { ...metadata } } });
  } catch (error) {
    throw new UsageError(`the CRD ${name}${file === undefined ? "" : ` in ${file}`} is refused: ${messageOf(error)}`);
  }
}

/** Waits until the API server serves the kinds. @throws {UsageError} for a kind that the in-memory API server lacks */
async function untilServed(client: KubeClient, kinds: readonly KindData[], after: (ms: number) => Promise<void>): Promise<void> {
  for (const { group, version, kind, plural } of kinds) {
    const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    for (let waitedMs = 0; ; waitedMs += POLL_MS) {
      const list = await client.json({ method: "GET", path }).catch(() => undefined);
      const resources = isObject(list) && Array.isArray(list["resources"]) ? list["resources"] : [];
      if (resources.some((each: unknown) => isObject(each) && each["name"] === plural)) break;
      if (waitedMs >= SERVED_MS_MAX)
        throw new UsageError(
          `the in-memory API server lacks the kind ${kind} (${plural}.${group}, ${version}): name the file of its CRD with --crds, or a cluster with --kubeconfig`,
        );
      await after(POLL_MS);
    }
  }
}
