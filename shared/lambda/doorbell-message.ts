import * as v from "valibot";

import { CONTROLLERS } from "../api/resources.ts";
import type { DoorbellMessage } from "../ports/doorbells.ts";

/** `namespace/name`, neither part empty. */
const OBJECT_KEY = /^[^/]+\/[^/]+$/;

const Message = v.object({
  v: v.literal(1),
  c: v.pipe(v.string(), v.minLength(1)),
  ctl: v.picklist(CONTROLLERS),
  e: v.pipe(v.string(), v.minLength(1)),
  k: v.pipe(v.string(), v.regex(OBJECT_KEY)),
  u: v.exactOptional(v.string()),
  o: v.exactOptional(v.string()),
});

export type DecodedDoorbell =
  | { readonly kind: "bell"; readonly message: DoorbellMessage }
  /** Nothing is lost with it: the key stays dirty and the sweeper rings again. Log it by name and acknowledge. */
  | { readonly kind: "undecodable"; readonly why: string };

/** What a doorbell's body says. Never throws. */
export function decodeDoorbell(body: string): DecodedDoorbell {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { kind: "undecodable", why: "not JSON" };
  }
  const result = v.safeParse(Message, value);
  if (result.success) return { kind: "bell", message: result.output };
  const [issue] = result.issues;
  const path = issue.path?.map(({ key }) => String(key)).join(".") ?? "";
  return { kind: "undecodable", why: path === "" ? issue.message : `${path}: ${issue.message}` };
}
