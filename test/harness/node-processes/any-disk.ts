/**
 * Flags for nodes of tests, so that a test passes however full the disk of its machine is. By default, as upstream's kubelet does, an agent
 * on a disk with less than 15 % free space taints its node, evicts pods and removes unused images. A test that is about these gives its own
 * flags, which replace these.
 */
export const ON_ANY_DISK = ["--eviction-hard", "memory.available<100Mi", "--image-gc-high-threshold", "100"] as const;

/** The same for the configuration file of upstream's kubelet, which reads a threshold of 0 % as none. */
export const ON_ANY_DISK_UPSTREAM = {
  evictionHard: { "memory.available": "100Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%" },
  imageGCHighThresholdPercent: 100,
} as const;
