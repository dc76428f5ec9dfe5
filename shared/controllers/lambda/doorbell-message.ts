import * as v from "valibot";

import { BUILT_IN } from "@deltaloop/kube/objects";
import type { Catalog } from "@deltaloop/kube/objects";
import type { DoorbellMessage } from "@deltaloop/store/ports";

/** `namespace/name`, or `/name` in cluster scope, up to the API server's limits. Source: apimachinery pkg/util/validation, DNS1123LabelMaxLength, DNS1123SubdomainMaxLength. */
const OBJECT_KEY = /^[^/]{0,63}\/[^/]{1,253}$/;
/** Limit of the length of a cluster id; deltaloop's have 12 characters. */
const CLUSTER_CHARACTERS_MAX = 64;
/** Limit for an error text that quotes a body, whose length the sender chooses. */
const WHY_CHARACTERS_MAX = 200;

const Message = v.object({
  v: v.literal(1),
  c: v.pipe(v.string(), v.minLength(1), v.maxLength(CLUSTER_CHARACTERS_MAX)),
  ctl: v.string(),
  e: v.pipe(v.string(), v.minLength(1)),
  k: v.pipe(v.string(), v.regex(OBJECT_KEY)),
  u: v.exactOptional(v.string()),
  o: v.exactOptional(v.string()),
});

export type DecodedDoorbell =
  | { readonly kind: "bell"; readonly message: DoorbellMessage }
  /** Harmless: the key stays dirty and the sweeper rings again. Logged and acknowledged. */
  | { readonly kind: "undecodable"; readonly why: string };

/** Decodes a doorbell's body. Never throws. */
export function decodeDoorbell(body: string, { controllers }: Pick<Catalog, "controllers"> = BUILT_IN): DecodedDoorbell {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { kind: "undecodable", why: "not JSON" };
  }
  const result = v.safeParse(Message, value);
  if (result.success) {
    const ctl = controllers.find((controller) => controller === result.output.ctl);
    if (ctl === undefined) return { kind: "undecodable", why: "ctl: not a controller of this deployment" };
    return { kind: "bell", message: { ...result.output, ctl } };
  }
  const [issue] = result.issues;
  const path = issue.path?.map(({ key }) => String(key)).join(".") ?? "";
  return { kind: "undecodable", why: (path === "" ? issue.message : `${path}: ${issue.message}`).slice(0, WHY_CHARACTERS_MAX) };
}
