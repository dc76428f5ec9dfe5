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
  /** Before the code of a file runs: the last one is the file whose code never ends. */
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
      /** One line, with the place. */
      readonly error: string;
      /** Of the error, as `TypeError`. */
      readonly name: string;
      /** `website.ts:14:31`, without folders. */
      readonly place?: string;
      /** Whether it is the failure of a read by `live`. */
      readonly isRead: boolean;
    };
