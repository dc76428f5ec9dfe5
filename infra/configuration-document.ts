/** Generates docs/reference/configuration.md from the table of variables that functions and watcher read. */
import { configurationVariables } from "@deltaloop/controllers/configuration";

/** Maps each path (relative to this folder) to its text. */
export function configurationDocument(): Readonly<Record<string, string>> {
  const rows = configurationVariables().map((variable) => {
    const value = variable.required ? "required" : variable.default === undefined ? "–" : `\`${variable.default}\``;
    return `| \`${variable.name}\` | ${value} | ${variable.meaning} |`;
  });
  return { "../docs/reference/configuration.md": [HEAD, ...rows, ""].join("\n") };
}

const HEAD = `# Configuration

\`node infra/generate.ts\` writes this page.

Functions and watcher read environment variables once, when they start. They report all problems together and exit
with code 2. An empty variable counts as absent, and an unknown variable with the prefix DELTALOOP_ is a mistake.
\`deltaloop dev\` sets all of them itself. [Command line](cli.md) has the flags, and \`infra/parameters.yml\` the parameters of the
stack. The node agent reads a [KubeletConfiguration](../guides/node.md#3-the-machine) instead.

A variable that ends in \`_SECRET\` names a secret in Secrets Manager (\`deltaloop/prod/mac-key\`), in the Parameter Store
(\`ssm:/path\`) or in a file (\`file:/path\`), instead of the value; a required variable is then not needed.
[Rotate keys](../guides/rotate-keys.md) describes when they are read again.

| Variable | Default | Meaning |
|---|---|---|`;
