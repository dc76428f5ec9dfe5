/**
 * Requests, stores and rotates one certificate of the node (node-agent §14.6).
 *
 * KP1 `current` never returns an expired certificate, and returns the same object until the certificate changes.
 * KP2 the store holds a new certificate before it becomes current.
 * KP3 a failed request is retried; the current certificate stays in use until it expires.
 *
 * Source: client-go util/certificate/certificate_manager.go.
 */
import { createPrivateKey, createPublicKey, generateKeyPairSync } from "node:crypto";
import { messageOf } from "@deltaloop/kube/objects";
import { readCertificate } from "../kubelet/certificate/certificate-request.ts";
import type { CertificateFacts, CertificateTemplate } from "../kubelet/certificate/certificate-request.ts";
import { rotationDeadlineMs, sameTemplate, satisfies } from "../kubelet/certificate/rotation.ts";
import type { SignerName } from "../kubelet/certificate/signing-request.ts";
import type { CertificateStore, KeyedCertificate } from "../ports/certificates.ts";
import type { Clock, Log, Random } from "@deltaloop/base";
import { isForbidden, isNotFound, isUnauthorized } from "@deltaloop/kube/client";
import type { Metrics } from "@deltaloop/base/metrics";
import { requestCertificate, waitForCertificate } from "./request-certificate.ts";
import type { SigningKube } from "./request-certificate.ts";

const POLL_MS = 1_000;
/** Time limit for the approval of one request. Source: certificate_manager.go certificateWaitTimeout. */
const APPROVAL_MS_MAX = 15 * 60_000;
/** Source: certificate_manager.go run. */
const BACK_OFF = { firstMs: 2_000, steps: 5, jitter: 0.1, thenMs: 32_000 };
/** Generates names as the API server does. Source: apiserver storage/names/generate.go; apimachinery util/rand. */
const NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789";
const NAME_LENGTH = 5;

/** Metric names, as in metric-table.ts. Upstream has no lifetime metric for client certificates. */
const NAMES = {
  "kubernetes.io/kube-apiserver-client-kubelet": {
    ttl: "kubelet_certificate_manager_client_ttl_seconds",
    failures: "kubelet_certificate_manager_client_expiration_renew_errors",
    lifetime: undefined,
  },
  "kubernetes.io/kubelet-serving": {
    ttl: "kubelet_certificate_manager_server_ttl_seconds",
    failures: "kubelet_server_expiration_renew_errors",
    lifetime: "kubelet_certificate_manager_server_rotation_seconds",
  },
} as const satisfies Record<SignerName, object>;

/** Reports a TTL of +Inf for certificates that no manager rotates. Differs from upstream, which reports no TTL for them. */
export function reportUnmanagedCertificates(metrics: Metrics): void {
  for (const { ttl } of Object.values(NAMES)) metrics.set(ttl, {}, Infinity);
}

export interface CertificateManagerOptions {
  readonly signerName: SignerName;
  readonly store: CertificateStore;
  /** Subject of the node's certificate; while it is `undefined`, no request is made. */
  readonly template: () => CertificateTemplate | undefined;
  /** Returns the API client for a request. `current` is the certificate to authenticate with, if there is one. */
  readonly kube: (current: KeyedCertificate | undefined) => SigningKube;
  /** Certificate to use while the store has no valid one; it is replaced immediately. */
  readonly first?: KeyedCertificate;
  /** Called with the initial certificate, if any, and with each new certificate. */
  readonly onCurrent?: (certificate: KeyedCertificate) => void;
  readonly metrics?: Metrics;
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
}

interface Held {
  readonly certificate: KeyedCertificate;
  readonly facts: CertificateFacts;
}

export class CertificateManager {
  readonly #options: CertificateManagerOptions;
  #held: Held | undefined;
  #isDue: boolean;
  #isServerHealthy = false;

  private constructor(options: CertificateManagerOptions, held: Held | undefined, isDue: boolean) {
    this.#options = options;
    this.#held = held;
    this.#isDue = isDue;
    if (held !== undefined) options.onCurrent?.(held.certificate);
    this.#reportTtl();
  }

  /** @throws when the stored certificate cannot be read. Source: certificate_manager.go getCurrentCertificateOrBootstrap. */
  static async open(options: CertificateManagerOptions): Promise<CertificateManager> {
    const { store, clock, first, log } = options;
    const stored = await store.current();
    if (stored !== undefined) {
      const held = { certificate: stored, facts: readCertificate(stored.cert) };
      if (clock.now() < held.facts.notAfterMs) return new CertificateManager(options, held, false);
    }
    if (first === undefined) return new CertificateManager(options, undefined, true);
    await store.update(first).catch((error: unknown) => log.warn("failed to store the initial certificate", { error: messageOf(error) }));
    return new CertificateManager(options, { certificate: first, facts: readCertificate(first.cert) }, true);
  }

  current(): KeyedCertificate | undefined {
    return this.#held === undefined || this.#options.clock.now() > this.#held.facts.notAfterMs ? undefined : this.#held.certificate;
  }

  /** Whether the API server answered the last request, by signing it or by rejecting it with 401, 403 or 404. Source: updateServerError. */
  get isServerHealthy(): boolean {
    return this.#isServerHealthy;
  }

  /** Resolves when `signal` aborts. */
  async run(signal: AbortSignal): Promise<void> {
    await Promise.all([this.#rotateBeforeExpiry(signal), this.#keepReporting(signal)]);
  }

  async #keepReporting(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    for (; !signal.aborted; await clock.after(POLL_MS, signal).catch(() => undefined)) this.#reportTtl();
  }

  /**
   * Reports the TTL in whole seconds, or +Inf without a certificate. Source: pkg/kubelet/certificate/kubelet.go, cmd/kubelet/app/server.go.
   */
  #reportTtl(): void {
    const { clock, metrics, signerName } = this.#options;
    const endMs = this.current() === undefined ? undefined : this.#held?.facts.notAfterMs;
    metrics?.set(NAMES[signerName].ttl, {}, endMs === undefined ? Infinity : Math.trunc((endMs - clock.now()) / 1_000));
  }

  async #rotateBeforeExpiry(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#untilDue(signal);
        await this.#rotateWithRetries(signal);
        await this.#options.clock.after(POLL_MS, signal);
      } catch (error) {
        if (!signal.aborted) throw error;
      }
    }
  }

  /** Polls every second, because the addresses of the machine may change, and because a Node.js timer is limited to 24 days. */
  async #untilDue(signal: AbortSignal): Promise<void> {
    const { clock, random, template } = this.#options;
    if (!this.#isDue && this.#held !== undefined) {
      const { facts } = this.#held;
      const deadlineMs = rotationDeadlineMs(facts, random.next());
      const [expires, rotated] = [facts.notAfterMs, deadlineMs].map((ms) => new Date(ms).toISOString());
      this.#options.log.info("certificate is valid; rotation scheduled", { signer: this.#options.signerName, expires, rotated });
      while (clock.now() < deadlineMs && satisfies(facts, template())) await clock.after(POLL_MS, signal);
    }
    while (template() === undefined) await clock.after(POLL_MS, signal);
    this.#isDue = false;
  }

  async #rotateWithRetries(signal: AbortSignal): Promise<void> {
    const { clock, random, log, signerName } = this.#options;
    for (let failures = 0; !(await this.rotate(signal)); failures++) {
      if (failures === BACK_OFF.steps) log.error("certificate rotation keeps failing, retrying", { signer: signerName });
      const delayMs =
        failures < BACK_OFF.steps ? BACK_OFF.firstMs * 2 ** failures * (1 + BACK_OFF.jitter * random.next()) : BACK_OFF.thenMs;
      await clock.after(delayMs, signal);
    }
  }

  /** Sends one request with a new key. @returns whether a certificate was issued */
  async rotate(signal: AbortSignal): Promise<boolean> {
    const { clock, log, signerName, store } = this.#options;
    const template = this.#options.template();
    if (template === undefined) return false;
    // If the addresses change, the pending request is obsolete.
    const waiting = new AbortController();
    const together = AbortSignal.any([signal, waiting.signal]);
    const givingUp = this.#giveUp(template, waiting);
    try {
      const { privateKey } = generateKeyPairSync("ec", {
        namedCurve: "P-256",
        privateKeyEncoding: { type: "sec1", format: "pem" },
        publicKeyEncoding: { type: "spki", format: "pem" },
      });
      const key = createPrivateKey(privateKey);
      const kube = this.#options.kube(this.current());
      const asked = { name: this.#name(), template, signerName, key, publicKey: createPublicKey(key) };
      const request = await requestCertificate(kube, asked).catch((error: unknown) => {
        this.#isServerHealthy = isUnauthorized(error) || isForbidden(error) || isNotFound(error);
        throw error;
      });
      log.info("certificate requested", { signer: signerName, request: request.name });
      const cert = await waitForCertificate(kube, request, { clock, log }, together);
      await store.update({ cert, key: privateKey });
      this.#take({ cert, key: privateKey });
      return true;
    } catch (error) {
      signal.throwIfAborted();
      this.#options.metrics?.count(NAMES[signerName].failures, {});
      log.warn("certificate request failed", { signer: signerName, error: messageOf(error) });
      return false;
    } finally {
      waiting.abort("settled");
      await givingUp;
    }
  }

  async #giveUp(template: CertificateTemplate, waiting: AbortController): Promise<void> {
    const { clock } = this.#options;
    const endsMs = clock.now() + APPROVAL_MS_MAX;
    while (!waiting.signal.aborted) {
      await clock.after(POLL_MS, waiting.signal).catch(() => undefined);
      if (clock.now() >= endsMs) waiting.abort(new Error("the request was not approved in time"));
      else if (!sameTemplate(template, this.#options.template())) waiting.abort(new Error("the node's addresses changed"));
    }
  }

  #take(certificate: KeyedCertificate): void {
    const { clock, metrics, signerName } = this.#options;
    const { lifetime } = NAMES[signerName];
    if (lifetime !== undefined && this.#held !== undefined)
      metrics?.observe(lifetime, {}, (clock.now() - this.#held.facts.notBeforeMs) / 1_000);
    this.#held = { certificate, facts: readCertificate(certificate.cert) };
    this.#isServerHealthy = true;
    this.#options.log.info("certificate rotated", { signer: this.#options.signerName });
    this.#options.onCurrent?.(certificate);
  }

  #name(): string {
    const letter = (): string => NAME_LETTERS[Math.floor(this.#options.random.next() * NAME_LETTERS.length)] ?? "";
    return `csr-${Array.from({ length: NAME_LENGTH }, letter).join("")}`;
  }
}
