/**
 * Would catch: a request that signers reject, a certificate that is replaced too late or needlessly, and a misread response of a signer.
 */
import { createPrivateKey, createPublicKey } from "node:crypto";
import { describe, expect, it, test } from "vitest";
import { certificateRequest, isSameAddress, isSameRequest } from "../../../../shared/node-agent/kubelet/certificate/certificate-request.ts";
import type { CertificateFacts, CertificateTemplate } from "../../../../shared/node-agent/kubelet/certificate/certificate-request.ts";
import {
  clientTemplate,
  rotationDeadlineMs,
  satisfies,
  servingTemplate,
} from "../../../../shared/node-agent/kubelet/certificate/rotation.ts";
import { joiningRequestName, signingOutcome, usagesOf } from "../../../../shared/node-agent/kubelet/certificate/signing-request.ts";

// A key generated for this test by Go's crypto/x509; it protects nothing.
const KEY = createPrivateKey(`-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIPUlHBV4rbQcBJqvJ7iVCNmVFEprxwkLvhRfL6P16/MdoAoGCCqGSM49
AwEHoUQDQgAEY/WfrFor0Px4JJ+rWOXtb62AFSOk2cTYp6kitlyAgUs+ub2OLzrv
4wndob/YnuN63lf35SNnjQJUf1YyVIcvGw==
-----END EC PRIVATE KEY-----`);
const PUBLIC = createPublicKey(KEY);
const OF_CLIENT = `-----BEGIN CERTIFICATE REQUEST-----
MIHwMIGWAgEAMDQxFTATBgNVBAoTDHN5c3RlbTpub2RlczEbMBkGA1UEAxMSc3lz
dGVtOm5vZGU6bm9kZS1hMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEY/WfrFor
0Px4JJ+rWOXtb62AFSOk2cTYp6kitlyAgUs+ub2OLzrv4wndob/YnuN63lf35SNn
jQJUf1YyVIcvG6AAMAoGCCqGSM49BAMCA0kAMEYCIQCGi6zY3o3QpVeRAhGrN42O
FBCvnIj8/39Ot7rzzk48iAIhAPfB1LRHrAt5gdKI2aC5mb2RMmGhDTujTn8k0LbK
c8Ug
-----END CERTIFICATE REQUEST-----`;
const OF_SERVER = `-----BEGIN CERTIFICATE REQUEST-----
MIIBQDCB5gIBADA0MRUwEwYDVQQKEwxzeXN0ZW06bm9kZXMxGzAZBgNVBAMMEnN5
c3RlbTpub2RlOm5vZGVfYjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGP1n6xa
K9D8eCSfq1jl7W+tgBUjpNnE2KepIrZcgIFLPrm9ji867+MJ3aG/2J7jet5X9+Uj
Z40CVH9WMlSHLxugUDBOBgkqhkiG9w0BCQ4xQTA/MD0GA1UdEQQ2MDSCBm5vZGUt
YoISbm9kZS1iLmV4YW1wbGUuY29thwQKAAAHhxAgAQ24AAAAAAAAAAAAAAAHMAoG
CCqGSM49BAMCA0kAMEYCIQDYltWns6GoU8bcb7ZF1PcdBft8aH4wSAwAraqubTPr
5AIhALvRQ0eTnFdigfC9I7UeZd4lghBY3P54sIZBYEre1M7M
-----END CERTIFICATE REQUEST-----`;
const SERVER_TEMPLATE: CertificateTemplate = {
  commonName: "system:node:node_b",
  organizations: ["system:nodes"],
  dnsNames: ["node-b", "node-b.example.com"],
  ipAddresses: ["10.0.0.7", "2001:db8::7"],
};

describe("a certificate signing request [node-agent 420]", () => {
  test.each([
    { name: "of a client", pem: OF_CLIENT, template: clientTemplate("node-a") },
    { name: "of a server, whose name needs another string type", pem: OF_SERVER, template: SERVER_TEMPLATE },
  ])("a certificate signing request $name equals Go's bytes except for the signature", ({ pem, template }) => {
    expect(isSameRequest(pem, template, PUBLIC)).toBe(true);
    expect(isSameRequest(certificateRequest(template, KEY, PUBLIC), template, PUBLIC)).toBe(true);
    expect(isSameRequest(pem, clientTemplate("node-c"), PUBLIC)).toBe(false);
    expect(isSameRequest(pem, { ...template, ipAddresses: ["10.0.0.8"] }, PUBLIC)).toBe(false);
  });

  it("derives the name of the bootstrap CSR as upstream does, from the public key, subject and usages", () => {
    expect(joiningRequestName(clientTemplate("node-a"), PUBLIC)).toBe("node-csr-e88ocPxGED4c4VEzcwwI7rI8b9oiRY2dumhS9ifjVhw");
    expect(joiningRequestName(clientTemplate("node-b"), PUBLIC)).not.toBe("node-csr-e88ocPxGED4c4VEzcwwI7rI8b9oiRY2dumhS9ifjVhw");
  });

  it("requests the key usages that fit its signer and key type", () => {
    expect(usagesOf("kubernetes.io/kube-apiserver-client-kubelet", KEY)).toEqual(["digital signature", "client auth"]);
    expect(usagesOf("kubernetes.io/kubelet-serving", KEY)).toEqual(["digital signature", "server auth"]);
  });
});

describe("replacement of a certificate [node-agent 421]", () => {
  const facts: CertificateFacts = { ...clientTemplate("node-a"), notBeforeMs: 1_000, notAfterMs: 101_000 };

  test.each([
    { random: 0, wantMs: 71_000 },
    { random: 0.5, wantMs: 81_000 },
    { random: 0.999, wantMs: 90_980 },
  ])("a replacement is due after 70 to 90 % of the certificate's lifetime, with random $random", ({ random, wantMs }) => {
    expect(rotationDeadlineMs(facts, random)).toBeCloseTo(wantMs, 3);
  });

  test.each([
    { name: "not replaced for the same names", template: clientTemplate("node-a"), want: true },
    { name: "not replaced while the required names are unknown", template: undefined, want: true },
    { name: "replaced for another name", template: clientTemplate("node-b"), want: false },
    {
      name: "replaced for an additional organization",
      template: { ...clientTemplate("node-a"), organizations: ["system:nodes", "x"] },
      want: false,
    },
    { name: "replaced for an additional address", template: { ...clientTemplate("node-a"), ipAddresses: ["10.0.0.7"] }, want: false },
  ])("a certificate is $name", ({ template, want }) => expect(satisfies(facts, template)).toBe(want));

  it("a replacement is due immediately when the certificate does not cover the required names and addresses", () => {
    const had = { ...facts, ...SERVER_TEMPLATE, ipAddresses: ["10.0.0.7", "2001:Db8:0:0:0:0:0:7", "10.0.0.8"] };
    expect(satisfies(had, SERVER_TEMPLATE)).toBe(true);
    expect(satisfies(had, { ...SERVER_TEMPLATE, dnsNames: ["node-c"] })).toBe(false);
    expect(isSameAddress("::ffff:10.0.0.7", "0:0:0:0:0:ffff:a00:7")).toBe(true);
    expect(isSameAddress("10.0.0.7", "node-b")).toBe(false);
  });
});

describe("the subject alternative names of a serving certificate [node-agent 422]", () => {
  test.each([
    {
      name: "addresses and names of the Node, each once and in order",
      addresses: [
        { type: "InternalIP", address: "10.0.0.7" },
        { type: "ExternalIP", address: "192.0.2.7" },
        { type: "InternalIP", address: "2001:db8::7" },
        { type: "Hostname", address: "node-b" },
        { type: "InternalDNS", address: "node-b.example.com" },
        { type: "ExternalDNS", address: "node-b" },
        { type: "InternalIP", address: "" },
      ],
      want: { dnsNames: ["node-b", "node-b.example.com"], ipAddresses: ["10.0.0.7", "192.0.2.7", "2001:db8::7"] },
    },
    {
      name: "a host name that is an IP address",
      addresses: [{ type: "Hostname", address: "10.0.0.7" }],
      want: { dnsNames: [], ipAddresses: ["10.0.0.7"] },
    },
    {
      name: "none for a Node whose only address is a host name, so that no CSR is created",
      addresses: [{ type: "Hostname", address: "node-b" }],
      want: undefined,
    },
    { name: "none for a Node without addresses", addresses: [], want: undefined },
  ])("subject alternative names of a serving certificate: $name", ({ addresses, want }) => {
    const template = servingTemplate("node-b", addresses);
    expect(template).toEqual(want && { commonName: "system:node:node-b", organizations: ["system:nodes"], ...want });
  });
});

describe("the result of a certificate signing request [node-agent 423]", () => {
  const request = (conditions: readonly object[], certificate?: string): object => ({
    metadata: { name: "csr-1", uid: "u1" },
    status: { conditions, ...(certificate !== undefined && { certificate: Buffer.from(certificate).toString("base64") }) },
  });

  test.each([
    { name: "pending without a condition", object: { metadata: { name: "csr-1", uid: "u1" } }, want: { kind: "waiting" } },
    { name: "approved, but not signed yet", object: request([{ type: "Approved" }]), want: { kind: "waiting" } },
    { name: "signed, but not approved", object: request([], "PEM"), want: { kind: "waiting" } },
    { name: "approved and signed", object: request([{ type: "Approved" }], "PEM"), want: { kind: "issued", certificate: "PEM" } },
    {
      name: "denied, although signed",
      object: request([{ type: "Approved" }, { type: "Denied", reason: "No", message: "not you" }], "PEM"),
      want: { kind: "refused", why: "certificate signing request is denied, reason: No, message: not you" },
    },
    {
      name: "failed",
      object: request([{ type: "Approved" }, { type: "Failed", reason: "SignerValidationFailure", message: "no CN" }]),
      want: { kind: "refused", why: "certificate signing request failed, reason: SignerValidationFailure, message: no CN" },
    },
  ])("a certificate signing request: $name", ({ object, want }) => expect(signingOutcome(object, "u1")).toEqual(want));

  it("a certificate signing request is rejected when it has another uid", () => {
    expect(signingOutcome(request([{ type: "Approved" }], "PEM"), "u2")).toEqual({ kind: "refused", why: 'csr "csr-1" changed UIDs' });
  });
});
