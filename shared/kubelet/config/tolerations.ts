/** Whether a pod puts up with a taint of its node. */
import type { V1Toleration } from "@kubernetes/client-node";
import type { Wire } from "../../api/wire.ts";

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: string;
}

/** An empty key or effect of a toleration stands for all. Source: k8s.io/api core/v1 toleration.go ToleratesTaint. */
export function isTolerated(taint: Taint, tolerations: readonly Wire<V1Toleration>[]): boolean {
  return tolerations.some(({ key = "", operator = "Equal", value = "", effect = "" }) => {
    if (effect !== "" && effect !== taint.effect) return false;
    if (key !== "" && key !== taint.key) return false;
    if (operator === "Exists") return true;
    return (operator === "Equal" || operator === "") && value === (taint.value ?? "");
  });
}
