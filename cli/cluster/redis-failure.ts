import { messageOf } from "@deltaloop/kube/objects";
import { UsageError } from "@deltaloop/base";

/**
 * The error of a Redis that did not answer its first command, with its address. ioredis reports no address, and the URL may hold a
 * password.
 */
export function redisFailure(option: string, url: string, error: unknown): UsageError {
  const { code } = error as NodeJS.ErrnoException;
  const said = messageOf(error) || (code ?? "no reason was given"); // an error for several addresses has an empty message
  const why = said.startsWith("NOAUTH") ? "Redis requires a password, as in redis://user:password@host" : said;
  return new UsageError(`${option}: the Redis at ${new URL(url).host} cannot be used: ${why}`);
}
