/** A certificate and its key, PEM; the first certificate is the owner's, others are of who signed it. */
export interface KeyedCertificate {
  readonly cert: string;
  readonly key: string;
}

/**
 * Where a node keeps a certificate of its own, and its key.
 *
 * PK1 `current` is what `update` was given last, also after a crash at any point of a later `update`; before the first one it is
 *    what the store was made with, or `undefined`.
 * PK2 only the user of the agent's process can read it.
 */
export interface CertificateStore {
  /** @throws when there is one that cannot be used: its key is missing or another's */
  current(): Promise<KeyedCertificate | undefined>;
  /** @throws when the two do not belong together; then nothing has changed */
  update(certificate: KeyedCertificate): Promise<void>;
}
