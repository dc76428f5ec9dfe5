import type { AuthConfig } from "./cri-types.ts";

/** The node's registry credentials. */
export interface NodeCredentials {
  /** Returns credentials in the order in which to try them; empty if none match. Never throws: failures are logged. */
  lookup(image: string): Promise<readonly AuthConfig[]>;
}
