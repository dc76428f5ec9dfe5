/** Image names, as far as the agent must read them (node-agent §8). Source: github.com/distribution/reference. */

export interface ImageName {
  readonly tag?: string;
  readonly digest?: string;
}

const DOMAIN_PART = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
const DOMAIN = `(?:${DOMAIN_PART}(?:\\.${DOMAIN_PART})*|\\[[a-fA-F0-9:]+\\])(?::[0-9]+)?`;
const PATH_PART = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const TAG = "[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}";
const DIGEST = "sha256:[a-f0-9]{64}|sha384:[a-f0-9]{96}|sha512:[a-f0-9]{128}";
const REFERENCE = new RegExp(`^${DOMAIN}/(${PATH_PART}(?:/${PATH_PART})*)(?::(${TAG}))?(?:@(${DIGEST}))?$`, "u");
/** An image's id, which is no name. */
const ID = /^[a-f0-9]{64}$/u;
const PATH_LENGTH_MAX = 255;

/**
 * Its tag and digest, or undefined when it is no image name:
 *
 *     foo → {}        localhost:5000/foo:v1 → { tag: "v1" }        foo@sha256:… → { digest: "sha256:…" }
 *     Foo, foo:, "foo bar", 64 hexadecimal digits → undefined
 *
 * Source: reference/normalize.go ParseNormalizedNamed.
 */
export function parseImageName(image: string): ImageName | undefined {
  if (ID.test(image)) return undefined;
  const match = REFERENCE.exec(withDomain(image));
  const [, path = "", tag, digest] = match ?? [];
  if (match === null || path.length > PATH_LENGTH_MAX) return undefined;
  return { ...(tag !== undefined && { tag }), ...(digest !== undefined && { digest }) };
}

/** The first part is a registry if it has a dot, a port or a capital: `foo/bar` is Docker Hub's, `foo.test/bar` is not. */
function withDomain(image: string): string {
  const slash = image.indexOf("/");
  const first = image.slice(0, Math.max(slash, 0));
  const isDomain = slash > 0 && (/[.:]/u.test(first) || first !== first.toLowerCase());
  if (isDomain) return image;
  return `docker.io/${slash === -1 ? "library/" : ""}${image}`;
}
