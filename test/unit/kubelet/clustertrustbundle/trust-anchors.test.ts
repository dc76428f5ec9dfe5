/** Would catch: a certificate that a pod must not trust, a missing certificate, and an order that changes with each sync. */
import { describe, expect, it } from "vitest";
import { certificateBlocks, pemBlock } from "../../../../shared/node-agent/kubelet/certificate/pem.ts";
import { bundleSelector, trustAnchors } from "../../../../shared/node-agent/kubelet/clustertrustbundle/trust-anchors.ts";
import type { TrustBundle, TrustBundleSource } from "../../../../shared/node-agent/kubelet/types/projected-sources.ts";
import { VolumeError } from "../../../../shared/node-agent/kubelet/types/volume-error.ts";

const pem = (...texts: readonly string[]): string => texts.map((text) => pemBlock("CERTIFICATE", Buffer.from(text))).join("between\n");

function bundle(name: string, trustBundle: string, labels?: Readonly<Record<string, string>>): TrustBundle {
  return { metadata: { name, uid: name, resourceVersion: "1", ...(labels && { labels }) }, spec: { signerName: "a.test/s", trustBundle } };
}

const LIVE = bundle("live", pem("one", "two"), { live: "yes" });
const CANARY = bundle("canary", pem("two", "three"), { live: "no" });
const BARE = bundle("bare", pem("four"));
const BUNDLES = [LIVE, CANARY, BARE];

/** Returns the sorted contents of the certificates. */
function contents(source: Omit<TrustBundleSource, "path">, bundles: readonly TrustBundle[] | undefined): readonly string[] {
  return certificateBlocks(trustAnchors({ path: "ca", ...source }, bundles, "salt"))
    .map(String)
    .toSorted();
}

describe("[node-agent 508] the trust anchors of a projected volume", () => {
  const table: { name: string; source: Omit<TrustBundleSource, "path">; bundles: readonly TrustBundle[]; want: readonly string[] }[] = [
    { name: "those of a bundle by name", source: { name: "live" }, bundles: [LIVE], want: ["one", "two"] },
    { name: "empty for an optional bundle that does not exist", source: { name: "live", optional: true }, bundles: [], want: [] },
    {
      name: "those of every bundle of a signer, each certificate once, with the empty selector",
      source: { signerName: "a.test/s", labelSelector: {} },
      bundles: BUNDLES,
      want: ["four", "one", "three", "two"],
    },
    {
      name: "those of the selected bundles of a signer",
      source: { signerName: "a.test/s", labelSelector: { matchExpressions: [{ key: "live", operator: "In", values: ["no"] }] } },
      bundles: BUNDLES,
      want: ["three", "two"],
    },
    {
      name: "empty for an optional source whose selector matches no bundle",
      source: { signerName: "a.test/s", labelSelector: { matchLabels: { live: "maybe" } }, optional: true },
      bundles: BUNDLES,
      want: [],
    },
    {
      name: "empty for an optional source without a selector",
      source: { signerName: "a.test/s", optional: true },
      bundles: BUNDLES,
      want: [],
    },
  ];
  it.each(table)("are $name", ({ source, bundles, want }) => {
    expect(contents(source, bundles)).toEqual(want);
  });

  const zero = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
  const wide = {
    matchExpressions: [{ key: "k", operator: "In", values: Array.from({ length: 2_000 }, (_, n) => `${n}`.padStart(60, "0")) }],
  };
  const errors: { name: string; source: Omit<TrustBundleSource, "path">; bundles: readonly TrustBundle[] | undefined; want: string }[] = [
    {
      name: "a missing bundle",
      source: { name: "live" },
      bundles: [],
      want: 'while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io "live" not found',
    },
    { name: "an absent selector", source: { signerName: "a.test/s" }, bundles: BUNDLES, want: zero },
    { name: "a signer without bundles", source: { signerName: "a.test/s", labelSelector: {} }, bundles: [], want: zero },
    {
      name: "an invalid selector",
      source: { signerName: "a.test/s", labelSelector: { matchExpressions: [{ key: "k", operator: "Is" }] } },
      bundles: BUNDLES,
      want: 'while parsing label selector: "Is" is not a valid label selector operator',
    },
    {
      name: "a selector of more than 100 KiB",
      source: { signerName: "a.test/s", labelSelector: wide },
      bundles: BUNDLES,
      want: "label selector length (122006) is larger than 102400",
    },
    {
      name: "an API server without ClusterTrustBundles, even for an optional one",
      source: { name: "live", optional: true },
      bundles: undefined,
      want: "ClusterTrustBundle projection is not supported in static kubelet mode",
    },
  ];
  it.each(errors)("an error is returned for $name", ({ source, bundles, want }) => {
    expect(() => contents(source, bundles)).toThrow(new VolumeError(want));
  });

  it("are shuffled in an order that is fixed for each agent process, whatever the order of the bundles", () => {
    const many = bundle("many", pem(...Array.from({ length: 20 }, (_, n) => `anchor ${n}`)));
    const source = { path: "ca", signerName: "a.test/s", labelSelector: {} };
    const first = trustAnchors(source, [many, LIVE], "process 1");
    expect(trustAnchors(source, [LIVE, many], "process 1")).toBe(first);
    expect(trustAnchors(source, [LIVE, many], "process 2")).not.toBe(first);
    const without = trustAnchors(source, [many], "process 1");
    expect(
      certificateBlocks(first)
        .map(String)
        .filter((text) => text.startsWith("anchor")),
    ).toEqual(certificateBlocks(without).map(String));
  });
});

it("[node-agent 508] lists only the bundles that a source selects", () => {
  expect(bundleSelector({ path: "ca", name: "live" })).toBe("metadata.name=live");
  expect(bundleSelector({ path: "ca", signerName: "a.test/s" })).toBe("spec.signerName=a.test/s");
  expect(() => bundleSelector({ path: "ca" })).toThrow(
    new VolumeError("ClusterTrustBundle projection requires either name or signerName to be set"),
  );
});
