/**
 * A KubeletConfiguration as the kubelet's codec reads it: it rejects values of wrong types; unknown and repeated fields are ignored with a
 * warning if the version is v1beta1.
 *
 * Source: pkg/kubelet/kubeletconfig/util/codec/codec.go DecodeKubeletConfiguration.
 */
import { isObject } from "@deltaloop/base";
import type { Json, JsonObject } from "@deltaloop/base";
import { decodeGo, mistakeText, parseGoTypes } from "@deltaloop/kube/pod-template";
import { parseYamlOrJson, repeatedKeys } from "@deltaloop/kube/yaml";
import { KUBELET_CONFIG_TYPES } from "./kubelet-config-types.ts";

const KIND = "KubeletConfiguration";
const API_VERSION = "kubelet.config.k8s.io/v1beta1";

export interface DecodedKubeletConfig {
  readonly object: JsonObject;
  /** Values of wrong types, by path. The caller may append to it. */
  readonly mistakes: string[];
  /** Warnings: unknown and repeated fields, by path. */
  readonly ignored: readonly string[];
  /** Paths of unknown fields. */
  readonly unknown: readonly string[];
}

/** Decodes a KubeletConfiguration. @throws {Error} unless `text` is YAML or JSON of that kind and version */
export function decodeKubeletConfig(text: string): DecodedKubeletConfig {
  const content = parseYamlOrJson(text) as Json; // it is some JSON value
  if (!isObject(content) || content["kind"] !== KIND || content["apiVersion"] !== API_VERSION)
    throw new Error(`not a KubeletConfiguration: set apiVersion: ${API_VERSION} and kind: ${KIND}`);
  const { object, mistakes, unknown } = decodeGo(content, parseGoTypes([KUBELET_CONFIG_TYPES])(KIND), KIND);
  const ignored = [
    ...unknown.map((path) => `unknown field "${path}"`),
    ...repeatedKeys(text).map((path) => `field "${path}" is set more than once: the last one counts`),
  ];
  return { object, mistakes: mistakes.map(mistakeText), ignored, unknown };
}
