/** Whether an image must be pulled, and when a failed pull is tried again (node-agent §8). Source: pkg/kubelet/images/image_manager.go. */
import type { BackOffEntry } from "../../ports/node-store.ts";
import { nextBackOff } from "./back-off.ts";
import { parseImageName } from "./image-name.ts";

export type ImageDecision =
  | { readonly kind: "present" }
  | { readonly kind: "pull" }
  /** It is missing, and the policy forbids to pull it. */
  | { readonly kind: "never" }
  | { readonly kind: "backOff"; readonly untilMs: number };

/** What the runtime is asked for: with `:latest` where there is neither tag nor digest. Source: image_manager.go applyDefaultImageTag. */
export function imageRef(image: string): string {
  const name = parseImageName(image);
  return name !== undefined && name.tag === undefined && name.digest === undefined ? `${image}:latest` : image;
}

export function isImageNameValid(image: string): boolean {
  return parseImageName(image) !== undefined;
}

/** The API's default, for static pods. Source: pkg/apis/core/v1/defaults.go SetDefaults_Container. */
export function defaultPullPolicy(image: string): "Always" | "IfNotPresent" {
  return parseImageName(imageRef(image))?.tag === "latest" ? "Always" : "IfNotPresent";
}

export function pullBackOffKey(uid: string, image: string): string {
  return `${uid}_${image}`;
}

/**
 * An image that is present needs no pull and knows no back-off, unless the policy is Always:
 *
 *                     Always      IfNotPresent   Never
 *     present         pull        present        present
 *     absent          pull        pull           never
 *     absent, failed  backOff     backOff        never
 *
 * Source: image_manager.go EnsureImageExists, imagePullPrecheck.
 */
export function imageDecision({
  policy,
  present,
  entry,
  nowMs,
}: {
  readonly policy: string;
  readonly present: boolean;
  readonly entry: BackOffEntry | undefined;
  readonly nowMs: number;
}): ImageDecision {
  if (present && policy !== "Always") return { kind: "present" };
  if (policy !== "Always" && policy !== "IfNotPresent") return { kind: "never" };
  const untilMs = entry === undefined ? nowMs : entry.lastUpdateMs + entry.delayMs;
  return nowMs < untilMs ? { kind: "backOff", untilMs } : { kind: "pull" };
}

/** 10 s, doubling to 300 s; each image of each pod by itself. A pull that succeeds changes nothing: the entry expires. */
export function afterFailedPull(entry: BackOffEntry | undefined, nowMs: number): BackOffEntry {
  return nextBackOff(entry, nowMs, nowMs);
}
