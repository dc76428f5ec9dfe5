/**
 * Writes the page: one HTML file that requests nothing.
 *
 * TP1 the content security policy allows the two inline blocks by their hashes, and a worker from a blob URL (for a running cluster:
 *     connections to its own server).
 * TP2 text of the capture is data: base64 of gzip in the file, text nodes in the page, and invisible or reordering characters as escapes.
 */
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import { printable } from "@deltaloop/base/output";
import type { TimelineInput, TimelineUpdate } from "./input.ts";
import type { PageCode } from "./page-code.ts";

export function timelinePage(input: TimelineInput, code: PageCode): string {
  const data = gzipSync(timelineJson(input)).toString("base64");
  return pageOf(code, `<script type="application/octet-stream" id="data">${data}</script>`, "worker-src blob:");
}

/** Returns the page of a running cluster, which reads its data from the path `events` (server.ts). */
export function livePage(code: PageCode): string {
  return pageOf(code, "", "connect-src 'self'");
}

/** JSON with its texts escaped (TP2). */
export function timelineJson(value: TimelineInput | TimelineUpdate): string {
  return JSON.stringify(value, (_key, each: unknown) => (typeof each === "string" ? printable(each) : each));
}

function pageOf({ script, style }: PageCode, data: string, more: string): string {
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(script)}'`,
    `style-src '${hashOf(style)}'`,
    more,
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
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
${data}
<script>${script}</script>
</body>
</html>
`;
}

function hashOf(text: string): string {
  return `sha256-${createHash("sha256").update(text).digest("base64")}`;
}
