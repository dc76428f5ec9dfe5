/**
 * What is said of image pulls, to the word (node-agent §8).
 *
 * Source: pkg/kubelet/images/image_manager.go pullImage, evalCRIPullErr.
 */
import { goDuration } from "../types/go-duration.ts";

/** What a container waits for, and why, once a pull has failed. */
export interface PullFailure {
  readonly reason: "ErrImagePull" | "RegistryUnavailable" | "SignatureValidationFailed";
  readonly message: string;
}

/** With what a runtime begins, that knows why; and what is made of it. Source: cri-api pkg/errors/errors.go. */
const KNOWN = [
  ["RegistryUnavailable", "the registry is unavailable"],
  ["SignatureValidationFailed", "the signature validation failed"],
] as const;

/**
 * Of the error's text, as `pullErrorText` returns it:
 *
 *     RegistryUnavailable: no route → RegistryUnavailable, "image pull failed for foo because the registry is unavailable: no route"
 *     anything else → ErrImagePull, as it is
 */
export function pullFailure(image: string, text: string): PullFailure {
  const known = KNOWN.find(([reason]) => text.startsWith(reason));
  if (known === undefined) return { reason: "ErrImagePull", message: text };
  const [reason, because] = known;
  return { reason, message: `image pull failed for ${image} because ${because}${text.slice(reason.length)}` };
}

/** One text of all that went wrong, each once. Source: apimachinery util/errors NewAggregate. */
export function aggregateText(texts: readonly string[]): string {
  const different = [...new Set(texts)];
  return different.length === 1 ? different.join() : `[${different.join(", ")}]`;
}

/** Why nothing is pulled during a back-off; with what went wrong before, so that whoever looks meanwhile sees why. */
export function backOffMessage(image: string, cause: string | undefined): string {
  return `Back-off pulling image "${image}"${cause === undefined ? "" : `: ${cause}`}`;
}

/** `pullMs` from its turn on, `totalMs` from when it was asked for. */
export function pulledMessage(
  image: string,
  { pullMs, totalMs, sizeBytes }: { readonly pullMs: number; readonly totalMs: number; readonly sizeBytes: number },
): string {
  const [pull, total] = [pullMs, totalMs].map((ms) => goDuration(Math.trunc(ms)));
  return `Successfully pulled image "${image}" in ${pull} (${total} including waiting). Image size: ${sizeBytes} bytes.`;
}
