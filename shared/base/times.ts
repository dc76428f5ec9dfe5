/**
 * All time limits that depend on each other, for both Stores and all functions, queues and clients. Files that cannot import this one
 * (infra/functions.yml, infra/queues.yml) are generated from it by infra/generate.ts.
 *
 * Timeline of one call of a run. No write may take effect after another run may have begun:
 *
 *     renewed                      last start       given up   lease ends
 *     |------ 12 s to start in ------|---- 12 s to land ----| 1 s |
 *     0                             12                     24    25
 *
 * | process that dies | its work continues after | at most |
 * |---|---|---|
 * | a sync function, killed −9 | lease, then the sweeper's next round | 25 + 2 s |
 * | a call of a dead run | the deadline of its intent, which ends before the lease | 20 s |
 * | an apply-deltas, killed −9 | visibility of the delta queue | 30 s |
 */

const SECOND_MS = 1_000;

// ------------------------------------------------------------------------------------------------------------ API server

/**
 * Timeout of one call to the API server, from sending it to the last byte of the response. It is also sent as `timeout=`, so that the
 * server gives up at the same time. Longer than the default timeout of an admission webhook (10 s).
 */
export const REQUEST_TIMEOUT_MS = 12 * SECOND_MS;

/** No API write starts later than this before the lease or the invocation ends, so that the write ends before another run begins. */
export const WRITE_MARGIN_MS = REQUEST_TIMEOUT_MS + SECOND_MS;

/**
 * How long an abandoned call may still be executed: the connection may be lost after sending, and the server continues until the request
 * timeout. The 3 s are a margin for the network.
 */
export const MAY_LAND_MS = REQUEST_TIMEOUT_MS + 3 * SECOND_MS;

/** Longest wait for a free connection, and longest total wait for Retry-After, for callers that pass no retry budget. */
export const QUEUE_TIMEOUT_MS = 30 * SECOND_MS;
export const RETRY_WAIT_MS_MAX = 60 * SECOND_MS;

/** Longest wait to send an Event. Events do not delay the end of a sync. */
export const EVENT_WAIT_MS_MAX = 10 * SECOND_MS;

/** Renewing a Lease takes at most 5 s: 2 s until it is sent, 3 s until the response. The next period retries it. */
export const LEASE_CALL_WAIT_MS_MAX = 2 * SECOND_MS;
export const LEASE_CALL_TIMEOUT_MS = 3 * SECOND_MS;

/**
 * Timeout of the node agent's calls for its Node and its Lease, which it updates every 10 s. Its other calls belong to sync iterations of
 * at most 110 s, a few in sequence. Source: cmd/kubelet/app/server.go
 * heartbeatClientConfig, whose time-out is NodeStatusUpdateFrequency, 10 s.
 */
export const HEARTBEAT_WAIT_MS_MAX = 5 * SECOND_MS;
export const HEARTBEAT_TIMEOUT_MS = 5 * SECOND_MS;
export const NODE_CALL_WAIT_MS_MAX = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------- work queue

/** Lease of a run on its key. After a crash another run takes the key within 30 s: the lease plus the sweeper's next pass. */
export const LEASE_MS = 25 * SECOND_MS;
export const RENEWAL_MS = 5 * SECOND_MS;
export const SWEEP_PERIOD_MS = 2 * SECOND_MS;
export const TAKEOVER_MS_MAX = 30 * SECOND_MS;

/**
 * A key that is due later than this is left to the sweeper, which enqueues it 5 to 7 s after its due time. For a Deployment that is due in
 * ten minutes, a message would cost a send and a receive, usually for a sync without work.
 */
export const RUNG_WITHIN_MS = 120 * SECOND_MS;

/**
 * How long an intent blocks creates and deletes after its run's last renewal. Longer than its call may take to be executed, but no longer
 * than a crashed run's lease, so that the next run checks the calls at once.
 */
export const OP_DEADLINE_MS = LEASE_MS - RENEWAL_MS;

/**
 * How long the intent of a create that a terminating namespace has rejected blocks further creates, as upstream's expectation.
 * Source: pkg/controller/controller_utils.go ExpectationsTimeout.
 */
export const EXPECTATION_MS = 300 * SECOND_MS;

// ----------------------------------------------------------------------------------------------------------- delta queue

/** Longest batching window that an operator may set. A gate closes only after a much longer silence. */
export const BATCHING_WINDOW_MS_MAX = 10 * SECOND_MS;

/**
 * Once a message of a lane has been missing this long, the gates of the controllers that read the lane close. Source: informer §19, for
 * FIFO queues.
 */
export const HOLE_LIMIT_MS = 2 * SECOND_MS;
/**
 * Once a message of a lane has been missing this long, it counts as lost, because a FIFO queue delivers no later message of the lane before
 * it; the watcher then raises the fence. Longer than the sender's first three attempts (0.8 s, doubling, with jitter), so that a throttled
 * queue does not cause this. Source: informer §19, for FIFO queues.
 */
export const HOLE_RELIST_MS = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------------ loss

/** How often the watcher checks that the Store still has its data (informer §11.7). */
export const CHECKPOINT_MS = SECOND_MS;

/**
 * The same for a quiet cluster, if the process serves several: no less often than CLOCK_TRUST_MS, within which the Store's time advances
 * and runs may be taken over, and often enough that a crashed run's key is taken over within TAKEOVER_MS_MAX.
 */
export const QUIET_CHECKPOINT_MS = 3 * SECOND_MS;

/**
 * How far the Store's time advances by the server's clock after a checkpoint. Beyond it the server's clock may have jumped, and no run is
 * taken over before the next checkpoint (informer §12.5).
 */
export const CLOCK_TRUST_MS = 3 * CHECKPOINT_MS;

/** How long readers may use a replaced epoch: longer than any sync (up to a minute) or command. */
export const EPOCH_GRACE_MS = 10 * 60 * SECOND_MS;

/**
 * The grace period of a replaced epoch in a full Store (FU5). Every step compares the epoch, so a late reader notices the change and never
 * reads a partly deleted epoch.
 */
export const EPOCH_GRACE_FULL_MS = 5 * SECOND_MS;

/** How long a full Store must have had room before the skipped data is listed again, so that the list does not fill it at once. */
export const FULL_SETTLE_MS = 15 * SECOND_MS;

/** How often the leader deletes up to 1,000 keys of older epochs. */
export const FORGET_PERIOD_MS = 10 * SECOND_MS;

/** How long a write waits for a replica in durability class B (informer §11.8). */
export const REPLICA_WAIT_MS = 100;

// ----------------------------------------------------------------------------------------------------- resync and audit

/**
 * Resync period: every primary of a controller is enqueued without a change, as upstream does. This also retries dropped keys.
 * Each period is jittered by ±50 %, so that controllers do not coincide.
 * Source: cmd/kube-controller-manager/app ResyncPeriod, 12 to 24 h; informer §15.
 */
export const RESYNC_MS = 36_000 * SECOND_MS;
/** Time over which the keys of one resync are spread. */
export const RESYNC_SPREAD_MS = 600 * SECOND_MS;

/** Longest interval between audits, which compare the cache of a resource with the API server and so bound how long a difference lasts. */
export const AUDIT_MS = 3_600 * SECOND_MS;
/**
 * How long an audit waits until the lanes have reached the version of its list. Without changes that takes a bookmark, about one a minute,
 * and the heartbeat that follows it.
 */
export const AUDIT_SETTLE_MS = 90 * SECOND_MS;
/** How often the watcher's leader checks whether a resync or an audit is due. */
export const UPKEEP_TICK_MS = 10 * SECOND_MS;

// ------------------------------------------------------------------------------------------------------------- secrets

/**
 * How long a secret is used before it is read again; DELTALOOP_SECRETS_SECONDS can shorten it. Each step of a rotation waits this long, so
 * that every process has the change (docs/internals/threat-model.md).
 */
export const SECRET_MS_MAX = 300 * SECOND_MS;

// -------------------------------------------------------------------------------------------------- functions and queues

/** Timeouts of the deployed functions, in seconds as in Lambda. */
export const FUNCTION_TIMEOUT_SECONDS = { "apply-deltas": 5, "dead-deltas": 5, sync: 60, sweep: 30 } as const;

/** Ratio of a queue's visibility timeout to the timeout of its function, as AWS recommends. */
const VISIBILITY_PER_TIMEOUT = 6;
export const VISIBILITY_SECONDS = {
  deltas: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS["apply-deltas"],
  deadDeltas: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS["dead-deltas"],
  doorbells: VISIBILITY_PER_TIMEOUT * FUNCTION_TIMEOUT_SECONDS.sync,
} as const;

/**
 * A message that is unfinished this long before the invocation ends is reported as failed, so that the other messages of the batch do not
 * fail with it.
 */
export const ANSWER_RESERVE_MS = SECOND_MS;

/** Redis command timeout: shorter than the shortest function timeout, and longer than any script takes. */
export const REDIS_COMMAND_TIMEOUT_MS = 3 * SECOND_MS;
export const REDIS_CONNECT_TIMEOUT_MS = 2 * SECOND_MS;

/** Timeout of live reads in apply-deltas and dead-deltas. These write nothing, and a message that is not applied in time is redelivered. */
export const APPLIER_REQUEST_TIMEOUT_MS = 2 * SECOND_MS;
export const APPLIER_WAIT_MS_MAX = SECOND_MS;
