import type { AuthConfig } from "./cri-types.ts";

/** The node's registry credentials. */
export interface NodeCredentials {
  /** Returns credentials in the order to try; empty if none is known. Never throws: failures are logged. */
  lookup(image: string): Promise<readonly AuthConfig[]>;
}
