import type { AuthConfig } from "./cri-types.ts";

/** The node's own credentials for registries. */
export interface NodeCredentials {
  /** Credentials in the order to try; empty if none is known. Never throws: failures are logged. */
  lookup(image: string): Promise<readonly AuthConfig[]>;
}
