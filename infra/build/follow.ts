/**
 * `node infra/nodejs-runtime/run.js infra/build/follow.ts FILE SYMBOL`: counts the source files that a reader opens to follow the export SYMBOL
 * of FILE through its calls. Ignores types, and methods of ports, whose implementation is chosen elsewhere.
 */
import { dirname, relative, resolve } from "node:path";

import ts from "typescript";

const [file, name] = process.argv.slice(2);
if (file === undefined || name === undefined) throw new Error("usage: follow.ts FILE SYMBOL");
const entered = follow(resolve(file), name);
for (const [path, symbols] of [...entered].toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`${path}: ${[...symbols].join(", ")}`);
console.log(`${entered.size} files are entered from ${name}`);

/** Returns the symbols in use by file. */
function follow(path: string, exported: string): ReadonlyMap<string, ReadonlySet<string>> {
  const root = dirname(ts.findConfigFile(dirname(path), ts.sys.fileExists) ?? path);
  const { config } = ts.readConfigFile(`${root}/tsconfig.json`, ts.sys.readFile) as {
    readonly config: { readonly compilerOptions: object };
  };
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, root);
  const program = ts.createProgram([path], options);
  const checker = program.getTypeChecker();
  const source = program.getSourceFile(path);
  const start = source && checker.getSymbolAtLocation(source)?.exports?.get(ts.escapeLeadingUnderscores(exported));
  if (start === undefined) throw new Error(`${path} exports no ${exported}`);

  const files = new Map<string, Set<string>>();
  const seen = new Set<ts.Declaration>();
  const waiting: ts.Declaration[] = [];

  const enter = (symbol: ts.Symbol | undefined): void => {
    const target = symbol !== undefined && symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;
    for (const declaration of target?.declarations ?? []) {
      if (!isCode(declaration) || seen.has(declaration)) continue;
      const of = declaration.getSourceFile();
      if (of.isDeclarationFile || of.fileName.includes("/node_modules/")) continue;
      seen.add(declaration);
      waiting.push(declaration);
      const where = relative(root, of.fileName);
      const used = files.get(where) ?? new Set();
      // Counts top-level declarations and methods, not declarations inside functions.
      const statement = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration;
      if (ts.isMethodDeclaration(declaration) || statement.parent === of) used.add(target?.name ?? "");
      files.set(where, used);
    }
  };
  const look = (node: ts.Node): void => {
    if (ts.isTypeNode(node) || ts.isInterfaceDeclaration(node) || ts.isTypeAliasDeclaration(node)) return;
    if (ts.isShorthandPropertyAssignment(node)) enter(checker.getShorthandAssignmentValueSymbol(node));
    else if (ts.isIdentifier(node) || ts.isPrivateIdentifier(node)) enter(checker.getSymbolAtLocation(node));
    ts.forEachChild(node, look);
  };

  enter(start);
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop())
    // Follows a class's constructor and fields; its methods only if they are called.
    if (ts.isClassDeclaration(next)) next.members.filter((member) => !ts.isMethodDeclaration(member)).forEach(look);
    else ts.forEachChild(next, look);
  return files;
}

function isCode(declaration: ts.Declaration): boolean {
  return (
    ts.isFunctionDeclaration(declaration) ||
    ts.isClassDeclaration(declaration) ||
    ts.isVariableDeclaration(declaration) ||
    ts.isMethodDeclaration(declaration)
  );
}
