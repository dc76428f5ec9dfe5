/** Garbage collection of a node: a real containerd on a small separate disk that images fill. */
import { randomBytes } from "node:crypto";
import { rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { IMAGES } from "../containerd/images.ts";
import { eventually, measured, startCluster } from "../support/e2e.ts";
import type { Cluster } from "../support/e2e.ts";
import { nodesReady, startNodes, whereNodesCanRun } from "../harness/node-processes/containerd-nodes.ts";
import type { NodeAgent } from "../harness/node-processes/containerd-nodes.ts";
import { podOf, podReady, server } from "../harness/node-processes/pods.ts";

const MIB = 1024 ** 2;
const DISK_BYTES = 160 * MIB;
const FILLER = "localhost/filler:1";

await whereNodesCanRun("what a node throws away", () => {
  let cluster: Cluster;
  let node: NodeAgent;

  beforeAll(async () => {
    cluster = await startCluster({ machines: "scheduler" });
    const [first] = await startNodes(cluster, ["small"], {
      diskBytes: DISK_BYTES,
      flags: ["--minimum-image-ttl-duration", "0s", "--eviction-hard", "memory.available<0%", "--image-gc-high-threshold", "85"],
    });
    if (first === undefined) throw new Error("a node was to start");
    node = first;
    await nodesReady(cluster, node);
  });

  afterAll(async () => {
    await node?.stop();
    await cluster?.stop();
  });

  const root = (): string => join(node.containerd.directory, "root");
  const usedPercent = async (): Promise<number> => {
    const { blocks, bavail } = await statfs(root());
    return 100 - Math.trunc((bavail * 100) / blocks);
  };
  const imageNames = async (): Promise<readonly string[]> => (await node.cri.listImages()).flatMap(({ repoTags }) => repoTags).toSorted();
  /** Fills the disk almost completely: with an image of this size and a file. */
  const fill = async (imageBytes: number): Promise<void> => {
    const content = randomBytes(imageBytes);
    await node.containerd.importImages([{ name: FILLER, entries: [{ kind: "file", name: "filler", content }], entrypoint: ["/filler"] }]);
    const { bavail, bsize, blocks } = await statfs(root());
    await writeFile(join(root(), "ballast"), Buffer.alloc((bavail - Math.trunc(blocks / 50)) * bsize, 1));
    expect([(await usedPercent()) > 95, (await imageNames()).includes(FILLER)]).toEqual([true, true]);
  };
  const collectedAnew = async (): Promise<void> => {
    await node.kill();
    await node.start(); // collects at startup, and then every five minutes
  };

  it("[node-agent 148] deletes unused images from a full disk until it is 80 percent full", async () => {
    await cluster.apply(podOf("web", { containers: [server()] }));
    await podReady(cluster, "web");
    await fill(Math.trunc(DISK_BYTES / 4));
    await collectedAnew();
    await eventually("the disk has room", async () => (await usedPercent()) <= 80, 60_000);
    measured(`image disk: full, then ${await usedPercent()} %`);
    expect(await imageNames()).not.toContain(FILLER);
  });

  it("[node-agent 148] reports when removing images does not free enough space, and keeps images of pods and sandboxes", async () => {
    await rm(join(root(), "ballast"));
    await fill(MIB);
    await collectedAnew();
    await eventually("it is said", async () => (await cluster.list<EventView>("/api/v1/events")).some(isTooLittle), 60_000);
    expect(await imageNames()).toEqual([IMAGES.pause, IMAGES.serverV1]);

    await rm(join(root(), "ballast"));
    await cluster.apply(podOf("again", { containers: [server()] }));
    await podReady(cluster, "again");
    await podReady(cluster, "web");
  });
});

interface EventView {
  readonly reason: string;
  readonly message: string;
  readonly involvedObject: { readonly kind: string; readonly name: string };
}

function isTooLittle({ reason, message, involvedObject: { kind, name } }: EventView): boolean {
  const isOfNode = kind === "Node" && name === "small";
  return (
    isOfNode && reason === "FreeDiskSpaceFailed" && message.startsWith("Insufficient free disk space on the node's image filesystem (9")
  );
}
