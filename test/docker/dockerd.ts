/**
 * A private dockerd, with the containerd that it starts, per test node: the runtime of a node of Kubernetes 1.23, several times on one
 * machine.
 *
 * DD1 CN1 to CN3 (test/containerd/containerd.ts) hold: it has its own root, sockets, bridge, subnet and cgroup, leaves nothing behind, and
 *     contacts no registry other than registry.ts.
 * DD2 it changes neither the host's packet filter nor its IP forwarding, and creates no network: `iptables`, `ip-forward` and `bridge` are
 *     off. Pods get their network from CNI, as on containerd.
 * DD3 `live-restore` is on: containers keep running without dockerd, which CR12 requires of a runtime.
 */
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { startComponent, waitUntilReady } from "../envtest/component.ts";
import type { Component } from "../envtest/component.ts";
import { startNodeCleanup } from "../containerd/node-cleanup.ts";
import { newIdentity } from "../containerd/identity.ts";
import type { NodeIdentity } from "../containerd/identity.ts";
import { imageArchive } from "../containerd/images.ts";
import { createPodNetwork } from "../containerd/network.ts";

export interface DockerNode extends NodeIdentity {
  /** The socket, as `unix://PATH`. */
  readonly endpoint: string;
  readonly podCidr: string;
  /** Absolute path for a pod's `cgroupParent`. */
  readonly cgroupParent: string;
  /** The folder of the CNI configuration. */
  readonly cniConfDir: string;
  /** Sends SIGKILL to dockerd, which also ends its containerd: shims and containers keep running. */
  kill(): Promise<void>;
  /** Starts it again after `kill`. */
  restart(): Promise<void>;
  /** Everything ends. */
  stop(): Promise<void>;
}

const READY_MS_MAX = 30_000;

/**
 * @param dockerd the program that ensureDockerd returns
 * @throws {Error} with the end of its log if it is not ready in time; leaves nothing behind in this case either
 */
export async function startDockerd(dockerd: string): Promise<DockerNode> {
  const identity = await newIdentity();
  const guard = startNodeCleanup(identity);
  try {
    const { podCidr } = await createPodNetwork(identity);
    const socket = join(identity.directory, "docker.sock");
    const config = join(identity.directory, "daemon.json");
    await writeFile(config, JSON.stringify(configuration(identity, socket)));
    let daemon = await start(dockerd, identity.directory, config, socket);
    await load(socket, await imageArchive(identity.directory));
    return {
      ...identity,
      endpoint: `unix://${socket}`,
      podCidr,
      cgroupParent: `/${identity.cgroup}`,
      cniConfDir: join(identity.directory, "cni"),
      async kill() {
        process.kill(daemon.pid, "SIGKILL");
        await daemon.ended;
        await forgetContainerd(identity.directory);
      },
      async restart() {
        daemon = await start(dockerd, identity.directory, config, socket);
      },
      stop: () => guard.end(),
    };
  } catch (error) {
    await guard.end();
    throw error;
  }
}

async function start(dockerd: string, directory: string, config: string, socket: string): Promise<Component> {
  const logFile = join(directory, "dockerd.log");
  await mkdir(join(directory, "tmp"), { recursive: true });
  const env = { PATH: `${process.env["PATH"] ?? ""}${delimiter}/usr/sbin${delimiter}/sbin`, DOCKER_TMPDIR: join(directory, "tmp") };
  const daemon = await startComponent(
    "/usr/bin/env",
    [...Object.entries(env).map((one) => one.join("=")), dockerd, "--config-file", config],
    {
      name: "dockerd",
      logFile,
    },
  );
  const isReady = async (): Promise<boolean> => (await ask(socket, "GET", "/_ping").catch(() => 0)) === 200;
  await waitUntilReady(daemon, isReady, { what: "dockerd", timeoutMs: READY_MS_MAX, pollMs: 50 });
  return daemon;
}

/**
 * The kernel kills containerd with the daemon. On a host whose init process reaps no children, containerd remains as a zombie, and the next
 * daemon would take it for a running containerd.
 */
async function forgetContainerd(directory: string): Promise<void> {
  const file = join(directory, "exec", "containerd", "containerd.pid");
  const pid = (await readFile(file, "utf8")).trim();
  for (const giveUpAt = performance.now() + READY_MS_MAX; performance.now() < giveUpAt; await sleep(10)) {
    const state = (await readFile(`/proc/${pid}/stat`, "utf8").catch(() => ") Z")).split(") ").at(-1);
    if (state?.startsWith("Z")) return await rm(file);
  }
  throw new Error(`containerd ${pid} outlives its dockerd`);
}

/** Runs `docker load`. */
async function load(socket: string, archive: Buffer): Promise<void> {
  const status = await ask(socket, "POST", "/images/load?quiet=1", archive);
  if (status !== 200) throw new Error(`images were not loaded: ${status}`);
}

function ask(socketPath: string, method: string, path: string, body?: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = body === undefined ? {} : { "content-type": "application/x-tar", "content-length": body.length };
    const call = request({ socketPath, method, path, headers, agent: false }, (response) => {
      response.resume();
      response.once("end", () => resolve(response.statusCode ?? 0));
    });
    call.once("error", reject);
    call.end(body);
  });
}

/** `oom-score-adjust`: root without CAP_SYS_RESOURCE cannot lower the OOM score. Source: moby cmd/dockerd, daemon.json. */
function configuration({ directory, cgroup }: NodeIdentity, socket: string): object {
  return {
    "data-root": join(directory, "root"),
    "exec-root": join(directory, "exec"),
    pidfile: join(directory, "docker.pid"),
    hosts: [`unix://${socket}`],
    "cgroup-parent": `/${cgroup}`,
    "exec-opts": ["native.cgroupdriver=cgroupfs"],
    iptables: false,
    ip6tables: false,
    "ip-forward": false,
    "ip-masq": false,
    bridge: "none",
    "userland-proxy": false,
    "live-restore": true,
    "oom-score-adjust": 0,
  };
}
