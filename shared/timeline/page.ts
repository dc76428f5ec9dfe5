/**
 * Writes the page: one HTML file that requests nothing.
 *
 * TP1 the content security policy allows the two inline blocks by their hashes, and nothing else.
 * TP2 text of the capture is data: base64 of gzip in the file, text nodes in the page, and invisible or reordering characters as escapes.
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { printable } from "@deltaloop/base/output";
import type { TimelineInput } from "./input.ts";
import type { PageCode } from "./page-code.ts";

export function timelinePage(input: TimelineInput, { script, style }: PageCode): string {
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const data = gzipSync(JSON.stringify(harmless(input)), { level: 9 }).toString("base64");
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>deltaloop timeline</title>
<style>${style}</style>
</head>
<body>
<div id="app"><p class="loading">Reading the capture …</p></div>
<noscript>This page draws its content with a script, which it contains. Allow scripts to see it.</noscript>
<script type="application/octet-stream" id="data">${data}</script>
<script>${script}</script>
</body>
</html>
`;
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}

/** TP2 */
function harmless<T>(value: T): T {
  if (typeof value === "string") return printable(value) as T;
  if (Array.isArray(value)) return value.map(harmless) as T;
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, harmless(each as unknown)])) as T; // of the same shape
}
