import { Option } from "commander";
import { duration } from "@deltaloop/base";
import { goDuration } from "@deltaloop/node-agent/kubelet";

/** A duration; the help shows its default as Go prints it. */
export function durationOption(flag: string, description: string, defaultMs: number): Option {
  return new Option(`${flag} <duration>`, description).argParser(duration(flag)).default(defaultMs, goDuration(defaultMs));
}
