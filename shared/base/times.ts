/**
 * Every time limit that another one rests on, in one table: for both Stores, all functions, queues and clients. What cannot
 * import this file (infra/functions.yml, infra/queues.yml) is generated from it (infra/generate.ts); test/tooling compares.
 *
 * Timeline of one call of a run; no write may land after another run may have begun:
 *
 *     renewed                      last start       given up   lease ends
 *     |------ 12 s to start in ------|---- 12 s to land ----| 1 s |
 *     0                             12                     24    25
 *
 * | what dies | comes back after | bound |
 * |---|---|---|
 * | a sync function, killed −9 | lease, then the sweeper's next round | 25 + 2 s |
 * | a call of a dead run | its op's deadline, which is over when the lease is | 20 s |
 * | an apply-deltas, killed −9 | visibility of Q1 | 30 s |
 */

const SECOND_MS = 1_000;

// ------------------------------------------------------------------------------------------------------------ API server

/**
 * One call to the API server, from the moment it is sent to the last byte; also sent as `timeout=`, so that the server gives
 * up by then, too. Longer than an admission webhook may take by default (10 s, `timeoutSeconds` of a webhook).
 */
export const REQUEST_TIMEOUT_MS = 12 * SECOND_MS;

/** No API write starts later than this before the lease or the invocation ends, so it lands before another run begins. */
export const WRITE_MARGIN_MS = REQUEST_TIMEOUT_MS + SECOND_MS;

/**
 * How long an abandoned call may still be executed: the connection may be lost after sending, and the server
 * continues until the request timeout. The rest is for the network.
 */
export const MAY_LAND_MS = REQUEST_TIMEOUT_MS + 3 * SECOND_MS;

/** What callers without a time of their own wait for a free connection, and in all for what the server asked them to wait. */
export const QUEUE_TIMEOUT_MS = 30 * SECOND_MS;
export const RETRY_WAIT_MS_MAX = 60 * SECOND_MS;

/** An Event is worth that much waiting, and no sync ends later for one. */
export const EVENT_WAIT_MS_MAX = 10 * SECOND_MS;

/** A Lease is renewed within 5 s or not at all: 2 s until it is sent, 3 s until it is answered; its next round tries again. */
export const LEASE_CALL_WAIT_MS_MAX = 2 * SECOND_MS;
export const LEASE_CALL_TIMEOUT_MS = 3 * SECOND_MS;

/**
 * The node agent's Node and its lease have a tick of 10 s each, within which a call for them ends. Its other calls are made in
 * turns of at most 110 s, a few one after another. Source: cmd/kubelet/app/server.go
 * heartbeatClientConfig, whose time-out is NodeStatusUpdateFrequency, 10 s.
 */
export const HEARTBEAT_WAIT_MS_MAX = 5 * SECOND_MS;
export const HEARTBEAT_TIMEOUT_MS = 5 * SECOND_MS;
export const NODE_CALL_WAIT_MS_MAX = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------- work queue

/** Lease of a run on its key. After a kill another run has the key within 30 s: the lease plus the sweeper's next rounds. */
export const LEASE_MS = 25 * SECOND_MS;
export const RENEWAL_MS = 5 * SECOND_MS;
export const SWEEP_PERIOD_MS = 2 * SECOND_MS;
export const TAKEOVER_MS_MAX = 30 * SECOND_MS;

/**
 * A key that is due later than this is left to the sweeper, which rings it 5 to 7 s after its time: a message to a Deployment that will be
 * looked at in ten minutes, and mostly for nothing, would be sent, received, answered and paid for.
 */
export const RUNG_WITHIN_MS = 120 * SECOND_MS;

/**
 * How long a pending op blocks creates and deletes after its run's last sign of life. It exceeds the time in which the call
 * may land, and ends by the time a dead run's lease does, so the next run looks the calls up at once.
 */
export const OP_DEADLINE_MS = LEASE_MS - RENEWAL_MS;

/**
 * How long an op blocks whose call was answered in a way that promises nothing: a create in a namespace that is going away.
 * Source: pkg/controller/controller_utils.go ExpectationsTimeout.
 */
export const EXPECTATION_MS = 300 * SECOND_MS;

// ----------------------------------------------------------------------------------------------------------- delta queue

/** The longest that an operator may have live events wait for company: a gate shuts when nothing has come for far longer. */
export const BATCHING_WINDOW_MS_MAX = 10 * SECOND_MS;

/** A lane's hole shuts the gate of its readers after that long. Source: informer §19, for FIFO queues, as Q1 is everywhere. */
export const HOLE_LIMIT_MS = 2 * SECOND_MS;
/**
 * An older one has lost its message: nothing later of its lane is delivered before it. Longer than the sender's first three tries take
 * (0.8 s doubling, jittered), so a throttled queue raises no fence. Source: informer §19, for FIFO queues.
 */
export const HOLE_RELIST_MS = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------------ loss

/** How often the watcher looks whether the Store is still the one it was (informer §11.7). */
export const CHECKPOINT_MS = SECOND_MS;

/** What was begun under an epoch that was replaced may read it for so long: a sync lasts a minute, a person's look some more. */
export const EPOCH_GRACE_MS = 10 * 60 * SECOND_MS;

/** The same in a full Store (FU5). Every step compares the epoch, so what is late finds another one, not half of its own. */
export const EPOCH_GRACE_FULL_MS = 5 * SECOND_MS;

/** How long a Store that was full must have had room before what it left out is listed: a list that fills it anew should not be the next. */
export const FULL_SETTLE_MS = 15 * SECOND_MS;

/** How often the leader takes away some of what older epochs have left: 1,000 keys at most. */
export const FORGET_PERIOD_MS = 10 * SECOND_MS;

/** How long a write waits for a replica in durability class B (informer §11.8). */
export const REPLICA_WAIT_MS = 100;

// ---------------------------------------------------------------------------------------------------------------- upkeep

/**
 * Every primary of a controller is looked at that often, though nothing happened: upstream's resync, which is also what brings back a
 * key that was given up. Each time half as long to one and a half times that long, so that controllers do not meet.
 * Source: cmd/kube-controller-manager/app ResyncPeriod, 12 to 24 h; informer §15.
 */
export const RESYNC_MS = 36_000 * SECOND_MS;
/** The keys of one resync are spread over that long. */
export const RESYNC_SPREAD_MS = 600 * SECOND_MS;

/** What is cached of a resource is compared with what the API server has at least that often: nothing that differs stays longer. */
export const AUDIT_MS = 3_600 * SECOND_MS;
/**
 * How long an audit waits until lanes have come as far as its list. Where nothing happens that takes a bookmark, about one a minute,
 * and the heartbeat after it.
 */
export const AUDIT_SETTLE_MS = 90 * SECOND_MS;
/** How often the watcher's leader asks whether it is time for one of them. */
export const UPKEEP_TICK_MS = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------- secrets

/**
 * What was read of a secret is used for so long, or less where DELTALOOP_SECRETS_SECONDS says so. So after a change everybody has it once
 * this has passed: a step of a rotation waits for it (docs/internals/threat-model.md).
 */
export const SECRET_MS_MAX = 300 * SECOND_MS;

// -------------------------------------------------------------------------------------------------- functions and queues

/** Time limits of the deployed functions, in seconds as Lambda has them. */
export const FUNCTION_TIMEOUT_SECONDS = { "apply-deltas": 5, "dead-deltas": 5, sync: 60, sweep: 30 } as const;

/** What AWS recommends: a message stays invisible for six time limits of the function that reads it. */
const VISIBILITY_PER_TIMEOUT = 6;
export const VISIBILITY_SECONDS = {
  deltas: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS["apply-deltas"],
  deadDeltas: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS["dead-deltas"],
  doorbells: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS.sync,
} as const;

/** What is not settled this long before the invocation ends is answered as failed, so that its neighbours are not failed with it. */
export const ANSWER_RESERVE_MS = SECOND_MS;

/** Redis command timeout: reported before the shortest function times out, and longer than any script takes. */
export const REDIS_COMMAND_TIMEOUT_MS = 3 * SECOND_MS;
export const REDIS_CONNECT_TIMEOUT_MS = 2 * SECOND_MS;

/** Live reads of apply-deltas and dead-deltas, which write nothing: a message that cannot be applied in time comes again. */
export const APPLIER_REQUEST_TIMEOUT_MS = 2 * SECOND_MS;
export const APPLIER_WAIT_MS_MAX = SECOND_MS;
