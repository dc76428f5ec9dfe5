/** ConfigMaps and Secrets that a pod refers to. */

/** The ConfigMaps and Secrets of the pod's namespace, as far as the pod names them; `undefined` = there is none of that name. */
export interface ReferencedObjects {
  configMap(name: string): ConfigMapData | undefined;
  secret(name: string): SecretData | undefined;
}

export interface ConfigMapData {
  readonly data?: Readonly<Record<string, string>>;
  /** Base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

export interface SecretData {
  /** Base64. */
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly immutable?: boolean;
}
