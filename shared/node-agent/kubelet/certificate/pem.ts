/** PEM blocks as Go's encoding/pem reads and writes them: text between blocks and headers of blocks are dropped. */

const BEGIN = "-----BEGIN CERTIFICATE-----";
const END = "-----END CERTIFICATE-----";
const LINE_LENGTH = 64;

/** One block, ending in a newline. */
export function pemBlock(type: string, der: Uint8Array): string {
  const base64 = Buffer.from(der).toString("base64");
  const lines = Array.from({ length: Math.ceil(base64.length / LINE_LENGTH) }, (_, nth) =>
    base64.slice(nth * LINE_LENGTH, (nth + 1) * LINE_LENGTH),
  );
  return [`-----BEGIN ${type}-----`, ...lines, `-----END ${type}-----`, ""].join("\n");
}

/**
 * The DER bytes of the `CERTIFICATE` blocks of `pem`, in order; skips blocks that are incomplete or not base64.
 */
export function certificateBlocks(pem: string): readonly Buffer[] {
  const blocks: Buffer[] = [];
  let body: string[] | undefined;
  for (const line of pem.split("\n").map((text) => text.trimEnd())) {
    if (line === BEGIN) body = [];
    else if (line === END) {
      const base64 = body?.join("") ?? "";
      if (isBase64(base64)) blocks.push(Buffer.from(base64, "base64"));
      body = undefined;
    } else if (!line.includes(":")) body?.push(line); // a line with a colon is a header
  }
  return blocks;
}

function isBase64(text: string): boolean {
  return text !== "" && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/u.test(text);
}
