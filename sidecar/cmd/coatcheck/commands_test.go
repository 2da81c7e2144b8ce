package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// each visits every command that does something.
func each(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Runnable() {
		visit(cmd)
	}
	for _, sub := range cmd.Commands() {
		each(sub, visit)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	each(newRoot(), func(cmd *cobra.Command) {
		if cmd.Short == "" || !strings.Contains(cmd.Example, "coatcheck ") {
			t.Errorf("%s has no short line or no example in its help", cmd.CommandPath())
		}
		if strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: the short line ends with a full stop, the others do not", cmd.CommandPath())
		}
	})
}

func TestEveryCommandThatAsksTheDaemonCanBeToldWhere(t *testing.T) {
	local := map[string]bool{
		"coatcheck check-config": true, "coatcheck lock": true,
		"coatcheck journal": true, "coatcheck journal check": true, "coatcheck journal repair": true, "coatcheck redis-user": true,
		"coatcheck cluster": true, "coatcheck cluster secret": true, "coatcheck tls": true, "coatcheck tls ca": true, "coatcheck tls node": true,
	}
	each(newRoot(), func(cmd *cobra.Command) {
		if has := cmd.Flag("socket") != nil; has == local[cmd.CommandPath()] {
			t.Errorf("%s: has it --socket? %t", cmd.CommandPath(), has)
		}
	})
}

func TestWhatAScriptMayReadIsThereAsJSON(t *testing.T) {
	silent := map[string]bool{
		"coatcheck serve": true, "coatcheck check-config": true, "coatcheck lock": true, "coatcheck lock run": true,
		"coatcheck journal": true, "coatcheck redis-user": true,
		"coatcheck cluster": true, "coatcheck cluster secret": true, "coatcheck tls": true, "coatcheck tls ca": true, "coatcheck tls node": true,
	}
	each(newRoot(), func(cmd *cobra.Command) {
		if has := cmd.Flag("json") != nil; has == silent[cmd.CommandPath()] {
			t.Errorf("%s: has it --json? %t", cmd.CommandPath(), has)
		}
	})
}

// tableRow is a row of the table in docs/commands.md.
var tableRow = regexp.MustCompile(`(?m)^\| (\d+) \| (.*) \|$`)

func TestTheManualListsTheExitCodes(t *testing.T) {
	page, err := os.ReadFile("../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	var written, known []string
	for _, row := range tableRow.FindAllStringSubmatch(string(page), -1) {
		written = append(written, row[1]+" "+row[2])
	}
	for _, e := range exitCodes {
		known = append(known, fmt.Sprint(e.code, " ", e.meaning))
	}
	if got, want := strings.Join(written, "\n"), strings.Join(known, "\n"); got != want {
		t.Errorf("docs/commands.md lists\n%s\nwant\n%s", got, want)
	}
}

// ownCode is a code in the help of lock run, of which there are two on some lines.
var ownCode = regexp.MustCompile(`(?:^|\s)(\d{2,3})  `)

func TestTheHelpOfLockRunListsItsExitCodes(t *testing.T) {
	known := map[string]bool{}
	for _, e := range exitCodes {
		known[strconv.Itoa(e.code)] = true
	}
	_, list, _ := strings.Cut(newLockRun().Long, "Codes of our own:")
	var listed int
	for _, code := range ownCode.FindAllStringSubmatch(list, -1) {
		if listed++; !known[code[1]] {
			t.Errorf("the help lists %s, which is no exit code", code[1])
		}
	}
	if want := 9; listed != want { // 64, 69, 70, 74 to 77, 126 and 127
		t.Errorf("the help lists %d codes, want %d", listed, want)
	}
}
