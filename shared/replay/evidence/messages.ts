/**
 * Messages of Events, conditions and container states, reduced to what a capture may keep. They may quote the output of a probe or
 * container, a webhook or a registry. A message of a listed format becomes its class with names and numbers; of any other message only
 * the length and a keyed digest are kept. Images are never taken from a message: the pod spec has them.
 *
 * MK1 every pattern is anchored at the start, so that text from another program is not mistaken for a name.
 * MK2 a slot (a name or number in a message) is kept only if it matches the pattern for that slot; the same check applies to messages of a
 *     capture file.
 *
 * Source: kubelet images/image_manager.go, prober/prober.go; scheduler framework/types.go FitError; apiserver
 * resourcequota/controller.go, webhook/errors/statuserror.go.
 */
import type { Digester } from "@deltaloop/kube/pod-template";
import { IMAGE_CLASSES, imageError } from "./image-errors.ts";
import { schedulingError } from "./scheduling-errors.ts";
import { isObject, numberIn, textIn } from "./fields.ts";

export interface ListedMessage {
  readonly class: string;
  readonly slots: Readonly<Record<string, string>>;
}

/** A message of an unknown format. */
export interface UnlistedMessage {
  readonly length: number;
  readonly digest: string;
}

export type Message = ListedMessage | UnlistedMessage;

const NAME = String.raw`[a-z0-9](?:[a-z0-9.-]{0,252})`;
const KEY = String.raw`[A-Za-z0-9._-]{1,253}`;
const RESOURCE = String.raw`[a-z0-9.-]{1,253}(?:/[A-Za-z0-9._-]{1,63})?`;
const QUANTITY = String.raw`\d[\d.]{0,30}(?:[eE][+-]?\d{1,3}|[numkMGTPE]i?)?`;
const AMOUNTS = `${RESOURCE}=${QUANTITY}(?:,${RESOURCE}=${QUANTITY}){0,50}`;
const DURATION = String.raw`[\d.]{1,20}(?:ns|us|µs|ms|s)|(?:\d{1,6}h)?(?:\d{1,6}m)?[\d.]{1,20}s`;

/** The values that a slot may hold. */
const SLOTS: Readonly<Record<string, RegExp>> = {
  ...Object.fromEntries(
    ["name", "quota", "webhook", "policy", "binding", "account", "container", "volume", "pod", "node"].map((slot) => [
      slot,
      new RegExp(`^${NAME}$`),
    ]),
  ),
  uid: /^[a-f0-9-]{36}$/,
  key: new RegExp(`^${KEY}$`),
  kind: /^(?:secret|configmap)$/i,
  probe: /^(?:readiness|liveness|startup)$/,
  level: /^(?:privileged|baseline|restricted):[a-z0-9.]{1,20}$/,
  code: /^\d{1,5}$/,
  port: /^\d{1,5}$/,
  nodes: /^\d{1,7}$/,
  size: /^\d{1,10}$/,
  duration: new RegExp(`^(?:${DURATION})$`),
  resource: new RegExp(`^${RESOURCE}$`),
  bound: /^(?:minimum|maximum)$/,
  of: /^(?:Pod|Container)$/,
  is: new RegExp(`^${QUANTITY}$`),
  limit: new RegExp(`^${QUANTITY}$`),
  requested: new RegExp(`^${AMOUNTS}$`),
  used: new RegExp(`^${AMOUNTS}$`),
  limited: new RegExp(`^${AMOUNTS}$`),
  field: /^[A-Za-z][\w.[\]-]{0,253}$/,
  reasons: /^\d{1,7}:[a-z-]+(?::[\w./-]+)?(?:,\d{1,7}:[a-z-]+(?::[\w./-]+)?){0,30}$/,
};

type Format = readonly [name: string, pattern: RegExp];

/** Messages with which admission rejects a pod, after an optional `pods "<name>" is forbidden: `. */
const REFUSALS: readonly Format[] = [
  [
    "quota exceeded",
    new RegExp(
      `^exceeded quota: (?<quota>${NAME}), requested: (?<requested>${AMOUNTS}), used: (?<used>${AMOUNTS}), limited: (?<limited>${AMOUNTS})$`,
    ),
  ],
  ["quota needs a value", new RegExp(`^failed quota: (?<quota>${NAME}): must specify (?<resource>${RESOURCE}) for: (?<container>${NAME})`)],
  ["quota missing", new RegExp(`^insufficient quota to consume: (?<resource>${RESOURCE})`)],
  [
    "limit range",
    new RegExp(
      `^(?<bound>minimum|maximum) (?<resource>${RESOURCE}) usage per (?<of>Pod|Container) is (?<limit>${QUANTITY}), but (?:request|limit) is (?<is>${QUANTITY})`,
    ),
  ],
  ["pod security", /^violates PodSecurity "(?<level>[a-z]+:[a-z0-9.]+)":/],
  ["service account missing", new RegExp(`^error looking up service account [a-z0-9-]{1,63}/(?<account>${NAME}):`)],
  ["policy denied", new RegExp(`^ValidatingAdmissionPolicy '(?<policy>${NAME})' with binding '(?<binding>${NAME})' denied request:`)],
  ["webhook denied", new RegExp(`^admission webhook "(?<webhook>${NAME})" denied the request`)],
  ["webhook failed", new RegExp(`^Internal error occurred: failed calling webhook "(?<webhook>${NAME})":`)],
  ["pod invalid", new RegExp(`^Pod "${NAME}" is invalid: (?<field>[A-Za-z][\\w.[\\]-]{0,253}):`)],
];

const FORMATS: readonly Format[] = [
  ...REFUSALS,
  ["crash loop", new RegExp(`^back-off (?<duration>${DURATION}) restarting failed container=(?<container>${NAME}) `)],
  ["crash loop", new RegExp(`^Back-off restarting failed container (?<container>${NAME}) in pod `)],
  [
    "key missing",
    new RegExp(`^(?:Error: )?couldn't find key (?<key>${KEY}) in (?<kind>Secret|ConfigMap) [a-z0-9-]{1,63}/(?<name>${NAME})$`),
  ],
  ["object missing", new RegExp(`^(?:Error: )?(?<kind>secret|configmap) "(?<name>${NAME})" not found$`)],
  ["runs as root", /^(?:Error: )?container has runAsNonRoot and image will run as root/],
  [
    "command missing",
    /^(?:Error: )?failed to (?:create containerd task|start container).{0,2000}(?:executable file not found in \$PATH|no such file or directory)/,
  ],
  ["killed by probe", new RegExp(`^(?:Init c|C)ontainer (?<container>${NAME}) failed (?<probe>liveness|startup) probe`)],
  ["stopping", new RegExp(`^Stopping container (?<container>${NAME})$`)],
  [
    "volume object missing",
    new RegExp(`^MountVolume\\.SetUp failed for volume "(?<volume>${NAME})" : (?<kind>secret|configmap) "(?<name>${NAME})" not found`),
  ],
  [
    "volume key missing",
    new RegExp(
      `^MountVolume\\.SetUp failed for volume "(?<volume>${NAME})" : references non-existent (?<kind>secret|config) key: (?<key>${KEY})$`,
    ),
  ],
  ["volume attached elsewhere", new RegExp(`^Multi-Attach error for volume "(?<volume>${NAME})" `)],
  ["volume attached elsewhere", new RegExp(`^Waiting for detach for volume "?(?<volume>${NAME})`)],
  ["volume not mounted", new RegExp(`^(?:MountVolume\\.SetUp failed for|AttachVolume\\.Attach failed for) volume "(?<volume>${NAME})" :`)],
  ["volume not mounted", new RegExp(`^Unable to attach or mount volumes: unmounted volumes=\\[(?<volume>${NAME})`)],
  ["network not ready", /^network is not ready/],
  ["sandbox failed", /^Failed to create pod sandbox/],
  ["containers not ready", new RegExp(`^containers with (?:unready|incomplete) status: \\[(?<container>${NAME})`)],
  ["low on resource", new RegExp(`^The node was low on resource: (?<resource>${RESOURCE})\\.`)],
  [
    "out of resource",
    new RegExp(`Node didn't have enough resource: (?<resource>${RESOURCE}), requested: \\d+, used: \\d+, capacity: \\d+`),
  ],
  ["volume over its limit", new RegExp(`^Usage of EmptyDir volume "(?<volume>${NAME})" exceeds the limit `)],
  ["preempted", new RegExp(`^Preempted by (?:a )?pod (?<uid>[a-f0-9-]{36}) on node (?<node>${NAME})$`)],
  ["node not ready", new RegExp(`^Node (?<node>${NAME}) status is now: NodeNotReady$`)],
  ["no heartbeat", /^Kubelet stopped posting node status\.$/],
  ["scale up triggered", /^pod triggered scale-up: \[\{/],
  ["scale up not possible", /^pod didn't trigger scale-up/],
  ["rescaled", /^New size: (?<size>\d{1,10}); reason: /],
  ["node missing", /^PodGC: node no longer exists$/],
];

const PROBE = /^(?<probe>Readiness|Liveness|Startup) probe failed: /;
const PROBE_FORMATS: readonly Format[] = [
  ["probe status", /^HTTP probe failed with statuscode: (?<code>\d{3})$/],
  ["probe refused", /^(?:Get "[^"]*": )?dial tcp \S+:(?<port>\d{1,5}): (?:connect: )?(?:connection refused|no route to host)/],
  [
    "probe timeout",
    /^(?:Get "[^"]*": .*(?:context deadline exceeded|Client\.Timeout|i\/o timeout)|dial tcp \S+:(?<port>\d{1,5}): .*i\/o timeout|command timed out|timeout: )/,
  ],
];

const PREFIXES = [
  /^\(combined from similar events\): /,
  /^Pod was rejected: /,
  /^Error creating: /,
  /^Failed to create new replica set "[a-z0-9.-]{1,253}": /,
  /^pods "[a-z0-9.-]{1,253}" is forbidden: /,
];
/** Only the start of a message is classified. Event messages have at most 1,024 bytes, condition messages at most 32 KiB. */
const READ_MAX = 4_096;

const CLASSES: ReadonlySet<string> = new Set([
  ...[...FORMATS, ...PROBE_FORMATS].map(([name]) => name),
  ...IMAGE_CLASSES.map((each) => `image ${each}`),
  ...["probe failed", "unschedulable", "no nodes"],
]);

/** @param value the message as received, or as a capture file holds it */
export function messageOf(value: unknown, reason: string | undefined, digester: Digester): Message | undefined {
  if (isObject(value)) return storedMessage(value);
  if (typeof value !== "string" || value === "") return undefined;
  const listed = listedMessage(value.slice(0, READ_MAX), reason);
  return listed ?? { length: Buffer.byteLength(value), digest: digester.event(["message", value]) };
}

/** `exceeded quota: quota few, used pods=2`; for a message of an unknown format, its length. */
export function messageText(message: Message | undefined): string | undefined {
  if (message === undefined) return undefined;
  if (!isListed(message)) return `(not captured: ${message.length} bytes)`;
  const slots = Object.entries(message.slots).map(([name, value]) => `${name} ${value}`);
  return slots.length > 0 ? `${message.class}: ${slots.join(", ")}` : message.class;
}

export function isListed(message: Message | undefined): message is ListedMessage {
  return message !== undefined && "class" in message;
}

function listedMessage(text: string, reason: string | undefined): ListedMessage | undefined {
  let rest = text;
  for (const prefix of PREFIXES) rest = rest.replace(prefix, "");
  const image = imageError(rest, reason);
  if (image !== undefined) return checked({ class: `image ${image.class}`, slots: image.code === undefined ? {} : { code: image.code } });
  const scheduling = schedulingError(rest);
  if (scheduling !== undefined) return checked(scheduling);
  const [head = "", probe] = PROBE.exec(rest) ?? [];
  if (probe !== undefined) {
    const found = matching(PROBE_FORMATS, rest.slice(head.length)) ?? { class: "probe failed", slots: {} };
    return checked({ ...found, slots: { ...found.slots, probe: probe.toLowerCase() } });
  }
  const found = matching(FORMATS, rest);
  return found && checked(found);
}

function matching(formats: readonly Format[], text: string): ListedMessage | undefined {
  for (const [name, pattern] of formats) {
    const groups = pattern.exec(text)?.groups;
    if (groups === undefined && !pattern.test(text)) continue;
    const slots = Object.fromEntries(Object.entries(groups ?? {}).filter(([, value]) => value !== undefined));
    return { class: name, slots };
  }
  return undefined;
}

/** MK2 */
function checked({ class: name, slots }: ListedMessage): ListedMessage {
  return { class: name, slots: Object.fromEntries(Object.entries(slots).filter(([slot, text]) => SLOTS[slot]?.test(text) === true)) };
}

function storedMessage(value: Readonly<Record<string, unknown>>): Message | undefined {
  const name = textIn(value, "class");
  if (name !== undefined && CLASSES.has(name)) {
    const { slots } = value;
    const texts = Object.entries(isObject(slots) ? slots : {}).filter((slot): slot is [string, string] => typeof slot[1] === "string");
    return checked({ class: name, slots: Object.fromEntries(texts) });
  }
  const [length, digest] = [numberIn(value, "length"), textIn(value, "digest")];
  return length !== undefined && digest !== undefined && /^[\w-]{22}$/.test(digest) ? { length, digest } : undefined;
}
