// Would catch: the removal of an image that is in use, pinned or just pulled; removal in the wrong order; too many or too few removed
// images; and a full disk that is not reported.
import { describe, expect, it } from "vitest";

import { createVirtualClock } from "../../../../shared/base/memory/clock.ts";
import type { NodeEvent } from "../../../../shared/node-agent/kubelet/events/event-recorder.ts";
import type { ImageGcPolicy } from "../../../../shared/node-agent/kubelet/types/node-options.ts";
import type { NodePorts } from "../../../../shared/node-agent/kubelet/node-ports/node-ports.ts";
import { tooLittleFreed } from "../../../../shared/node-agent/kubelet/images/image-gc.ts";
import { ImageCollector } from "../../../../shared/node-agent/kubelet/images/image-gc-manager.ts";
import type { DiskSpace } from "../../../../shared/node-agent/ports/node-files.ts";
import { recordingLog } from "../../recording-log.ts";
import { OPTIONS } from "../../../harness/node/fixtures.ts";

const MINUTE = 60_000;
const GIB = 1024 ** 3;
const POLICY: ImageGcPolicy = { highThresholdPercent: 90, lowThresholdPercent: 80, minAgeMs: 2 * MINUTE };

/** A runtime with images of 100 bytes on a disk of 1000 bytes, and an image collector. */
function machine(policy: ImageGcPolicy = POLICY, images: readonly string[] = ["a", "b", "c"]) {
  const clock = createVirtualClock(Date.UTC(2026, 2, 1));
  const present = new Map(images.map((id) => [id, { pinned: false }]));
  const used = new Set<string>();
  const refused = new Set<string>();
  const events: NodeEvent[] = [];
  const counted: string[] = [];
  const disk = { capacityBytes: 1000, availableBytes: 1000 };
  const state: { space: DiskSpace | undefined; config: string } = { space: disk, config: "" };
  const cri = {
    listImages: async () =>
      [...present].map(([id, { pinned }]) => ({ id, pinned, sizeBytes: 100, repoTags: [`local/${id}:1`], repoDigests: [], username: "" })),
    statusInfo: async () => ({ config: state.config }),
    listContainers: async () => [...used].map((imageRef) => ({ imageRef })),
    imageFsInfo: async () => [{ mountpoint: "/images" }],
    removeImage: async ({ image }: { readonly image: string }) => {
      if (refused.has(image)) throw new Error(`${image} stays`);
      present.delete(image);
    },
  };
  const ports = {
    cri,
    clock,
    log: recordingLog(),
    record: (event: NodeEvent) => void events.push(event),
    metrics: { count: (name: string, { reason }: { readonly reason: string }) => void counted.push(`${name} ${reason}`) },
    files: { diskSpace: async () => state.space },
    options: { ...OPTIONS, imageGc: policy },
  };
  const collector = new ImageCollector(ports as unknown as NodePorts); // the collector uses only these dependencies
  return {
    present,
    used,
    refused,
    events,
    counted,
    state,
    /** Fills the disk so that `need` images of 100 bytes must be removed to reach 80 %. */
    fill: (need: number) => (state.space = { ...disk, availableBytes: 200 - need }),
    collect: () => collector.collect(),
    wait: (ms: number) => clock.advance(ms),
    left: () => [...present.keys()].join(""),
  };
}

describe("unused images", () => {
  it.each([
    { name: "[node-agent 140] 85 % used with a threshold of 90 %: removes no image", free: 150, left: "abc" },
    { name: "[node-agent 140] 90 % used: frees space until 80 % are used", free: 100, left: "bc" },
    { name: "[node-agent 140] 95 % used: removes two images of 100 bytes each to free 150 bytes", free: 50, left: "c" },
    { name: "[node-agent 140] a fraction of a percent counts as a full percent", free: 109, left: "bc" },
    { name: "[node-agent 140] more free space than capacity: removes no image", free: 2000, left: "abc" },
  ])("image garbage collection: $name", async ({ free, left }) => {
    const node = machine();
    await node.collect();
    await node.wait(2 * MINUTE);
    node.state.space = { capacityBytes: 1000, availableBytes: free };
    await node.collect();
    expect(node.left()).toBe(left);
    expect(node.counted).toEqual(Array.from({ length: 3 - left.length }, () => "kubelet_image_garbage_collected_total space"));
  });

  it("[node-agent 141] removes images that were never used, and only then the least recently used image", async () => {
    const node = machine();
    for (const images of ["a", "b"]) {
      node.used.add(images);
      await node.collect();
      await node.wait(5 * MINUTE);
      node.used.clear();
    }
    node.present.set("d", { pinned: false });
    await node.collect();
    await node.wait(5 * MINUTE);
    for (const left of ["abd", "ab", "b", ""]) {
      node.fill(100);
      await node.collect();
      expect(node.left()).toBe(left);
    }
  });

  it("[node-agent 142] keeps pinned images and images of running or dead containers, and emits ImageGCFailed only for the second consecutive failure", async () => {
    const node = machine();
    await node.collect();
    node.used.add("a");
    node.present.set("b", { pinned: true });
    await node.wait(5 * MINUTE);
    node.fill(200);
    const failure = tooLittleFreed({ capacityBytes: 1000, availableBytes: 0 }, 100);
    await expect(node.collect()).rejects.toThrow(failure);
    expect(node.left()).toBe("ab");
    const told = (reason: string, message = failure) => ({
      involved: { kind: "Node", apiVersion: "v1", namespace: "", name: "n1", uid: "" },
      type: "Warning",
      reason,
      message,
    });
    expect(node.events).toEqual([told("FreeDiskSpaceFailed")]);
    const nothing = tooLittleFreed({ capacityBytes: 1000, availableBytes: 0 }, 0);
    await expect(node.collect()).rejects.toThrow(nothing);
    expect(node.events.slice(1)).toEqual([told("FreeDiskSpaceFailed", nothing), told("ImageGCFailed", nothing)]);
    node.state.space = { capacityBytes: 1000, availableBytes: 500 };
    await node.collect();
    node.fill(200);
    await expect(node.collect()).rejects.toThrow(nothing);
    expect(node.events.slice(3)).toEqual([told("FreeDiskSpaceFailed", nothing)]);
  });

  it("[node-agent 147] keeps the sandbox image if the runtime pins no image", async () => {
    const node = machine();
    node.state.config = JSON.stringify({ sandboxImage: "local/a:1" });
    await node.collect();
    await node.wait(2 * MINUTE);
    node.fill(200);
    await node.collect();
    expect(node.left()).toBe("a");
  });

  it("[node-agent 143] keeps an image first seen less than two minutes ago", async () => {
    const node = machine(POLICY, ["a"]);
    await node.collect();
    await node.wait(2 * MINUTE - 1);
    node.present.set("b", { pinned: false });
    node.fill(100);
    await expect(node.collect()).rejects.toThrow("freed 0 bytes");
    await node.wait(1);
    await node.collect();
    expect(node.left()).toBe("b");
  });

  it("[node-agent 144] removes images unused for longer than a maximum age, but none before the agent has run that long", async () => {
    const node = machine({ ...POLICY, maxAgeMs: 10 * MINUTE });
    node.used.add("a").add("b");
    await node.collect();
    await node.wait(6 * MINUTE);
    node.used.delete("a");
    await node.collect();
    await node.wait(4 * MINUTE);
    await node.collect();
    expect(node.left()).toBe("abc");
    await node.wait(1);
    await node.collect();
    expect(node.left()).toBe("b");
    expect(node.counted).toEqual(Array.from({ length: 2 }, () => "kubelet_image_garbage_collected_total age"));
  });

  it("[node-agent 145] image garbage collection continues after a failed removal, and reports the failure", async () => {
    const node = machine();
    await node.collect();
    await node.wait(2 * MINUTE);
    node.refused.add("a");
    node.fill(200);
    await expect(node.collect()).rejects.toThrow("failed to remove images: a stays");
    expect(node.left()).toBe("a");
  });

  it("[node-agent 146] image garbage collection is disabled with a threshold of 100 % and no maximum age", async () => {
    const node = machine({ ...POLICY, highThresholdPercent: 100 });
    node.state.space = undefined;
    await node.collect();
    expect(node.left()).toBe("abc");
  });

  it("[node-agent 146] emits a Warning for a disk with capacity 0", async () => {
    const node = machine();
    node.state.space = undefined;
    await expect(node.collect()).rejects.toThrow("invalid capacity 0 on image filesystem");
    expect(node.events.map(({ reason }) => reason)).toEqual(["InvalidDiskCapacity"]);
  });

  it.each([
    [512, "512 B"],
    [1536, "1.5 KiB"],
    [2.5 * 1024 ** 2, "2.5 MiB"],
    [9.75 * GIB, "9.8 GiB"],
    [3000 * 1024 ** 4, "3000.0 TiB"],
  ])("[node-agent 142] formats a size of %d bytes as %s", (capacityBytes, text) => {
    expect(tooLittleFreed({ capacityBytes, availableBytes: 0 }, 0)).toContain(`(100% of ${text} used)`);
  });
});
