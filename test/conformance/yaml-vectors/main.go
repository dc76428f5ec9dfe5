// Writes vectors.jsonl: YAML texts and what sigs.k8s.io/yaml makes of them, or null where it refuses them. Run it in a module that
// requires sigs.k8s.io/yaml v1.6.0, and pass the path of the file.
package main

import (
	"encoding/json"
	"math/rand"
	"os"
	"strings"

	"sigs.k8s.io/yaml"
)

var atoms = []string{"a", "b", "y", "n", "yes", "no", "on", "off", "true", "false", "True", "TRUE", "tRue", "null", "~", "Null", "", "0", "1", "-1", "+1", "00", "010", "08", "09", "0o10", "0O7", "0x1F", "0X1f", "0b101", "-0b11", "-0x1", "-0o7", "1_000", "1__0", "_1", "1_", "12:30", "190:20:30", "190:20:30.15", "-1:30", "2222:22", "08:30", "1e3", "1e+3", "1E-3", "12e345", "1e+400", "123e4567", ".5", "-.5", "+.5", "1.", "1.5", "1.50", "-1.25e+2", ".5e3", ".e3", ".", "..", "-", "+", "--", ".inf", "-.inf", "+.INF", ".nan", ".NaN", "2001-01-01", "2001-01-01T10:00:00Z", "2001-01-01 10:00:00", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809", "1.0", "100000000000000000000", "0.1", "1,000", "0xg", "0o8", "0b2", "1s", "5m", "!!str 1", "!!int 1", "!!int '1'", "!!int x", "!!float 1", "!!float 1.5", "!!bool yes", "!!bool 1", "!!null ''", "!!null x", "!!binary aGk=", "!!binary aG", "!!timestamp 2001-01-01", "!foo x", "'1'", "\"1\"", "'yes'", "\"\\u00e9\"", "é", "128 MB", "1 Gi", "<<", "=", "#x", "a#b", "a #b", "a: b", "*x", "&a 1", "@x", "`x", "%x", "a%", "?x", "? x", "|\n  a\n  b", ">\n  a\n  b", ">-\n  a\n\n  b\n", "|+\n  a\n\n", "|-\n  a", "|2\n   a", "\"a\\\n  b\"", "'a\n\n  b'", "a\n  b", "{}", "[]", "{a: 1, b: [1, yes]}", "[a, b,]", "[a,, b]", "{a, b: 1}", "{a: }", "[1, [2, {c: 3}]]", "{\"a\":1}", "[a\n  , b]", "{a: 1", "[1", "\"x", "'x", "\"\\q\"", "\t1", "1\t", "a\tb", "- 1", "-1 ", "0.0", "-0", "+0", "-0.0", "0e+0", "1e", "1e+", "0x", "0b", "0o", "0_7", "0x_1", "٣", "NaN", "Inf", "inf", "NULL", "nUll", "Y", "N", "On", "OFF", "oN"}
var keys = []string{"a", "b", "c", "1", "yes", "0x10", "1.5", "null", "~", "'q'", "\"d\"", "true", "010", "? k", "a b", "12:30", "1e3", "-1"}

func doc(r *rand.Rand, depth int, indent string) string {
	var b strings.Builder
	n := 1 + r.Intn(3)
	list := r.Intn(4) == 0
	for i := 0; i < n; i++ {
		head := "- "
		if !list {
			head = keys[r.Intn(len(keys))] + ": "
		}
		if depth > 0 && r.Intn(3) == 0 {
			b.WriteString(indent + strings.TrimRight(head, " ") + "\n" + doc(r, depth-1, indent+"  "))
		} else {
			a := atoms[r.Intn(len(atoms))]
			b.WriteString(indent + head + strings.ReplaceAll(a, "\n", "\n"+indent) + "\n")
		}
	}
	return b.String()
}

// Escapes in quoted texts: each printable character, and what JSON or YAML 1.2 writes.
func escapes() (texts []string) {
	for c := ' '; c <= '~'; c++ {
		texts = append(texts, "\"a\\"+string(c)+"b\"", "- {\"\\"+string(c)+"\": 1}\n")
	}
	return append(texts, "\"\\\tb\"", `"\é"`, `"\x41"`, `"\u0041"`, `"\U0001F600"`, `"\ud83d\ude00"`, `"\uD800"`, `"\U00110000"`, `"\x4"`, `"\u12"`, `"\x80"`, `"\\/"`, `"\\\/"`, `'\/'`, `\/`, "|\n  \\/\n", "\"a\\\n  /b\"", `{"a": "\/"}`, "# \"\\/\"\na: 1\n", "a: &x \"\\/\"\n", "a: 1\n---\nb: \"\\/\"\n")
}

func main() {
	r := rand.New(rand.NewSource(7))
	var texts []string
	for _, a := range atoms {
		texts = append(texts, "a: "+a+"\n", a, "- "+a+"\n", "{a: "+a+"}\n")
	}
	for _, k := range keys {
		texts = append(texts, k+": 1\n")
	}
	texts = append(texts, "a: 1\na: 2\n", "a: &x {b: 1}\nc: {<<: *x, d: 2}\n", "a: &x {b: 1, d: 3}\nc:\n  d: 2\n  <<: *x\n", "a: &x [1]\nb: *x\n", "b: *x\n", "a: 1\n---\nb: 2\n", "a: 1\n...\nb: [\n", "---\n", "", "# only\n", "---\na: 1\n---\n", "%YAML 1.1\n---\na: yes\n", "%YAML 1.2\n---\na: yes\n", "a: 1\n b: 2\n", "a:\n- 1\n- 2\n", "a:\n  - 1\n - 2\n", "\ufeffa: 1\n", "a: 1\r\nb: 2\r\n", "a: \"x\ny\"\n", "? a\n: b\n", "? [a]\n: b\n", "a: [b]: c\n", "- a: 1\n  b: 2\n- c\n", "a: 1 # c\n", "a: 'it''s'\n", "a: 1\n\tb: 2\n", "a:\t1\n", "a : 1\n", "a:1\n", "\"a\":1\n", "{\"a\":1}", "{\"a\":1} x", "a: !!map {b: 1}\n", "a: !!seq [1]\n", "a: &x 1\nb: &x 2\nc: *x\n", "<<: {a: 1}\n", "<<: [{a: 1}, {a: 2, b: 3}]\n", "<<: 1\n", "a: {<<: *b}\n", "x: &a\n  - *a\n")
	texts = append(escapes(), texts...)
	for len(texts) < 2800 {
		texts = append(texts, doc(r, 2, ""))
	}
	file, err := os.Create(os.Args[1])
	if err != nil {
		panic(err)
	}
	defer file.Close()
	encoder := json.NewEncoder(file)
	encoder.SetEscapeHTML(false)
	seen := map[string]bool{}
	for _, text := range texts {
		if seen[text] || len(seen) == 2200 {
			continue
		}
		seen[text] = true
		var made any
		if converted, err := yaml.YAMLToJSON([]byte(text)); err == nil {
			made = string(converted)
		}
		if err := encoder.Encode([]any{text, made}); err != nil {
			panic(err)
		}
	}
}
