package main

import (
	"context"
	"encoding/csv"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	respClients = 50     // connections of redis-benchmark, its default
	respKeys    = 10_000 // that it draws from
)

// resp measures the Redis-protocol endpoint by Redis' own benchmark, beside Redis, by operation and depth of the pipeline.
func resp(ctx context.Context, m *machine) ([]*table, error) {
	servers := []contender{{Name: coatcheck}, {Name: redis}}
	sockets := map[string]string{coatcheck: "resp.sock", redis: "redis.sock"}
	var tables []*table
	for _, pipeline := range []struct {
		depth     int
		perSecond int     // about what can be asked in a second here: redis-benchmark counts requests, not time
		least     float64 // of Redis' speed: the aim
	}{{1, 30_000, 0.8}, {16, 200_000, 1}} {
		for _, operation := range []string{"get", "set", "incr"} {
			title := fmt.Sprintf("resp %s, %d at a time", operation, pipeline.depth)
			all, err := interleave(ctx, m, title, servers, func(ctx context.Context, c contender, each time.Duration) (sample, error) {
				requests := int(each.Seconds() * float64(pipeline.perSecond))
				return redisBenchmark(ctx, filepath.Join(m.dir, sockets[c.Name]), operation, requests, pipeline.depth)
			})
			if err != nil {
				return nil, err
			}
			tables = append(tables, newTable(all, table{
				Title: title,
				What:  fmt.Sprintf("values of 200 bytes, %d connections over a Unix socket", respClients),
				Command: fmt.Sprintf("redis-benchmark -s SOCKET -t %s -n %d -c %d -P %d -d 200 -r %d",
					operation, int(m.each.Seconds()*float64(pipeline.perSecond)), respClients, pipeline.depth, respKeys),
				Figure:   "requests/s",
				Baseline: redis,
				Lost:     "lost",
				aim: func(t *table) aim {
					r := t.row(coatcheck).Ratio
					return aim{fmt.Sprintf("%s: at least %g of Redis' speed (ratio)", title, pipeline.least), r, r >= pipeline.least}
				},
			}))
		}
	}
	return tables, nil
}

// redisBenchmark returns the requests a second that redis-benchmark prints.
func redisBenchmark(ctx context.Context, socket, operation string, requests, depth int) (sample, error) {
	out, err := exec.CommandContext(ctx, "redis-benchmark", "-s", socket, "-t", operation, "-n", strconv.Itoa(requests),
		"-c", strconv.Itoa(respClients), "-P", strconv.Itoa(depth), "-d", "200", "-r", strconv.Itoa(respKeys), "--csv").Output()
	if err != nil {
		return sample{}, fmt.Errorf("redis-benchmark on %s: %w", socket, err)
	}
	// It may warn first that the server does not tell its configuration.
	_, answer, _ := strings.Cut(string(out), `"test",`)
	records, err := csv.NewReader(strings.NewReader(`"test",` + answer)).ReadAll()
	if err != nil || len(records) != 2 || len(records[1]) < 2 {
		return sample{}, fmt.Errorf("redis-benchmark on %s printed %q", socket, out)
	}
	perSecond, err := strconv.ParseFloat(records[1][1], 64)
	return sample{figure: perSecond, done: requests}, err
}
