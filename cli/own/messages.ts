/** Messages between `dev` and its function host. Values are cloned, so dates stay dates. */
import type { Snapshot, VisibleObject } from "@deltaloop/sdk/context";
import type { Definition, KindId } from "@deltaloop/sdk/definitions";

export type ToHost =
  /** Loads the files, once. */
  | { readonly kind: "load" }
  | {
      readonly kind: "sync";
      readonly id: number;
      readonly controller: string;
      readonly key: string;
      readonly snapshot: Snapshot;
      readonly nowMs: number;
    }
  | { readonly kind: "read"; readonly id: number; readonly read: number; readonly object?: VisibleObject; readonly error?: string };

export type FromHost =
  /** The host has started and waits for `load`. */
  | { readonly kind: "started" }
  /** Sent before the code of a file runs. If loading never ends, the last such message names the file. */
  | { readonly kind: "loads"; readonly file: string }
  /** `files` are the paths of all that was loaded, without packages. */
  | { readonly kind: "loaded"; readonly definitions: readonly Definition[]; readonly files: readonly string[] }
  /** `problem` is one line. */
  | { readonly kind: "unloadable"; readonly problem: string; readonly files: readonly string[] }
  /** Sent before the code of a key runs, so that the parent can identify a key whose code never returns. */
  | { readonly kind: "runs"; readonly id: number }
  | {
      readonly kind: "live";
      readonly id: number;
      readonly read: number;
      readonly of: KindId;
      readonly name: string;
      readonly namespace: string;
    }
  | { readonly kind: "returned"; readonly id: number; readonly result: unknown }
  | {
      readonly kind: "failed";
      readonly id: number;
      /** Message of the error with its place, in one line. */
      readonly error: string;
      /** Name of the error, such as `TypeError`. */
      readonly name: string;
      /** Place of the error, such as `website.ts:14:31`, without folders. */
      readonly place?: string;
      /** Whether it is the failure of a read by `live`. */
      readonly isRead: boolean;
    };
