// Would catch: a message or reason of a pull that differs from upstream's.
import { describe, expect, it } from "vitest";
import { goDuration } from "../../../../shared/node-agent/kubelet/types/go-duration.ts";
import { aggregateText, backOffMessage, pulledMessage, pullFailure } from "../../../../shared/node-agent/kubelet/images/pull-messages.ts";
import { criErrorText, pullErrorText } from "../../../../shared/node-agent/kubelet/images/cri-error-text.ts";
import { CriError } from "../../../../shared/node-agent/ports/cri-error.ts";

describe("durations", () => {
  const table = [
    [0, "0s"],
    [1, "1ms"],
    [999, "999ms"],
    [1000, "1s"],
    [1200, "1.2s"],
    [10_000, "10s"],
    [12_345, "12.345s"],
    [60_000, "1m0s"],
    [80_000, "1m20s"],
    [62_500, "1m2.5s"],
    [300_000, "5m0s"],
    [3_600_000, "1h0m0s"],
    [5_025_007, "1h23m45.007s"],
  ] as const;
  it.each(table)("[node-agent 232] %i ms are printed as %s", (ms, want) => {
    expect(goDuration(ms)).toBe(want);
  });
});

it("[node-agent 232] reports the duration of a pull without and with the waiting time", () => {
  expect(pulledMessage("foo:v1", { pullMs: 350, totalMs: 62_500.9, sizeBytes: 1234 })).toBe(
    'Successfully pulled image "foo:v1" in 350ms (1m2.5s including waiting). Image size: 1234 bytes.',
  );
});

describe("failures", () => {
  const table = [
    {
      error: new CriError("Unknown", "failed to pull and unpack"),
      text: "failed to pull and unpack",
      want: { reason: "ErrImagePull", message: "failed to pull and unpack" },
    },
    {
      error: new CriError("NotFound", "foo: not found"),
      text: "rpc error: code = NotFound desc = foo: not found",
      want: { reason: "ErrImagePull", message: "rpc error: code = NotFound desc = foo: not found" },
    },
    { error: new Error("pull QPS exceeded"), text: "pull QPS exceeded", want: { reason: "ErrImagePull", message: "pull QPS exceeded" } },
    {
      error: new CriError("Unknown", "RegistryUnavailable: no route"),
      text: "RegistryUnavailable: no route",
      want: { reason: "RegistryUnavailable", message: "image pull failed for foo because the registry is unavailable: no route" },
    },
    {
      error: new CriError("Unknown", "SignatureValidationFailed"),
      text: "SignatureValidationFailed",
      want: { reason: "SignatureValidationFailed", message: "image pull failed for foo because the signature validation failed" },
    },
    // Only a message that starts with the word counts; a code before the word prevents the match.
    {
      error: new CriError("Unavailable", "RegistryUnavailable: no route"),
      text: "rpc error: code = Unavailable desc = RegistryUnavailable: no route",
      want: { reason: "ErrImagePull", message: "rpc error: code = Unavailable desc = RegistryUnavailable: no route" },
    },
  ];
  it.each(table)("[node-agent 232] pull error $text → $want.reason", ({ error, text, want }) => {
    expect(pullErrorText(error)).toBe(text);
    expect(pullFailure("foo", text)).toEqual(want);
  });

  it("[node-agent 232] includes the code of other runtime errors, even Unknown", () => {
    expect(criErrorText(new CriError("Unknown", "no"))).toBe("rpc error: code = Unknown desc = no");
  });

  const several = [
    [["denied"], "denied"],
    [["denied", "denied"], "denied"],
    [["denied", "gone"], "[denied, gone]"],
    [["denied", "gone", "denied"], "[denied, gone]"],
  ] as const;
  it.each(several)("[node-agent 232] reports the errors of all tried credentials: %j", (texts, want) => {
    expect(aggregateText(texts)).toBe(want);
  });

  it("[node-agent 232] includes the cause of the previous failure in a back-off", () => {
    expect(backOffMessage("foo", undefined)).toBe('Back-off pulling image "foo"');
    expect(backOffMessage("foo", "RegistryUnavailable: no")).toBe('Back-off pulling image "foo": RegistryUnavailable: no');
  });
});
