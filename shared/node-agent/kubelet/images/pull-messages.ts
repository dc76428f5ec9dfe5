/** Image pull messages, which equal upstream's (node-agent §8). Source: pkg/kubelet/images/image_manager.go pullImage, evalCRIPullErr. */
import { goDuration } from "../types/go-duration.ts";

/** Waiting reason and message for a container whose image pull failed. */
export interface PullFailure {
  readonly reason: "ErrImagePull" | "RegistryUnavailable" | "SignatureValidationFailed";
  readonly message: string;
}

/** Errors that runtimes report by prefix, and their messages. Source: cri-api pkg/errors/errors.go. */
const KNOWN = [
  ["RegistryUnavailable", "the registry is unavailable"],
  ["SignatureValidationFailed", "the signature validation failed"],
] as const;

/**
 * Classifies the text of `pullErrorText`:
 *
 *     RegistryUnavailable: no route → RegistryUnavailable, "image pull failed for foo because the registry is unavailable: no route"
 *     anything else → ErrImagePull, unchanged
 */
export function pullFailure(image: string, text: string): PullFailure {
  const known = KNOWN.find(([reason]) => text.startsWith(reason));
  if (known === undefined) return { reason: "ErrImagePull", message: text };
  const [reason, because] = known;
  return { reason, message: `image pull failed for ${image} because ${because}${text.slice(reason.length)}` };
}

/** Joins distinct error texts. Source: apimachinery util/errors NewAggregate. */
export function aggregateText(texts: readonly string[]): string {
  const different = [...new Set(texts)];
  return different.length === 1 ? different.join() : `[${different.join(", ")}]`;
}

/** The message during a back-off, with the cause of the last failure if known. */
export function backOffMessage(image: string, cause: string | undefined): string {
  return `Back-off pulling image "${image}"${cause === undefined ? "" : `: ${cause}`}`;
}

/** `pullMs` excludes the time in the queue, `totalMs` includes it. */
export function pulledMessage(
  image: string,
  { pullMs, totalMs, sizeBytes }: { readonly pullMs: number; readonly totalMs: number; readonly sizeBytes: number },
): string {
  const [pull, total] = [pullMs, totalMs].map((ms) => goDuration(Math.trunc(ms)));
  return `Successfully pulled image "${image}" in ${pull} (${total} including waiting). Image size: ${sizeBytes} bytes.`;
}
