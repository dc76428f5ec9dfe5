/** An image that cannot be pulled. */
import type { ImageClass } from "../evidence/image-errors.ts";
import { ofContainers, NEXT_PULL } from "./finding.ts";
import type { Hit, Rule, Target, WordsOf } from "./finding.ts";
import { eventsOf, listed, podName } from "../incident/view.ts";
import type { RunContainer, View } from "../incident/view.ts";

const REASONS = new Set([
  ...["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"],
  ...["ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed"],
]);
const RANK = 30;

function hit(view: View, { pod, kind, spec, status }: RunContainer): readonly Hit[] {
  const { reason = "", message } = status.state.waiting ?? {};
  if (!REASONS.has(reason)) return [];
  const events = eventsOf(view, pod.uid, "Failed", "BackOff", "ErrImageNeverPull", "InspectFailed");
  // A back-off may not show the class of the error, but the Event of the failed pull does.
  const known = [message, ...events.map((event) => event.message)].flatMap((each) => listed(each) ?? []);
  const images = known.filter((each) => each.class.startsWith("image "));
  const found = images.find((each) => each.class !== "image not pulled") ?? images[0];
  const secret = eventsOf(view, pod.uid, "FailedToRetrieveImagePullSecret").length > 0;
  const code = found?.slots["code"];
  // The kubelet's plain "Back-off pulling image" and an absent message add nothing to the reason.
  const isPlain = message === undefined || (reason === "ImagePullBackOff" && listed(message) !== undefined);
  const isUnknown = found === undefined || found.class === "image not pulled";
  return [
    {
      kind: found?.class ?? "image not pulled",
      facts: {
        ...{ image: spec.image ?? "unknown", container: spec.name, of: kind },
        ...(code !== undefined && { code }),
        ...(isUnknown && { reason: `${isPlain ? "" : "the message is of no known format, "}reason ${reason}` }),
        ...(secret && { secret: "missing" }),
      },
      object: podName(pod),
      since: pod.createdMs,
      evidence: [`${kind} ${spec.name} waits: ${reason}`],
      events,
    },
  ];
}

function remedy({ namespace, object, canUndo }: Target, container: string | undefined): string {
  if (canUndo) return `kubectl -n ${namespace} rollout undo ${object}`;
  return object.startsWith("deployment/")
    ? `kubectl -n ${namespace} set image ${object} ${container}=IMAGE`
    : `kubectl -n ${namespace} describe ${object}`;
}

/** Reasons after which the kubelet pulls again, and errors after which it does not, or without a pause. */
const PULLS = /ErrImagePull$|ImagePullBackOff$/;
const NOT_RETRIED = new Set<string>(["waits for the kubelet", "name invalid", "never pulled"] satisfies ImageClass[]);

const pulled =
  (why: string, ...help: readonly string[]): WordsOf =>
  ({ image, container, of, code, secret, reason }, target) => ({
    cause: `image ${image} of ${of} ${container} cannot be pulled: ${[why, reason].filter(Boolean).join(", ")}${code === undefined ? "" : ` (HTTP ${code})`}`,
    help: [...(secret === undefined ? [] : ["an image pull secret that the pod names does not exist"]), ...help, remedy(target, container)],
  });

const WORDS: { readonly [C in ImageClass]: WordsOf } = {
  "not found": pulled("the registry does not have it", "correct the name or tag, or push the image"),
  "wrong platform": pulled("it has no variant for the node's architecture", "build it for the platform of the nodes"),
  denied: pulled("access denied, or the repository does not exist", "check the name and the imagePullSecrets of the pod"),
  "rate limited": pulled("the registry limits the rate of pulls", "use a mirror, or log in with imagePullSecrets"),
  unreachable: pulled("the node cannot reach the registry", "check DNS, proxy, firewall and certificate on the node"),
  "waits for the kubelet": pulled("the kubelet limits its own pulls; it retries"),
  "disk full": pulled("the node's disk is full"),
  "name invalid": pulled("the name is invalid"),
  "never pulled": pulled("imagePullPolicy is Never, and the node does not have it"),
  "pull secret missing": pulled("an image pull secret does not exist"),
  "not pulled": pulled(""),
};

const retried =
  (words: WordsOf): WordsOf =>
  (facts, target) => ({ ...words(facts, target), ...(PULLS.test(facts["reason"] ?? "ErrImagePull") && { next: NEXT_PULL }) });

export const image: Rule = {
  find: ofContainers(RANK, hit),
  words: Object.fromEntries(
    Object.entries(WORDS).map(([name, words]) => [`image ${name}`, NOT_RETRIED.has(name) ? words : retried(words)]),
  ),
};
