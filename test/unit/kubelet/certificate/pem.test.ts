/**
 * Would catch: text between certificates or a header that ends up in a pod's file, and a certificate that Go accepts and the agent drops.
 */
import { expect, it, test } from "vitest";
import { certificateBlocks, pemBlock } from "../../../../shared/node-agent/kubelet/certificate/pem.ts";

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";

// The results of Go's pem.Decode for each text, without the type.
test.each([
  {
    name: "a PEM file with text before, between and after the blocks",
    pem: `one\n${BEGIN}\nAAAB\n${END}\ntwo: x\n${BEGIN}\nAAAC\n${END}\nthree`,
    want: ["AAAB", "AAAC"],
  },
  { name: "blocks with headers", pem: `${BEGIN}\nProc-Type: 4\n\nAAAB\n${END}\n`, want: ["AAAB"] },
  { name: "a PEM file with carriage returns, spaces and no newline at the end", pem: `${BEGIN}  \r\nAA\r\nAB \r\n${END}`, want: ["AAAB"] },
  { name: "a block whose base64 has an invalid length", pem: `${BEGIN}\nAAA\n${END}\n${BEGIN}\nAAAB\n${END}\n`, want: ["AAAB"] },
  { name: "a block with characters that are not base64", pem: `${BEGIN}\nAA!B\n${END}\n`, want: [] },
  { name: "a block without its end", pem: `${BEGIN}\nAAAC\n${BEGIN}\nAAAB\n${END}\n`, want: ["AAAB"] },
  { name: "a block that ends the text", pem: `${BEGIN}\nAAAB`, want: [] },
  { name: "a BEGIN line that starts with other text", pem: `x${BEGIN}\nAAAB\n${END}\n`, want: [] },
  { name: "a block of another type", pem: "-----BEGIN PRIVATE KEY-----\nAAAB\n-----END PRIVATE KEY-----\n", want: [] },
  { name: "an empty file", pem: "", want: [] },
])("[node-agent 508] reads the certificates of $name", ({ pem, want }) => {
  expect(certificateBlocks(pem).map((der) => der.toString("base64"))).toEqual(want);
});

it("[node-agent 508] writes lines of 64 characters and reads them again", () => {
  const der = Buffer.alloc(100, 7);
  const pem = pemBlock("CERTIFICATE", der);
  expect(pem.split("\n").map(({ length }) => length)).toEqual([27, 64, 64, 8, 25, 0]);
  expect(certificateBlocks(`${pem}${pem}`)).toEqual([der, der]);
});
