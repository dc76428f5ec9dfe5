/**
 * The formats of strings that schemas can require.
 *
 * Source: apiextensions-apiserver/pkg/apiserver/validation/formats.go, kube-openapi/pkg/validation/strfmt.
 */
import { isIP, isIPv6 } from "node:net";
import { parseGoDuration, textAt } from "@deltaloop/base";
import type { Schema } from "./structural.ts";

const UUID = /^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$/iu;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$/u;
const HOSTNAME =
  /^(?:[a-zA-Z0-9\p{S}\p{L}](?:-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?|(?:[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?\.)+[a-zA-Z\p{L}]{2,63})$/u;
const DATE_TIME = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)$/u;
const SHORT_NAME = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/u;
const LONG_NAME = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/u;
const DURATION_PART = /\d+\s*(?:ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)/iu;

/** Format checks by name, without hyphens. */
const STRINGS: Readonly<Record<string, (text: string) => boolean>> = {
  bsonobjectid: (text) => /^[0-9a-fA-F]{24}$/u.test(text),
  uri: isRequestUri,
  email: (text) => /^[^\s@<>]+@[^\s@<>]+$|^[^<>]*<[^\s@<>]+@[^\s@<>]+>$/u.test(text),
  hostname: (text) => text.length <= 255 && HOSTNAME.test(text) && text.split(".").every((label) => label.length <= 63),
  ipv4: (text) => text.includes(".") && isIP(text) !== 0,
  ipv6: isIPv6,
  cidr: isCidr,
  mac: (text) => /^[0-9a-f]{2}([:-])(?:[0-9a-f]{2}\1){4}[0-9a-f]{2}$|^(?:[0-9a-f]{4}\.){2}[0-9a-f]{4}$/iu.test(text),
  uuid: (text) => UUID.test(text),
  uuid3: (text) => UUID.test(text) && text.replaceAll("-", "")[12] === "3",
  uuid4: (text) => UUID.test(text) && /^.{12}4.{3}[89ab]/iu.test(text.replaceAll("-", "")),
  uuid5: (text) => UUID.test(text) && /^.{12}5.{3}[89ab]/iu.test(text.replaceAll("-", "")),
  isbn: (text) => isIsbn10(text) || isIsbn13(text),
  isbn10: isIsbn10,
  isbn13: isIsbn13,
  creditcard: isCreditCard,
  ssn: (text) => /^\d{3}[- ]?\d{2}[- ]?\d{4}$/u.test(text),
  hexcolor: (text) => /^#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})$/u.test(text),
  rgbcolor: (text) => /^rgb\(\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])\s*(?:,\s*(?:\d{1,2}|1\d\d|2[0-4]\d|25[0-5])\s*){2}\)$/u.test(text),
  byte: (text) => BASE64.test(text),
  password: () => true,
  date: (text) => /^\d{4}-\d\d-\d\d$/u.test(text) && isDay(text),
  duration: (text) => parseGoDuration(text) !== undefined || DURATION_PART.test(text),
  datetime: (text) => DATE_TIME.test(text) && isDay(text.slice(0, 10)),
  k8sshortname: (text) => text.length <= 63 && SHORT_NAME.test(text),
  k8slongname: (text) => text.length <= 253 && LONG_NAME.test(text),
};

const NUMBERS: Readonly<Record<string, readonly string[]>> = { integer: ["int32", "int64"], number: ["float", "double"] };

/** The format of a schema; empty for one that is not supported for its type, because it is ignored. */
export function formatOf(schema: Schema): string {
  const format = textAt(schema, "format") ?? "";
  const type = textAt(schema, "type") ?? "";
  if (format === "") return "";
  // Upstream's list has the names with hyphens in these two only.
  if (type === "" || type === "string") return isSupported(format) ? format : "";
  return NUMBERS[type]?.includes(format) === true ? format : "";
}

function isSupported(format: string): boolean {
  const name = format.replaceAll("-", "");
  return Object.hasOwn(STRINGS, name) && !name.startsWith("k8s");
}

export function hasFormat(text: string, format: string): boolean {
  return STRINGS[format.replaceAll("-", "")]?.(text) ?? true;
}

function isRequestUri(text: string): boolean {
  return text.startsWith("/") || URL.canParse(text);
}

function isCidr(text: string): boolean {
  const [, address = "", bits = ""] = /^(.*)\/(\d{1,3})$/u.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits) <= (version === 4 ? 32 : 128);
}

function isDay(text: string): boolean {
  const time = Date.parse(`${text}T00:00:00Z`);
  return !Number.isNaN(time) && new Date(time).toISOString().startsWith(text);
}

function isIsbn10(text: string): boolean {
  const digits = text.replaceAll(/[\s-]/gu, "");
  if (!/^\d{9}[\dX]$/u.test(digits)) return false;
  return digits.split("").reduce((sum, digit, i) => sum + (10 - i) * (digit === "X" ? 10 : Number(digit)), 0) % 11 === 0;
}

function isIsbn13(text: string): boolean {
  const digits = text.replaceAll(/[\s-]/gu, "");
  if (!/^\d{13}$/u.test(digits)) return false;
  return digits.split("").reduce((sum, digit, i) => sum + Number(digit) * (i % 2 === 0 ? 1 : 3), 0) % 10 === 0;
}

/** Checks a number with the Luhn algorithm. */
function isCreditCard(text: string): boolean {
  const digits = text.replaceAll(/\D/gu, "");
  if (
    !/^(?:4\d{12}(?:\d{3})?|5[1-5]\d{14}|6(?:011|5\d\d)\d{12}|3[47]\d{13}|3(?:0[0-5]|[68]\d)\d{11}|(?:2131|1800|35\d{3})\d{11})$/u.test(
      digits,
    )
  )
    return false;
  const sum = digits
    .split("")
    .toReversed()
    .reduce((total, digit, i) => {
      const doubled = Number(digit) * (i % 2 === 0 ? 1 : 2);
      return total + (doubled > 9 ? doubled - 9 : doubled);
    }, 0);
  return sum % 10 === 0;
}
