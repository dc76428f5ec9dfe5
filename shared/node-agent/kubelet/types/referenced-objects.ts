/** The ConfigMaps and Secrets that a pod references; `undefined` if the object does not exist. */
export interface ReferencedObjects {
  configMap(name: string): ConfigMapData | undefined;
  secret(name: string): SecretData | undefined;
}

export interface ConfigMapData {
  readonly data?: Readonly<Record<string, string>>;
  /** Values in base64. */
  readonly binaryData?: Readonly<Record<string, string>>;
  readonly immutable?: boolean;
}

export interface SecretData {
  /** Values in base64. */
  readonly data?: Readonly<Record<string, string>>;
  readonly type?: string;
  readonly immutable?: boolean;
}
