/**
 * PKCS #10 certificate requests (RFC 2986, RFC 5280 §4.2.1.6) and certificate fields. Node.js cannot write requests, and the machine may
 * lack `openssl`. The bytes equal those that Go generates, so that the agent recognizes a request that a kubelet made. Source: client-go
 * util/cert/csr.go MakeCSRFromTemplate.
 */
import { sign, X509Certificate, type KeyObject } from "node:crypto";
import { ownAt } from "@deltaloop/base";
import { pemBlock } from "./pem.ts";

/** Subject and alternative names of a certificate. */
export interface CertificateTemplate {
  readonly commonName: string;
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
}

/** Subject, alternative names and validity of a certificate. */
export interface CertificateFacts extends CertificateTemplate {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

const TAG = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  utf8: 0x0c,
  printable: 0x13,
  sequence: 0x30,
  set: 0x31,
};
/** Context-specific ASN.1 tags of attributes and of general names. */
const ATTRIBUTES = 0xa0;
const DNS_NAME = 0x82;
const IP_ADDRESS = 0x87;

const OID = {
  commonName: "550403",
  organizationName: "55040a",
  extensionRequest: "2a864886f70d01090e",
  subjectAltName: "551d11",
  sha256WithRsa: "2a864886f70d01010b",
  ed25519: "2b6570",
};

/** OID and hash of ECDSA signatures by curve, as Go's crypto/x509 selects them. */
const ECDSA: Readonly<Record<string, { readonly oid: string; readonly hash: string }>> = {
  prime256v1: { oid: "2a8648ce3d040302", hash: "sha256" },
  secp384r1: { oid: "2a8648ce3d040303", hash: "sha384" },
  secp521r1: { oid: "2a8648ce3d040304", hash: "sha512" },
};

/** Returns the request in PEM. @param key a private key, EC or RSA */
export function certificateRequest(template: CertificateTemplate, key: KeyObject, publicKey: KeyObject): string {
  return pemBlock("CERTIFICATE REQUEST", signed(requestInfo(template, publicKey), key));
}

/** A DER request with neither subject nor names, which only proves the possession of `key`: private, EC, RSA or Ed25519. */
export function stubRequest(key: KeyObject, publicKey: KeyObject): Buffer {
  return signed(infoOf(sequence(), publicKey, []), key);
}

function signed(info: Buffer, key: KeyObject): Buffer {
  const { algorithm, hash } = signatureOf(key);
  return sequence(info, algorithm, der(TAG.bitString, Buffer.of(0), sign(hash, info, key)));
}

/** The signature algorithm with Go's parameters; Ed25519 has no separate hash. @throws for another type of key */
function signatureOf(key: KeyObject): { readonly algorithm: Buffer; readonly hash: string | null } {
  if (key.asymmetricKeyType === "rsa") return { algorithm: sequence(oid(OID.sha256WithRsa), der(TAG.null)), hash: "sha256" };
  if (key.asymmetricKeyType === "ed25519") return { algorithm: sequence(oid(OID.ed25519)), hash: null };
  const curve = key.asymmetricKeyDetails?.namedCurve ?? "";
  const ecdsa = ownAt(ECDSA, curve);
  if (ecdsa === undefined) throw new RangeError(`no signature algorithm for a key of type ${key.asymmetricKeyType} ${curve}`);
  return { algorithm: sequence(oid(ecdsa.oid)), hash: ecdsa.hash };
}

/** Whether `pem` requests the same certificate for the same key; ignores the signature. */
export function isSameRequest(pem: string, template: CertificateTemplate, publicKey: KeyObject): boolean {
  const [, base64 = ""] = /-----BEGIN CERTIFICATE REQUEST-----([^-]*)-----END/u.exec(pem) ?? [];
  const info = requestInfo(template, publicKey);
  const request = Buffer.from(base64, "base64");
  // The signed part follows the outer header, whose length is at most 4 bytes here.
  return [2, 3, 4].some((at) => request.subarray(at, at + info.length).equals(info));
}

/** The signed part: version, subject, key and attributes. */
function requestInfo(template: CertificateTemplate, publicKey: KeyObject): Buffer {
  const { commonName, organizations } = template;
  const subject = sequence(
    ...(organizations.length === 0 ? [] : [der(TAG.set, ...organizations.map((name) => sequence(oid(OID.organizationName), text(name))))]),
    der(TAG.set, sequence(oid(OID.commonName), text(commonName))),
  );
  return infoOf(subject, publicKey, attributes(template));
}

function infoOf(subject: Buffer, publicKey: KeyObject, itsAttributes: readonly Buffer[]): Buffer {
  const version = der(TAG.integer, Buffer.of(0));
  return sequence(version, subject, publicKey.export({ type: "spki", format: "der" }), der(ATTRIBUTES, ...itsAttributes));
}

function attributes({ dnsNames, ipAddresses }: CertificateTemplate): readonly Buffer[] {
  if (dnsNames.length + ipAddresses.length === 0) return [];
  const names = sequence(
    ...dnsNames.map((name) => der(DNS_NAME, Buffer.from(name))),
    ...ipAddresses.map((address) => der(IP_ADDRESS, ipBytes(address))),
  );
  const extensions = sequence(sequence(oid(OID.subjectAltName), der(TAG.octetString, names)));
  return [sequence(oid(OID.extensionRequest), der(TAG.set, extensions))];
}

function sequence(...parts: readonly Buffer[]): Buffer {
  return der(TAG.sequence, ...parts);
}

function oid(hex: string): Buffer {
  return der(TAG.oid, Buffer.from(hex, "hex"));
}

/** Uses the same ASN.1 string type as Go's encoding/asn1. */
function text(value: string): Buffer {
  return der(/^[A-Za-z0-9 '()+,\-./:=?]*$/u.test(value) ? TAG.printable : TAG.utf8, Buffer.from(value));
}

function der(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.of(tag), lengthOf(content.length), content]);
}

function lengthOf(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length);
  return length < 0x100 ? Buffer.of(0x81, length) : Buffer.of(0x82, length >> 8, length & 0xff);
}

/** Returns 4 or 16 bytes. @throws {RangeError} for an invalid address */
function ipBytes(address: string): Buffer {
  if (!isAddress(address)) throw new RangeError(`invalid IP address "${address}"`);
  if (!address.includes(":")) return Buffer.from(address.split(".").map(Number));
  // In the host of a URL, an IPv6 address has at most one `::` and no IPv4 suffix.
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const words = (part: string): readonly string[] => part.split(":").filter((word) => word !== "");
  const [first, last] = [words(head), words(tail ?? "")];
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => "0"), ...last];
  return Buffer.from(all.map((word) => word.padStart(4, "0")).join(""), "hex");
}

export function isAddress(text: string): boolean {
  if (text.includes(":")) return URL.canParse(`http://[${text}]`);
  return /^(?:\d{1,3}\.){3}\d{1,3}$/u.test(text) && text.split(".").every((part) => Number(part) < 256);
}

/** Reads the first certificate of `pem`. @throws when `pem` has no certificate */
export function readCertificate(pem: string): CertificateFacts {
  const certificate = new X509Certificate(pem);
  const subject = certificate.subject.split("\n").map((line) => line.split(/=(.*)/su));
  const valuesOf = (field: string): readonly string[] => subject.flatMap(([name, value = ""]) => (name === field ? [value] : []));
  const alternatives = (certificate.subjectAltName ?? "").split(", ").map((name) => name.split(/:(.*)/su));
  const namesOf = (kind: string): readonly string[] => alternatives.flatMap(([name, value = ""]) => (name === kind ? [value] : []));
  return {
    commonName: valuesOf("CN").at(-1) ?? "",
    organizations: valuesOf("O"),
    dnsNames: namesOf("DNS"),
    ipAddresses: namesOf("IP Address"),
    notBeforeMs: certificate.validFromDate.getTime(),
    notAfterMs: certificate.validToDate.getTime(),
  };
}

/** Compares addresses by value, whatever their notation. */
export function isSameAddress(one: string, other: string): boolean {
  return isAddress(one) && isAddress(other) && ipBytes(one).equals(ipBytes(other));
}
