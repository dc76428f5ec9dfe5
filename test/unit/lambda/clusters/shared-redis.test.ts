/** The connection to Redis that all clusters of a function share. Catches: a rotated password that is not read until the secrets expire. */
import { expect, it } from "vitest";

import { sharedRedisFailed } from "../../../../shared/controllers/lambda/clusters/deployed-for-clusters.ts";
import { silentLog } from "../../../support/silent-log.ts";

it.for([
  { message: "WRONGPASS invalid username-password pair or user is disabled.", isRenewed: true },
  { message: "NOAUTH Authentication required.", isRenewed: true },
  { message: "connect ECONNREFUSED 127.0.0.1:6379", isRenewed: false },
])("reads the secrets again only if Redis rejects the password: $message", ({ message, isRenewed }) => {
  const causes: string[] = [];
  const lines: string[] = [];
  const renew = async (cause: string) => await Promise.resolve(causes.push(cause) > 0);
  sharedRedisFailed({ renew }, { ...silentLog, warn: (line) => void lines.push(line) })(new Error(message));
  expect(causes).toEqual(isRenewed ? ["redis"] : []);
  expect(lines).toEqual(["redis connection failed"]);
});
