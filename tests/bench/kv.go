package main

import (
	"context"
	"fmt"
	"time"
)

// The APIs of kv.php.
const (
	pipelined         = "coatcheck, pipeline"
	phpredis          = "phpredis"
	phpredisPipelined = "phpredis, pipeline"
	memcachedClass    = "memcached"
	apcu              = "APCu"
)

// operation is one of kv.php's, with the APIs that offer it.
type operation struct {
	name, what string
	apis       []string
	aim        func(*table) aim
}

var operations = []operation{
	{
		name: "get", what: "one value of 200 bytes", apis: []string{coatcheck, phpredis, memcachedClass, apcu},
		aim: func(t *table) aim {
			r := t.row(coatcheck).Ratio
			return aim{"a get in at most 0.85 of phpredis' time (ratio)", r, r <= 0.85}
		},
	},
	{
		name: "get16", what: "16 values of 200 bytes, one by one and in one pipeline",
		apis: []string{coatcheck, pipelined, phpredis, phpredisPipelined},
		aim: func(t *table) aim {
			r := t.row(pipelined).Ratio
			return aim{"a pipeline of 16 gets in at most 0.15 of the time of 16 gets of phpredis (ratio)", r, r <= 0.15}
		},
	},
	{name: "set", what: "one value of 200 bytes", apis: []string{coatcheck, phpredis, memcachedClass, apcu}},
	{name: "incr", what: "a counter", apis: []string{coatcheck, phpredis, memcachedClass, apcu}},
	{
		name: "lock", what: "set if absent with an expiry, and delete if it still holds my token; memcached and APCu have no such deletion",
		apis: []string{coatcheck, phpredis},
	},
}

// contenders returns those who can do the operation here.
func (o operation) contenders(m *machine) []contender {
	var able []contender
	for _, api := range o.apis {
		if api == apcu && !m.apcu {
			continue
		}
		able = append(able, contender{Name: api, Settings: []string{
			"apc.enable_cli=1", fmt.Sprintf("coatcheck.socket=%s/coatcheck.sock", m.dir),
		}})
	}
	return able
}

// kv measures single operations on values in one PHP process.
func kv(ctx context.Context, m *machine) ([]*table, error) {
	var tables []*table
	for _, o := range operations {
		title := "kv " + o.name
		all, err := interleave(ctx, m, title, o.contenders(m), func(ctx context.Context, c contender, each time.Duration) (sample, error) {
			return repeat(ctx, m, c, "kv.php", seconds(each), o.name, c.Name, m.dir)
		})
		if err != nil {
			return nil, err
		}
		tables = append(tables, newTable(all, table{
			Title: title, What: o.what,
			Command:  fmt.Sprintf("php tests/bench/kv.php %s %s API DIR", seconds(m.each), o.name),
			Figure:   "median, us",
			Baseline: phpredis,
			Lost:     "unexpected answers",
			aim:      o.aim,
		}))
	}
	return tables, nil
}
