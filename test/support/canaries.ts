/** Canary texts planted wherever users and tools put secrets, and a search for them. */
import { packText } from "../../shared/controllers/cache/messages/pack-codec.ts";

/** A canary of one test: it contains the place where it was planted, so a finding names its source. */
export const canary = (place: string): string => `CANARY-${place}-s3cret`;

/** Annotations in which tools keep whole manifests, and one in which users record changes. */
const KEEPERS = {
  kapp: "kapp.k14s.io/original",
  rancher: "objectset.rio.cattle.io/applied",
  openshift: "openshift.io/last-applied",
  banzai: "banzaicloud.com/last-applied",
  kubectl: "kubectl.kubernetes.io/last-applied-configuration",
} as const;

export const CHANGE_CAUSE = "kubernetes.io/change-cause";

export function canaryAnnotations(): Readonly<Record<string, string>> {
  const kept = Object.entries(KEEPERS).map(([tool, key]) => [key, JSON.stringify({ spec: { env: [{ value: canary(tool) }] } })]);
  return { ...Object.fromEntries(kept), [CHANGE_CAUSE]: `kubectl set env TOKEN=${canary("cause")}` };
}

/** A container with a canary in each field that may hold a secret. */
export function canaryContainer(name: string, image: string): object {
  return {
    name,
    image,
    command: ["sh", "-c", canary("command")],
    args: [canary("args")],
    env: [{ name: "TOKEN", value: canary("env") }],
  };
}

/** Messages written by a webhook or another controller. Messages of cached conditions may contain only these. */
export const DENIAL = `admission webhook "policy.example.com" denied the request: TOKEN=${canary("denial")}`;
export const FOREIGN = `the last thing I saw was ${canary("foreign")}`;

/** Encodings of a condition's message: in JSON, in a text in JSON, and so on. */
const CONDITION_MESSAGE = /message\\*":\\*"[^{}[\]]*?CANARY-(?:denial|foreign)-s3cret/g;

/** The canaries in `texts`, each once; `cached` omits those in the message of a condition. */
export function found(texts: readonly string[], { cached = false } = {}): readonly string[] {
  const read = texts.map((text) => (cached ? text.replaceAll(CONDITION_MESSAGE, "") : text));
  return [...new Set(read.flatMap((text) => text.match(/CANARY-\w+/g) ?? []))].toSorted();
}

/** The body of a message as text, inflated if it was deflated. */
export function bodyText(body: string): string {
  try {
    return packText(body);
  } catch {
    return body;
  }
}
