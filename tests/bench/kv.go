package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// The APIs of kv.php.
const (
	phpredis         = "phpredis"
	memcachedClass   = "memcached"
	apcu             = "APCu"
	compareAndDelete = "lock" // the operation that not all of them offer
)

// kvAPIs returns what values can be kept with.
func kvAPIs(m *machine) []contender {
	apis := []contender{
		{Name: coatcheck, Settings: []string{fmt.Sprintf("coatcheck.socket=%s/coatcheck.sock", m.dir)}},
		{Name: phpredis},
		{Name: memcachedClass},
	}
	if m.apcu {
		apis = append(apis, contender{Name: apcu, Settings: []string{"apc.enable_cli=1"}})
	}
	return apis
}

// kv measures single operations on values in one PHP process.
func kv(ctx context.Context, m *machine) ([]*table, error) {
	var tables []*table
	for _, operation := range []struct{ name, what string }{
		{"get", "one value of 200 bytes"},
		{"set", "one value of 200 bytes"},
		{"incr", "a counter"},
		{compareAndDelete, "set if absent with an expiry, and delete if it still holds my token; memcached and APCu have no such deletion"},
	} {
		apis := kvAPIs(m)
		if operation.name == compareAndDelete {
			apis = slices.DeleteFunc(apis, func(c contender) bool { return c.Name == memcachedClass || c.Name == apcu })
		}
		title := "kv " + operation.name
		all, err := interleave(ctx, m, title, apis, func(ctx context.Context, c contender, each time.Duration) (sample, error) {
			return repeat(ctx, m, c, "kv.php", seconds(each), operation.name, c.Name, m.dir)
		})
		if err != nil {
			return nil, err
		}
		tables = append(tables, newTable(all, table{
			Title: title, What: operation.what,
			Command:  fmt.Sprintf("php tests/bench/kv.php %s %s API DIR", seconds(m.each), operation.name),
			Figure:   "median, us",
			Baseline: phpredis,
			Lost:     "unexpected answers",
		}))
	}
	return tables, nil
}
