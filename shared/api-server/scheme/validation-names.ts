/**
 * Names, labels and annotation keys.
 *
 * Source: k8s.io/apimachinery/pkg/util/validation/validation.go.
 */
import { type FieldError, fieldInvalid, fieldTooLong } from "./api-error.ts";
import type { ResourceDefinition } from "./resource-definitions.ts";

const DNS_LABEL = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/u;
/** Full name of an object of most kinds. */
export const DNS_SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/u;
const QUALIFIED_PART = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/u;
const LABEL_VALUE = /^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$/u;

/** Names of kinds, lists and Services. */
export const DNS_1035_LABEL = /^[a-z]([-a-z0-9]*[a-z0-9])?$/u;
/** The API server's text for a name that is not a `DNS_1035_LABEL`. */
export const DNS_1035_TEXT =
  "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
/** Length limit of labels. */
export const LABEL_LENGTH_MAX = 63;
const SUBDOMAIN_LENGTH_MAX = 253;
/** Total size of keys and values. */
const ANNOTATIONS_BYTES_MAX = 256 * 1024;

const DNS_LABEL_TEXT =
  "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
/** The API server's text for a name that is not a `DNS_SUBDOMAIN`. */
export const DNS_SUBDOMAIN_TEXT =
  "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const QUALIFIED_TEXT =
  "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_TEXT =
  "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

/** Kinds whose names are DNS labels; all others are DNS subdomains. */
const NAMED_BY_LABEL = new Set(["Namespace", "Service"]);

export function validateName(definition: ResourceDefinition, name: string): FieldError[] {
  if (name === "")
    return [{ type: "FieldValueRequired", field: "metadata.name", message: "Required value: name or generateName is required" }];
  const isLabel = NAMED_BY_LABEL.has(definition.builtInKind);
  const max = isLabel ? LABEL_LENGTH_MAX : SUBDOMAIN_LENGTH_MAX;
  const errors: FieldError[] = [];
  if (name.length > max) errors.push(fieldInvalid("metadata.name", name, `must be no more than ${max} bytes`));
  if (!(isLabel ? DNS_LABEL : DNS_SUBDOMAIN).test(name))
    errors.push(fieldInvalid("metadata.name", name, isLabel ? DNS_LABEL_TEXT : DNS_SUBDOMAIN_TEXT));
  return errors;
}

/** Container and volume names. */
export function isDnsLabel(name: string): boolean {
  return name.length <= LABEL_LENGTH_MAX && DNS_LABEL.test(name);
}

export function dnsLabelError(field: string, name: string): FieldError {
  return fieldInvalid(field, name, DNS_LABEL_TEXT);
}

export function validateLabels(labels: Readonly<Record<string, string>>, field: string): FieldError[] {
  return Object.entries(labels).flatMap(([key, value]) => {
    const errors = validateKey(key, field);
    if (value.length > LABEL_LENGTH_MAX) errors.push(fieldInvalid(field, value, `must be no more than ${LABEL_LENGTH_MAX} bytes`));
    if (!LABEL_VALUE.test(value)) errors.push(fieldInvalid(field, value, LABEL_VALUE_TEXT));
    return errors;
  });
}

/** Source: k8s.io/apimachinery/pkg/api/validation/objectmeta.go (ValidateAnnotations, TotalAnnotationSizeLimitB). */
export function validateAnnotations(annotations: Readonly<Record<string, string>>, field: string): FieldError[] {
  const errors = Object.keys(annotations).flatMap((key) => validateKey(key.toLowerCase(), field));
  const bytes = Object.entries(annotations).reduce((sum, [key, value]) => sum + Buffer.byteLength(key) + Buffer.byteLength(value), 0);
  if (bytes > ANNOTATIONS_BYTES_MAX) errors.push(fieldTooLong(field, ANNOTATIONS_BYTES_MAX));
  return errors;
}

export function validateNodeName(name: string, field: string): FieldError[] {
  return DNS_SUBDOMAIN.test(name) ? [] : [fieldInvalid(field, name, DNS_SUBDOMAIN_TEXT)];
}

const CONFIG_KEY_TEXT =
  "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

/** A key of a ConfigMap or Secret. */
export function validateConfigKey(key: string, field: string): FieldError[] {
  if (!/^[-._a-zA-Z0-9]+$/u.test(key)) return [fieldInvalid(field, key, CONFIG_KEY_TEXT)];
  if (key === "." || key === "..") return [fieldInvalid(field, key, `must not be '${key}'`)];
  return key.startsWith("..") ? [fieldInvalid(field, key, "must not start with '..'")] : [];
}

/** `prefix/name` or `name`. */
export function validateKey(key: string, field: string): FieldError[] {
  const slash = key.indexOf("/");
  const prefix = slash < 0 ? undefined : key.slice(0, slash);
  const name = key.slice(slash + 1);
  const errors: FieldError[] = [];
  if (prefix !== undefined && (!DNS_SUBDOMAIN.test(prefix) || prefix.length > SUBDOMAIN_LENGTH_MAX))
    errors.push(fieldInvalid(field, key, `prefix part ${DNS_SUBDOMAIN_TEXT}`));
  if (!QUALIFIED_PART.test(name) || name.length > LABEL_LENGTH_MAX) errors.push(fieldInvalid(field, key, QUALIFIED_TEXT));
  return errors;
}
