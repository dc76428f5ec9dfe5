/**
 * `node infra/nodejs-runtime/run.js infra/build/follow.ts FILE SYMBOL`: counts the source files that a reader opens to follow SYMBOL, as FILE
 * exports it, through everything it calls. What a file only lends a type to is not entered, nor is one from which nothing is used
 * on the way; a method counts where its class is known, and a port's does not, since what is behind it is chosen elsewhere.
 */
import { dirname, relative, resolve } from "node:path";

import ts from "typescript";

const [file, name] = process.argv.slice(2);
if (file === undefined || name === undefined) throw new Error("usage: follow.ts FILE SYMBOL");
const entered = follow(resolve(file), name);
for (const [path, symbols] of [...entered].toSorted(([a], [b]) => (a < b ? -1 : 1))) console.log(`${path}: ${[...symbols].join(", ")}`);
console.log(`${entered.size} files are entered from ${name}`);

/** @returns of each file that is entered, what is used there */
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
      // What stands inside a function is no place of its own.
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
    // Of a class only the methods that are called count, and what it makes of itself at the start.
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
