/** Signs texts of rows.ts again. Flags are not signed and stay; a text with a bad signature is returned as `forged`. */
import type { OwnerId, View, ObjectKey } from "@deltaloop/kube/objects";
import type { SignedDomain, Verdict } from "../signer.ts";
import { US } from "./rows.ts";
import type { Seal } from "./rows.ts";

export interface Judged {
  readonly verdict: Verdict;
  /** The text signed with the current key; it may replace only a text of a former key. */
  readonly resigned: string;
}

export function judgeRow({ signer, epoch }: Seal, resource: View, key: ObjectKey, text: string): Judged {
  const [rv = "", uid = "", owner = "", signature = "", flags = ""] = text.split(US);
  return judge(signer, "v", [epoch, resource, key, uid, rv, owner], signature, (fresh) => [rv, uid, owner, fresh, flags].join(US));
}

export function judgeTombstone({ signer, epoch }: Seal, resource: View, key: ObjectKey, text: string): Judged {
  const [rv = "", uid = "", signature = ""] = text.split(US);
  return judge(signer, "t", [epoch, resource, key, uid, rv], signature, (fresh) => [rv, uid, fresh].join(US));
}

export function judgeEntry({ signer, epoch }: Seal, resource: View, key: ObjectKey, owner: OwnerId | undefined, text: string): Judged {
  const [flags = "", rv = "", uid = "", signature = "", ...rest] = text.split(US);
  const object = rest.join(US);
  const parts = [epoch, resource, key, uid, rv, owner ?? "", object];
  return judge(signer, "s", parts, signature, (fresh) => [flags, rv, uid, fresh, object].join(US));
}

function judge(
  signer: Seal["signer"],
  domain: SignedDomain,
  parts: readonly string[],
  signature: string,
  assemble: (signature: string) => string,
): Judged {
  const verdict = signer.verify(domain, parts, signature);
  return { verdict, resigned: verdict === "former" ? assemble(signer.sign(domain, parts)) : "" };
}
