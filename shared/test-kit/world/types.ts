/** The interface of a World for tests. */
import type { AnyKind, Applied, Controller, Duration } from "@deltaloop/sdk";
import type { FieldsOf } from "@deltaloop/sdk/definitions";
import type { EndState } from "./end-state.ts";
import type { GivenObject } from "../decide/given.ts";
import type { WorldWrite } from "./record.ts";

export interface EveryCrashOptions {
  /** Runs only this crash, in the notation of a failure's message: `after 7`. */
  readonly at?: string;
}

export interface WorldOptions {
  readonly controllers: readonly Controller[];
  /** The time at which it starts. Default: 2026-01-01T00:00:00Z. */
  readonly now?: Date;
  /** The seed of all randomness in it, such as uids. Default: 1. */
  readonly seed?: number;
  /** False: no built-in controllers and nodes, so no pod starts. Such a world is faster. Default: true. */
  readonly builtIn?: boolean;
}

/** An object as the API server has it. Frozen. */
export interface StoredObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly generation?: number;
    readonly creationTimestamp: string;
    readonly deletionTimestamp?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly finalizers?: readonly string[];
    readonly ownerReferences?: readonly object[];
    readonly managedFields?: readonly object[];
  };
}

/** A stored object of the kind `K`. */
export type Stored<K> = StoredObject & FieldsOf<K>;

/**
 * An in-memory cluster: an API server with the controllers' CustomResourceDefinitions, deltaloop's pipeline from watch to write, the built-in
 * controllers, and nodes whose pods become ready. Time passes only in `settle` and `advance`. Each sync runs twice on one snapshot.
 *
 * Every method that waits throws if two syncs on one snapshot differ, or if a write breaks a rule: a controller may change only objects that
 * its primary owns.
 */
export interface World {
  /** The virtual time. */
  readonly now: Date;
  /**
   * Creates or changes an object as `kubectl apply` does, with its status if there is one. A missing namespace is created.
   * @param manager the field manager, which takes fields of others over. Default: `test`
   * @returns the stored object. @throws {Error} with the API server's message
   */
  apply(object: GivenObject | Applied, manager?: string): Promise<StoredObject>;
  /** Merges `patch` into an object, as another writer. `namespace` is "" for a cluster-scoped kind. @throws {Error} with the API server's message */
  edit<K extends AnyKind>(kind: K, namespace: string, name: string, patch: object): Promise<Stored<K>>;
  /** @throws {Error} with the API server's message, also if there is no such object */
  delete(kind: AnyKind, namespace: string, name: string): Promise<void>;
  /** The object as it is now; undefined if there is none. */
  get<K extends AnyKind>(kind: K, namespace: string, name: string): Stored<K> | undefined;
  /** The objects of a kind, in one namespace or all. */
  list<K extends AnyKind>(kind: K, namespace?: string): Promise<readonly Stored<K>[]>;
  /** Writes of the controllers so far, with their reasons. Events are left out. */
  writes(): readonly WorldWrite[];
  /**
   * Lets time pass until nothing is outstanding: no sync is running or due within a second, and no client has written for a second. Keys that
   * wait longer, because of `again` or a taken name, stay. @throws {Error} that says what keeps going, or which sync fails
   */
  settle(): Promise<void>;
  /** Lets time pass, for example `"1h"`. */
  advance(duration: Duration): Promise<void>;
  /**
   * Runs a scenario in new worlds: once without faults to count the calls, then twice for each call with a crash before and after it. Each
   * run must end in the same state, create nothing twice, and touch no object that the primary does not own.
   * @throws {Error} with the call, the difference, and how to repeat the run
   */
  everyCrash(scenario: Scenario, options?: EveryCrashOptions): Promise<void>;
}

/** What happens in a world. It is run many times, so it must not depend on anything outside. It need not end with `settle`. */
export type Scenario = (world: World) => Promise<void>;

/** Methods that only this package and simulations use. */
export interface OpenWorld extends World {
  endState(): Promise<EndState>;
  /** How often each object was created. */
  created(): ReadonlyMap<string, number>;
  /** Syncs every primary again. @throws {Error} if that sends a write, although nothing has changed */
  resync(): Promise<void>;
  /** The cache loses everything, as when Redis is emptied. */
  emptyStore(): void;
}
