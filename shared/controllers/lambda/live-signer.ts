import { createSigner } from "@deltaloop/store/ports";
import type { Signer } from "@deltaloop/store/ports";

/**
 * A signer whose keys may change during use: each call uses the present keys. `onUnknown` is called for each text that is signed with an
 * unknown key, as during a rotation.
 */
export function liveSigner(keys: () => readonly string[], cluster: string, onUnknown?: () => void): Signer {
  let held = keys();
  let signer = createSigner(held, cluster);
  const present = (): Signer => {
    const now = keys();
    if (now !== held) [held, signer] = [now, createSigner(now, cluster)];
    return signer;
  };
  return {
    get keyId() {
      return present().keyId;
    },
    sign: (domain, parts) => present().sign(domain, parts),
    verify(domain, parts, signature) {
      const verdict = present().verify(domain, parts, signature);
      if (verdict === "unknown") onUnknown?.();
      return verdict;
    },
  };
}
