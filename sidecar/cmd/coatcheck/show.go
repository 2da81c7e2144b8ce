package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/coatcheck/coatcheck/sidecar/wire"
)

// printJSON writes one value on one line.
func printJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// print writes an answer: as the only entry of a JSON object, or in words on a line.
func (a *asker) print(cmd *cobra.Command, entry wire.Pair, words any) error {
	if a.json {
		return printJSON(cmd.OutOrStdout(), wire.Pairs{entry})
	}
	_, err := fmt.Fprintln(cmd.OutOrStdout(), words)
	return err
}

// bytesEntry is an entry of a JSON object for a binary string, which JSON knows only as UTF-8 or encoded.
func bytesEntry(key string, b []byte) wire.Pair {
	if utf8.Valid(b) {
		return pair(key, string(b))
	}
	return pair(key+"_base64", base64.StdEncoding.EncodeToString(b))
}

// shown returns a name as a terminal may be given it: quoted when it could be taken for something else.
func shown(s string) string {
	if s != "" && strings.IndexFunc(s, isUnfit) < 0 && utf8.ValidString(s) {
		return s
	}
	return strconv.Quote(s)
}

func isUnfit(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) || r == '"' }

// duration shows a number of milliseconds, short ones exactly.
func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= 10*time.Second {
		d = d.Round(time.Second)
	}
	return d.String()
}

// row is one map of a list that the daemon answered.
type row map[string]any

func (r row) text(key string) string { s, _ := r[key].(string); return s }
func (r row) flag(key string) bool   { b, _ := r[key].(bool); return b }
func (r row) number(key string) int64 {
	return number(r[key])
}

func (r row) rows(key string) []row { return rows(r[key]) }

// rows returns the maps of a list.
func rows(v any) []row {
	list, _ := v.([]any)
	found := make([]row, 0, len(list))
	for _, e := range list {
		if m, ok := e.(map[string]any); ok {
			found = append(found, m)
		}
	}
	return found
}

// number returns an integer of an answer, whose type depends on its size.
func number(v any) int64 {
	if u, ok := v.(uint64); ok {
		return int64(u)
	}
	n, _ := v.(int64)
	return n
}
