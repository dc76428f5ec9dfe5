/** A certificate and its key in PEM. The owner's certificate comes first, followed by the certificates of its issuers. */
export interface KeyedCertificate {
  readonly cert: string;
  readonly key: string;
}

/**
 * Stores one certificate of the node with its key.
 *
 * PK1 `current` returns the argument of the last `update`, even after a crash during a later update. Before the first update, it returns
 *     the initial certificate of the store, if any.
 * PK2 only the user of the agent's process can read it.
 */
export interface CertificateStore {
  /** @throws if the stored certificate is unusable because its key is missing or does not match */
  current(): Promise<KeyedCertificate | undefined>;
  /** Changes nothing if it fails. @throws if certificate and key do not match */
  update(certificate: KeyedCertificate): Promise<void>;
}
