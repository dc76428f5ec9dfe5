/** `npm run architecture`: checks the import rules. Fails if a rule is broken or a source file was not read. */
import { cruiseFolder, sourceFiles } from "./cruise.ts";

const folder = process.cwd();
const [{ modules, dependencies, violations }, files] = await Promise.all([cruiseFolder(folder), sourceFiles(folder)]);
for (const { rule, from, to } of violations) console.error(`${rule}: ${from} -> ${to}`);
const unread = files.length - modules;
if (files.length === 0 || unread > 0) console.error(`only ${modules} of ${files.length} modules were read`);
if (violations.length > 0 || unread > 0 || files.length === 0) process.exitCode = 1;
else console.log(`${modules} modules, ${dependencies} dependencies, no rule broken`);
