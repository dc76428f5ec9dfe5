// Lists of the runtime: which items are decoded again.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ListReader } from "../../../../shared/node-agent/cri/listed.ts";

/** Texts by id; each reader in this file renders an item as `<id>=<state>`. */
type States = Readonly<Record<string, string>>;

/** Encodes a field of less than 128 bytes, or of less than 16,384. */
const field = (number: number, bytes: Buffer): Buffer => {
  const length = bytes.length < 128 ? [bytes.length] : [(bytes.length & 127) | 128, bytes.length >> 7];
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...length]), bytes]);
};
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

describe("[node-agent 481] a list from the runtime", () => {
  it("decodes changed items, in any order, and reuses the others", () => {
    const { list, read } = reader();
    const first = list.items(answerOf({ a: "up", b: "up" }), ALL);
    const second = list.items(answerOf({ a: "up", b: "down" }, ["b", "a"]), ALL);
    expect(read).toEqual(["a=up", "b=up", "b=down"]);
    expect(second.map(({ text }) => text)).toEqual(["b=down", "a=up"]);
    expect(second[1]).toBe(first[0]);
    expect(second.every(Object.isFrozen)).toBe(true);
  });

  it("a decoded list does not retain memory of the response", () => {
    const { list } = reader();
    const answer = answerOf({ a: "up" });
    const [before] = list.items(answer, ALL);
    answer.fill(0);
    expect(list.items(answerOf({ a: "up" }), ALL)[0]).toBe(before);
  });

  it("drops cached items that are missing in a full list, but none after a partial list", () => {
    const { list, read } = reader();
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    list.items(answerOf({ a: "up" }), SOME);
    expect(list.size).toBe(2);
    list.items(answerOf({ a: "up" }), ALL);
    expect(list.size).toBe(1);
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    expect(read).toEqual(["a=up", "b=up", "b=up"]);
  });

  it("does not decode items again that a partial list has already decoded", () => {
    const { list, read } = reader();
    list.items(answerOf({ a: "up" }), ALL);
    list.items(answerOf({ b: "up" }), SOME);
    list.items(answerOf({ b: "up" }), SOME);
    list.items(answerOf({ a: "up", b: "up" }), ALL);
    expect(read).toEqual(["a=up", "b=up"]);
  });

  it("skips unknown fields, and reads items that begin with another field", () => {
    const { list } = reader();
    const odd = Buffer.concat([field(2, Buffer.from("x")), field(2, Buffer.from("y"))]);
    const answer = Buffer.concat([field(7, Buffer.from("new")), field(1, itemOf(["a", "up"])), field(1, odd), field(1, Buffer.alloc(0))]);
    expect(list.items(answer, ALL)).toHaveLength(3);
    expect(list.items(answer, ALL)).toHaveLength(3);
  });

  it("reads items whose ids share a prefix", () => {
    const { list } = reader();
    const alike = (state: string): Buffer => field(1, Buffer.concat([field(1, Buffer.from("a".repeat(64))), field(2, Buffer.from(state))]));
    for (const states of [
      ["up", "down"],
      ["down", "up"],
      ["up", "up"],
    ])
      expect(list.items(Buffer.concat(states.map(alike)), ALL).map(({ text }) => text)).toEqual(states.map((state) => `a=${state}`));
  });

  it("a partial decode always equals a full decode", () => {
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

describe("[node-agent 504] an item with its labels in another order", () => {
  /** An item with an id and with labels in field 8, which the reader returns as sorted text. */
  const labelled = (id: string, labels: readonly string[]): Buffer =>
    field(1, Buffer.concat([field(1, Buffer.from(id.repeat(64))), ...labels.map((label) => field(8, Buffer.from(label)))]));

  function labelReader(): { readonly list: ListReader<Item>; count: number } {
    const made = {
      count: 0,
      list: new ListReader((bytes): Item => {
        made.count++;
        const labels: string[] = [];
        for (let at = 2 + (bytes[1] ?? 0); at < bytes.length; at += 2 + (bytes[at + 1] ?? 0))
          labels.push(bytes.subarray(at + 2, at + 2 + (bytes[at + 1] ?? 0)).toString());
        return { text: labels.toSorted().join() };
      }),
    };
    return made;
  }

  it("an item with its labels in another order is not decoded again", () => {
    const read = labelReader();
    const labels = ["app=web", "tier=a", "pod=1", "app=web"];
    const [first] = read.list.items(labelled("a", labels), ALL);
    for (let turn = 1; turn < labels.length; turn++) {
      const turned = [...labels.slice(turn), ...labels.slice(0, turn)];
      expect(read.list.items(labelled("a", turned), ALL)).toEqual([first]);
      expect(read.list.items(labelled("a", turned.toReversed()), ALL)[0]).toBe(first);
    }
    expect(read.count).toBe(1);
  });

  it("an item is decoded again when fields of two items are swapped", () => {
    const { list, read } = reader();
    const both = (first: number, second: number): Buffer =>
      field(1, Buffer.concat([field(1, Buffer.from("a".repeat(64))), field(first, Buffer.from("x=1")), field(second, Buffer.from("y=2"))]));
    for (const [first, second] of [
      [8, 9],
      [9, 8],
      [8, 8],
      [9, 9],
    ] as const)
      list.items(both(first, second), ALL);
    expect(read).toHaveLength(4);
  });

  it("an item is decoded again when a value changes at equal length, or a field is repeated in place of another", () => {
    const read = labelReader();
    const texts = [
      ["k=1", "l=2"],
      ["l=3", "k=1"],
      ["k=1", "k=1"],
      ["l=3", "l=3"],
    ].map((labels) => read.list.items(labelled("a", labels), ALL)[0]?.text);
    expect(texts).toEqual(["k=1,l=2", "k=1,l=3", "k=1,k=1", "l=3,l=3"]);
    expect(read.count).toBe(4);
  });

  it("an item is decoded again when it has more fields than can be compared cheaply", () => {
    const read = labelReader();
    const many = (count: number): string[] => Array.from({ length: count }, (_, index) => `l${100 + index}`);
    for (const [count, reads] of [
      [63, 1],
      [64, 3],
    ] as const) {
      read.list.items(labelled("a", many(count)), ALL);
      read.list.items(labelled("a", many(count).toReversed()), ALL);
      expect(read.count).toBe(reads);
    }
  });

  it("a reused item always equals a newly decoded one", () => {
    const labels = fc.array(fc.constantFrom("a=1", "a=2", "b=1", "b=22"), { maxLength: 5 });
    fc.assert(
      fc.property(fc.array(labels, { minLength: 1, maxLength: 8 }), (answers) => {
        const { list } = labelReader();
        for (const given of answers) expect(list.items(labelled("a", given), ALL)[0]?.text).toBe(given.toSorted().join());
      }),
    );
  });
});
