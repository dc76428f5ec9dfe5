/** Catches: an error about an unusable Redis without its address, or with its password. */
import { expect, it } from "vitest";

import { redisFailure } from "../../../../cli/cluster/redis-failure.ts";

const AT = "--redis: the Redis at r.example:6379 cannot be used: ";

it.each([
  {
    name: "prints Redis' error message",
    error: new Error("WRONGPASS invalid username-password pair"),
    says: "WRONGPASS invalid username-password pair",
  },
  {
    name: "prints the errors of several addresses",
    error: Object.assign(new AggregateError([]), { code: "ECONNREFUSED" }),
    says: "ECONNREFUSED",
  },
  { name: "prints a text for an error without a message", error: new Error(), says: "no reason was given" },
  {
    name: "explains a missing password",
    error: new Error("NOAUTH HELLO must be called with the client already authenticated"),
    says: "Redis requires a password, as in redis://user:password@host",
  },
])("$name", ({ error, says }) => {
  expect(redisFailure("--redis", "redis://somebody:secret@r.example:6379", error).message).toBe(AT + says);
});
