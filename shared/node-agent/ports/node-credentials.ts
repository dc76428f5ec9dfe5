import type { AuthConfig } from "./cri-types.ts";

/** The node's own credentials for registries. */
export interface NodeCredentials {
  /** In the order in which they are to be tried; none where nobody knows any. Never fails: what goes wrong is logged. */
  lookup(image: string): Promise<readonly AuthConfig[]>;
}
