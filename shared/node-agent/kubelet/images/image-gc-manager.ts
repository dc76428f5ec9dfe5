/** Image garbage collection every five minutes, by age and disk usage (node-agent §16.4). */
import { messageOf } from "@deltaloop/kube/objects";
import { nodeReference } from "../events/event-recorder.ts";
import type { NodePorts } from "../node-ports/node-ports.ts";
import { bytesToFree, detectImages, evictionOrder, isExpired, isOldEnough, sandboxImageOf, tooLittleFreed } from "./image-gc.ts";
import type { GcTime, ImageRecord, ImageRecords } from "./image-gc.ts";

type ImageGcPorts = Pick<NodePorts, "cri" | "files" | "clock" | "log" | "metrics" | "record" | "options">;

export class ImageCollector {
  readonly #ports: ImageGcPorts;
  readonly #beganMs: number;
  #records: ImageRecords = new Map();
  #hasFailed = false;

  constructor(ports: ImageGcPorts) {
    this.#ports = ports;
    this.#beganMs = ports.clock.now();
  }

  /** @throws if images cannot be removed or if too little space was freed; emits an Event on the second consecutive failure */
  async collect(): Promise<void> {
    const { highThresholdPercent, maxAgeMs = 0 } = this.#ports.options.imageGc;
    if (highThresholdPercent === 100 && maxAgeMs === 0) return;
    try {
      await this.#collect();
      this.#hasFailed = false;
    } catch (error) {
      if (this.#hasFailed) this.#warn("ImageGCFailed", messageOf(error));
      this.#hasFailed = true;
      throw error;
    }
  }

  /** Removes all unused images that are older than the minimum age, because of disk pressure. @throws if an image cannot be removed */
  async removeUnused(): Promise<void> {
    const time = this.#time();
    const candidates = await this.#detect(time.nowMs);
    await this.#remove(
      candidates.filter((image) => isOldEnough(image, this.#ports.options.imageGc, time)),
      "space",
      Infinity,
    );
  }

  #time(): GcTime {
    return { nowMs: this.#ports.clock.now(), beganMs: this.#beganMs };
  }

  async #detect(nowMs: number): Promise<readonly ImageRecord[]> {
    const { cri } = this.#ports;
    // Lists images before containers. Otherwise, an image that is pulled and used between the two lists would look unused.
    const images = await cri.listImages();
    const containers = await cri.listContainers();
    const sandboxImage = sandboxImageOf(await cri.statusInfo());
    this.#records = detectImages(this.#records, { images, containers, sandboxImage, nowMs });
    return evictionOrder(this.#records);
  }

  async #collect(): Promise<void> {
    const { cri, options, files } = this.#ports;
    const time = this.#time();
    const { imageGc: policy } = options;
    const candidates = await this.#detect(time.nowMs);
    const expired = candidates.filter((image) => isExpired(image, policy, time));
    await this.#remove(expired, "age", Infinity);

    const [imageFs] = await cri.imageFsInfo();
    if (imageFs === undefined) throw new Error("imageFs information is unavailable");
    const space = (await files.diskSpace(imageFs.mountpoint)) ?? { capacityBytes: 0, availableBytes: 0 };
    if (space.capacityBytes === 0) {
      const message = "invalid capacity 0 on image filesystem";
      this.#warn("InvalidDiskCapacity", message);
      throw new Error(message);
    }
    const wanted = bytesToFree(space, policy);
    if (wanted <= 0) return;
    const old = candidates.filter((image) => !expired.includes(image) && isOldEnough(image, policy, time));
    const freed = await this.#remove(old, "space", wanted);
    if (freed >= wanted) return;
    const message = tooLittleFreed(space, freed);
    this.#warn("FreeDiskSpaceFailed", message);
    throw new Error(message);
  }

  /** Removes images until `bytes` are free. Tries all of them. @throws {AggregateError} with all failures */
  async #remove(images: readonly ImageRecord[], reason: "age" | "space", bytes: number): Promise<number> {
    const { cri, log, metrics } = this.#ports;
    const errors: unknown[] = [];
    let freed = 0;
    for (const { id, sizeBytes } of images) {
      if (freed >= bytes) break;
      try {
        await cri.removeImage({ image: id });
      } catch (error) {
        errors.push(error);
        continue;
      }
      freed += sizeBytes;
      metrics?.count("kubelet_image_garbage_collected_total", { reason });
      log.info("removed unused image", { image: id, bytes: sizeBytes, reason });
    }
    if (errors.length > 0)
      throw new AggregateError(errors, `failed to remove images: ${errors.map((error) => messageOf(error)).join("; ")}`);
    return freed;
  }

  #warn(reason: string, message: string): void {
    this.#ports.record({ involved: nodeReference(this.#ports.options.nodeName), type: "Warning", reason, message });
  }
}
