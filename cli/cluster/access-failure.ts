/** Failures of a first read that no retry repairs: credentials, permissions, certificates, and servers other than an API server. */
import { UsageError } from "@deltaloop/base";
import { describeError, KubeApiError, NotKubernetesError, UnansweredError } from "@deltaloop/kube/client";
import { isCertificateError } from "@deltaloop/kube/http";

/** Returns undefined for a failure that may be temporary. */
export function accessFailure(error: unknown, what: string, server: string): UsageError | undefined {
  const remedy = remedyFor(error);
  if (remedy === undefined) return undefined;
  return new UsageError(`cannot ${what} at ${new URL(server).origin}: ${describeError(error)}. ${remedy}`);
}

function remedyFor(error: unknown): string | undefined {
  if (error instanceof KubeApiError) {
    if (error.code === 401) return "Renew the token or certificate of the kubeconfig's user";
    if (error.code === 403) return "Bind a role with this permission to the user, name a namespace with -n, or use another context";
    return error.code >= 500 || error.code === 429 ? undefined : "Check that the kubeconfig's server is a Kubernetes API server";
  }
  if (error instanceof NotKubernetesError) return "Check that the kubeconfig's server is a Kubernetes API server";
  if (!(error instanceof UnansweredError) || !isCertificateError(error)) return undefined;
  return "Check certificate-authority and tls-server-name of the kubeconfig's cluster";
}
