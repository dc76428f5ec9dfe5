/** Errors of image pulls by class. The texts come from registries and may hold tokens: only the class and the HTTP status are kept. */

export const IMAGE_CLASSES = [
  "not found",
  "wrong platform",
  "denied",
  "rate limited",
  "unreachable",
  "waits for the kubelet",
  "disk full",
  "name invalid",
  "never pulled",
  "pull secret missing",
  "not pulled",
] as const;
export type ImageClass = (typeof IMAGE_CLASSES)[number];

interface ImageError {
  readonly class: ImageClass;
  /** HTTP status of the registry. */
  readonly code?: string;
}

/**
 * The order matters: the message of a missing platform also ends in "not found". Source: containerd core/remotes/docker, client/pull.go.
 */
const TAILS: readonly (readonly [ImageClass, RegExp])[] = [
  ["wrong platform", /no match for platform in manifest/],
  ["waits for the kubelet", /pull QPS exceeded/],
  ["rate limited", /\b429\b|toomanyrequests|Too Many Requests/],
  [
    "denied",
    /pull access denied|authorization failed|failed to authorize|failed to fetch (?:anonymous|oauth) token|\b40[13]\b|unauthorized|denied: /,
  ],
  ["unreachable", /failed to do request|connection refused|i\/o timeout|no such host|x509: |TLS handshake|no route to host/],
  ["disk full", /no space left on device|failed to extract layer/],
  ["not found", /not found|manifest unknown|does not exist/],
];

const PULL = /^(?:Error: )?Failed to pull image "[^"]{0,1000}"/;
const BACK_OFF = /^Back-off pulling image "[^"]{0,1000}"/;
const STATUS = /unexpected status(?: code| from)[^:]{0,20}.*?:? (?<code>[45]\d\d)\b/;

/** Undefined for other messages. @param reason of the Event or of the waiting state */
export function imageError(text: string, reason: string | undefined): ImageError | undefined {
  if (reason === "InvalidImageName" || text.startsWith("Failed to apply default image tag ")) return { class: "name invalid" };
  if (reason === "ErrImageNeverPull" || /^Container image "[^"]{0,1000}" is not present with pull policy of Never/.test(text))
    return { class: "never pulled" };
  if (text.startsWith("Unable to retrieve some image pull secrets")) return { class: "pull secret missing" };
  const head = PULL.exec(text)?.[0] ?? BACK_OFF.exec(text)?.[0];
  if (head === undefined && reason !== "ErrImagePull" && reason !== "RegistryUnavailable") return undefined;
  const rest = text.slice(head?.length ?? 0);
  const found = TAILS.find(([, pattern]) => pattern.test(rest))?.[0] ?? (reason === "RegistryUnavailable" ? "unreachable" : "not pulled");
  const code = STATUS.exec(rest)?.groups?.["code"];
  return { class: found, ...(code !== undefined && { code }) };
}
