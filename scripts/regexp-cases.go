// Writes patterns, inputs and the answers of Go's regexp for the tests of crates/cel/src/regexp:
//
//	go run scripts/regexp-cases.go > crates/cel/tests/data/regexp-cases.jsonl
//
// The patterns come from a seeded generator and from the list below. Nothing here is needed to build or test.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"regexp"
	"strings"
)

const (
	acceptedCount = 5600
	refusedCount  = 700
	inputsEach    = 3
)

var random = rand.New(rand.NewSource(7))

var atoms = []string{
	"a", "b", "c", "ab", "é", "ß", "k", "s", "Σ", "-", "_", " ", "0", "1", "\n", ".", ".", "^", "$", `\A`, `\z`, `\b`, `\B`,
	`\d`, `\D`, `\w`, `\W`, `\s`, `\S`, `\.`, `\_`, `\-`, `\/`, `\"`, `\n`, `\t`, `\v`, `\f`, `\r`, `\a`, `\0`, `\07`, `\12`, `\101`,
	`\x41`, `\x{e9}`, `\x{1F600}`, `\x{D800}`, `\pL`, `\p{L}`, `\PL`, `\p{^L}`, `\P{^L}`, `\p{Lu}`, `\p{Ll}`, `\p{Nd}`, `\p{N}`, `\p{Greek}`,
	`\p{Latin}`, `\P{Latin}`, `\p{Han}`, `\p{Zs}`, `\pP`, `\Qa.b\E`, `\Q*\E`, `\Q`, "{", "}", "{,2}", "{x", "]", "a{", "{1", "{01}",
	"[a-c]", "[^a-c]", "[abc-]", "[-a]", "[]a]", "[^]a]", "[[a]", "[a&&b]", "[~a]", "[a\\-z]", `[\d-x]`, `[\w.-]`, `[^\d]`, `[\s\S]`,
	`[[:alpha:]]`, `[[:^alpha:]]`, `[^[:digit:]_]`, `[[:word:]-]`, `[[:space:]]`, `[[:punct:]]`, `[[:x]`, `[\pL\d]`, `[^\p{Lu}]`, `[\x00-\x{10FFFF}]`,
	`[^\x00-\x{10FFFF}]`, `[é-ü]`, `[a-zé]`, `[\101-\103]`, `[\]]`, `[\^a]`, `[a\]b]`, `[k]`, `[s-t]`, `[+--]`, `[.]`, `[$^]`, `[A-Za-z_]`,
}

var repeats = []string{"*", "+", "?", "*?", "+?", "??", "{2}", "{0}", "{1}", "{0,1}", "{1,3}", "{2,}", "{0,}", "{1,}?", "{0,2}?", "{3}?"}

var groups = []string{"(", "(", "(", "(?:", "(?:", "(?i:", "(?P<n>", "(?P<n_1>", "(?s:", "(?m:", "(?U:", "(?i-s:", "(?-i:", "(?smU-i:"}

var broken = []string{
	"(", ")", "[", "[a", "*", "**", "+*", "{2}{3}", "{1001}", "{2,1}", "{1000}{2}", "{99999999999}", `\1`, `\8`, `\C`, `\E`, `\k`, `\y`, `\é`, `\`,
	"[z-a]", `[a-\d]`, `[\b]`, `[\Q]`, `[\8]`, "[[:nope:]]", "[[:^x:]]", `\p{Nope}`, `\pX`, `\p`, `\p{`, `\p{L`, `\x`, `\xg`, `\x1`, `\x{`, `\x{}`,
	`\x{110000}`, `\x{12`, `\x{zz}`, "(?P<n", "(?P<>a)", "(?P<a b>x)", "(?P=n)", "(?!a)", "(?=a)", "(?<!a)", "(?#a)", "(?x)", "(?i", "(?-)", "(?i--s)", "(?",
	"(?:a{500}){3}", "(a{40}){26}", "|*", "(*)", "(|+)", "(?i)*", "(a{10}){101}",
}

var extra = []string{
	"", "|", "||", "a|", "|a", "(|a)*", "(|a)+", "(a*)*", "(a*)+", "(a|b*)*", "(a*|b)*", "((a)|b)*", "(a)|b", "(?:(a)|(b)|(c))+", "(a+)(b+)?", "(a){0}b", "(a){0}(b)",
	"(?i)straße", "(?i)ſ", "(?i)[k]", "(?i)[^k]", "(?i)\\x{212A}", "(?i)ς", "(?i:a)b", "a(?i)b|c", "(a(?i)b)c", "(?i)(?-i)a", "a(?i)*", "a*(?i)*", `\Qab\E*`, `a\Q\E*`,
	`^\p{L}{2,4}$`, "x{0}", "(x{0})*", "^*", "$+", `\b*a`, "(?m)^a$", "(?m)^$", "(?s).", "(?-s).", "(?U)a+", "(?U)a+?", "a{,2}", "a{2", "a{-1}", "a{1,2", "a{ 1}",
	`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`, `^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$`,
	`^([0-9]{1,3}\.){3}[0-9]{1,3}$`, `^$|^[a-zA-Z]+$`, `(?P<n>a)(?P<n>b)`, `[[:^^alpha:]]`[:0], `[a-]`, `[--a]`, `[\--a]`, `[a-a]`, `a{1000}`, `(a{10}){100}`, `(?:a?){10}a{10}`,
}

var words = []string{"a", "b", "c", "ab", "aab", "abc", "é", "É", "ß", "ẞ", "k", "K", "\u212A", "s", "ſ", "S", "σ", "ς", "Σ", "-", "_", " ", "0", "1", "12", "\n", "\t", "\v", "\x07", "\x00",
	".", "*", "a.b", "{", "}", "{,2}", "]", "[", "^", "$", "&", "~", "A", "B", "Z", "x", "n", "世", "😀", "٣", "\u00a0", "ö", "+", "/", "\""}

func pick(list []string) string { return list[random.Intn(len(list))] }

func pattern(depth int) string {
	var out strings.Builder
	for parts := 1 + random.Intn(4); parts > 0; parts-- {
		if depth > 0 && random.Intn(4) == 0 {
			out.WriteString(pick(groups) + pattern(depth-1) + ")")
		} else {
			out.WriteString(pick(atoms))
		}
		if random.Intn(3) == 0 {
			out.WriteString(pick(repeats))
		}
		if random.Intn(8) == 0 {
			out.WriteString("|")
		}
	}
	if random.Intn(15) == 0 {
		return "(?i)" + out.String()
	}
	return out.String()
}

func input(re string) string {
	var out strings.Builder
	letters := []rune(re)
	for parts := random.Intn(6); parts > 0; parts-- {
		// Letters of the pattern itself make matches likely.
		if len(letters) > 0 && random.Intn(3) == 0 {
			out.WriteRune(letters[random.Intn(len(letters))])
		} else {
			out.WriteString(pick(words))
		}
	}
	return out.String()
}

func main() {
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	seen := map[string]bool{}
	accepted, refused := 0, 0
	record := func(re string) {
		if seen[re] || strings.Contains(re, "(?<") && !strings.Contains(re, "(?<!") {
			return
		}
		seen[re] = true
		compiled, err := regexp.Compile(re)
		var line []any
		if err != nil {
			// Go 1.20 gave some limits another name.
			if refused >= refusedCount || strings.Contains(err.Error(), "internal error") || strings.Contains(re, "(?<") {
				return
			}
			refused++
			line = []any{re, err.Error()}
		} else {
			if accepted >= acceptedCount {
				return
			}
			accepted++
			inputs := []any{}
			for count := 0; count < inputsEach; count++ {
				text := input(re)
				places := compiled.FindStringSubmatchIndex(text)
				// Most texts do not match: all but the last are searched for.
				for try := 0; try < 30 && count < inputsEach-1 && (places == nil || places[0] == places[1]); try++ {
					text = input(re)
					places = compiled.FindStringSubmatchIndex(text)
				}
				if places == nil {
					places = []int{}
				}
				inputs = append(inputs, []any{text, places})
			}
			line = []any{re, compiled.NumSubexp(), inputs}
		}
		encoder := json.NewEncoder(out)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(line); err != nil {
			panic(err)
		}
	}
	for _, list := range [][]string{extra, atoms, broken} {
		for _, re := range list {
			record(re)
		}
	}
	for accepted < acceptedCount || refused < refusedCount {
		re := pattern(3)
		if random.Intn(5) == 0 {
			at := random.Intn(len(re) + 1)
			re = strings.ToValidUTF8(re[:at], "") + pick(broken) + strings.ToValidUTF8(re[at:], "")
		}
		record(re)
	}
	fmt.Fprintln(os.Stderr, accepted, "accepted,", refused, "refused")
}
