/** Upstream's own tests of the three controllers, by their ginkgo names: `[sig-apps] Deployment …`. */

/** All tests that need neither a registry nor a cloud: 18 conformance tests, and 4 others. The longest come first. */
export const TESTS: readonly string[] = [
  "Deployment iterative rollouts should eventually progress",
  "Deployment deployment should support rollover [Conformance]",
  "Deployment should run the lifecycle of a Deployment [Conformance]",
  "Deployment deployment should support proportional scaling [Conformance]",
  "Deployment RollingUpdateDeployment should delete old pods and create new ones [Conformance]",
  "Deployment test Deployment ReplicaSet orphaning and adoption regarding controllerRef",
  "Deployment should validate Deployment Status endpoints [Conformance]",
  "Deployment RecreateDeployment should delete old pods and create new ones [Conformance]",
  "Deployment deployment should delete old replica sets [Conformance]",
  "Deployment deployment reaping should cascade to its replica sets and pods",
  "Deployment Deployment should have a working scale subresource [Conformance]",
  "ReplicaSet Replace and Patch tests [Conformance]",
  "ReplicaSet should validate Replicaset Status endpoints [Conformance]",
  "ReplicaSet should list and delete a collection of ReplicaSets [Conformance]",
  "ReplicaSet should adopt matching pods on creation and release no longer matching pods [Conformance]",
  "ReplicaSet should surface a failure condition on a common issue like exceeded quota",
  "ReplicaSet Replicaset should have a working scale subresource [Conformance]",
  "ReplicationController should release no longer matching pods [Conformance]",
  "ReplicationController should adopt matching pods on creation [Conformance]",
  "ReplicationController should surface a failure condition on a common issue like exceeded quota [Conformance]",
  "ReplicationController should get and update a ReplicationController scale [Conformance]",
  "ReplicationController should test the lifecycle of a ReplicationController [Conformance]",
];

/** The other tests of the same three groups: they need a response from a container, and scripted nodes run none. */
export const LEFT_OUT: readonly { readonly name: string; readonly needs: string }[] = [
  {
    name: "Deployment should not disrupt a cloud load-balancer's connectivity during rollout [Provider:aws,azure,gce]",
    needs: "a load balancer",
  },
  {
    name: "ReplicaSet should serve a basic image on each replica with a private image [Provider:gce]",
    needs: "a registry with a password",
  },
  { name: "ReplicaSet should serve a basic image on each replica with a public image [Conformance]", needs: "containers that answer" },
  {
    name: "ReplicationController should serve a basic image on each replica with a private image [Provider:gce]",
    needs: "a registry with a password",
  },
  {
    name: "ReplicationController should serve a basic image on each replica with a public image [Conformance]",
    needs: "containers that answer",
  },
];
