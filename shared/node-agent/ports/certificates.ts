/** A certificate and its key as PEM. The first certificate is the owner's; the certificates of its issuers follow. */
export interface KeyedCertificate {
  readonly cert: string;
  readonly key: string;
}

/**
 * Stores one certificate of the node with its key.
 *
 * PK1 `current` returns the argument of the last `update`, also after a crash during a later one; before the first, the
 *    initial certificate of the store, if any.
 * PK2 only the user of the agent's process can read it.
 */
export interface CertificateStore {
  /** @throws when the stored certificate is unusable: its key is missing or does not match */
  current(): Promise<KeyedCertificate | undefined>;
  /** Changes nothing on failure. @throws when certificate and key do not match */
  update(certificate: KeyedCertificate): Promise<void>;
}
