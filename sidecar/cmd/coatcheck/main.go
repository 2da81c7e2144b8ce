// Command coatcheck keeps PHP's sessions, locks and cache: the daemon, and the commands of its operator.
package main

import (
	"os"
)

// version is set by the build.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
