// Would catch: a change that is not seen, or is shown of another item; an item that stays when it is gone; all read again each second.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ListReader } from "../../../../shared/adapters/cri/listed.ts";

/** By id, which each reader here gives its item as text: `<id>=<state>`. */
type States = Readonly<Record<string, string>>;

const field = (number: number, bytes: Buffer): Buffer => Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
const itemOf = ([id, state]: readonly [string, string]): Buffer =>
  Buffer.concat([field(1, Buffer.from(id.repeat(64))), field(2, Buffer.from(state))]);
const answerOf = (states: States, order = Object.keys(states)): Buffer =>
  Buffer.concat(order.map((id) => field(1, itemOf([id, states[id] ?? ""]))));

interface Item {
  readonly text: string;
}

function reader(): { readonly list: ListReader<Item>; readonly read: string[] } {
  const read: string[] = [];
  const list = new ListReader((bytes): Item => {
    const idEnd = 2 + (bytes[1] ?? 0);
    const text = `${Buffer.from(bytes.subarray(2, 3)).toString()}=${Buffer.from(bytes.subarray(idEnd + 2)).toString()}`;
    read.push(text);
    return { text };
  });
  return { list, read };
}

const ALL = { isOfAll: true };
const SOME = { isOfAll: false };

describe("[node-agent 481] a list of the runtime", () => {
  it("is read where it has changed, in whatever order it comes, and shared where not", () => {
    const { list, read } = reader();
    const first = list.items(answerOf({ a: "up", b: "up" }), ALL);
    const second = list.items(answerOf({ a: "up", b: "down" }, ["b", "a"]), ALL);
    expect(read).toEqual(["a=up", "b=up", "b=down"]);
    expect(second.map(({ text }) => text)).toEqual(["b=down", "a=up"]);
    expect(second[1]).toBe(first[0]);
    expect(second.every(Object.isFrozen)).toBe(true);
  });

  it("keeps no part of the answer", () => {
    const { list } = reader();
    const answer = answerOf({ a: "up" });
    const [before] = list.items(answer, ALL);
    answer.fill(0);
    expect(list.items(answerOf({ a: "up" }), ALL)[0]).toBe(before);
  });

  it("forgets what the last of everything did not have, and nothing after one of some", () => {
    const { list, read } = reader();
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    list.items(answerOf({ a: "up" }), SOME);
    expect(list.size).toBe(2);
    list.items(answerOf({ a: "up" }), ALL);
    expect(list.size).toBe(1);
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    expect(read).toEqual(["a=up", "b=up", "b=up"]);
  });

  it("reads what a list of some has shown no second time", () => {
    const { list, read } = reader();
    list.items(answerOf({ a: "up" }), ALL);
    list.items(answerOf({ b: "up" }), SOME);
    list.items(answerOf({ b: "up" }), SOME);
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    expect(read).toEqual(["a=up", "b=up"]);
  });

  it("passes over fields that it does not know, and reads items that begin with another", () => {
    const { list } = reader();
    const odd = Buffer.concat([field(2, Buffer.from("x")), field(2, Buffer.from("y"))]);
    const answer = Buffer.concat([field(7, Buffer.from("new")), field(1, itemOf(["a", "up"])), field(1, odd), field(1, Buffer.alloc(0))]);
    expect(list.items(answer, ALL)).toHaveLength(3);
    expect(list.items(answer, ALL)).toHaveLength(3);
  });

  it("reads those whose ids begin alike as those whose do not", () => {
    const { list } = reader();
    const alike = (state: string): Buffer => field(1, Buffer.concat([field(1, Buffer.from("a".repeat(64))), field(2, Buffer.from(state))]));
    for (const states of [
      ["up", "down"],
      ["down", "up"],
      ["up", "up"],
    ])
      expect(list.items(Buffer.concat(states.map(alike)), ALL).map(({ text }) => text)).toEqual(states.map((state) => `a=${state}`));
  });

  it("is always what reading all of it would make", () => {
    const states = fc.dictionary(fc.constantFrom("a", "b", "c"), fc.constantFrom("", "up", "down", "uq"), { maxKeys: 3 });
    const law = fc.property(fc.array(fc.tuple(states, fc.boolean()), { maxLength: 8 }), (answers) => {
      const { list } = reader();
      for (const [state, isOfAll] of answers) {
        const items = list.items(answerOf(state), { isOfAll }).map(({ text }) => text);
        expect(items).toEqual(Object.entries(state).map(([id, is]) => `${id}=${is}`));
      }
    });
    fc.assert(law);
  });
});
