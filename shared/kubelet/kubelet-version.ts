/** The kubelet release whose behaviour the agent has (node-agent §0): what `kubectl get nodes` shows as VERSION. */
export const KUBELET_VERSION = "v1.36.3";
