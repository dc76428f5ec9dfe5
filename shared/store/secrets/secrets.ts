import { SecretError } from "../ports/secrets.ts";
import type { Secrets } from "../ports/secrets.ts";
import { createSecretReader, failed, placed, TIMEOUT_MS, urlOf } from "./secret-reader.ts";
import type { SecretsOptions } from "./secret-reader.ts";
import { writeSecretFile } from "./secret-file.ts";

/** Ends its connections with `close`. */
export function createSecrets(options: SecretsOptions = {}): Secrets & { close(): void } {
  const { read, service, close } = createSecretReader(options);
  return {
    read,
    close,
    async write(reference, value) {
      const { place } = placed(reference);
      const { kind, id, region } = place;
      const answer =
        kind === "file"
          ? await writeSecretFile(id, value).catch(failed)
          : await service(kind)
              .write(id, value, urlOf(kind, region, options), options.timeoutMs ?? TIMEOUT_MS)
              .catch(failed);
      if ("problem" in answer) throw new SecretError([`${reference}: ${answer.problem}`]);
    },
  };
}
