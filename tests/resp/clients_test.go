package resp

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// run runs a program and returns what it printed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%.2000s", name, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// needsPHP skips the test when PHP cannot load what a script needs.
func needsPHP(t *testing.T, code, what string) {
	t.Helper()
	needs(t, "php")
	if err := exec.Command("php", "-r", code).Run(); err != nil {
		missing(t, "PHP without "+what)
	}
}

const hasPHPRedis = "exit(extension_loaded('redis') ? 0 : 1);"

func TestPHPRedis(t *testing.T) {
	needsPHP(t, hasPHPRedis, "its redis extension")
	if got := run(t, "php", "php/phpredis.php", startEndpoint(t).resp); got != "ok" {
		t.Error(got)
	}
}

func TestLaravelsCacheAndLock(t *testing.T) {
	needsPHP(t, hasPHPRedis, "its redis extension")
	needsPHP(t, "@include 'Illuminate/Container/autoload.php'; @include 'Illuminate/Cache/autoload.php'; @include 'Illuminate/Redis/autoload.php'; "+
		"exit(class_exists('Illuminate\\Redis\\RedisManager') && class_exists('Illuminate\\Cache\\RedisStore') ? 0 : 1);",
		"Debian's php-illuminate-cache, php-illuminate-container and php-illuminate-redis")
	e := startEndpoint(t)
	if got := run(t, "php", "-d", "error_reporting=E_ALL & ~E_DEPRECATED", "php/laravel.php", e.resp); got != "ok" {
		t.Error(got)
	}
}

// TestPHPRedisSessionsLoseNoIncrement: 20 processes count in one session, under phpredis' own lock.
func TestPHPRedisSessionsLoseNoIncrement(t *testing.T) {
	needsPHP(t, hasPHPRedis, "its redis extension")
	e := startEndpoint(t)
	const processes, times = 20, 10
	errs := make(chan error, processes)
	for range processes {
		go func() {
			out, err := exec.CommandContext(t.Context(), "php", "php/increments.php", "unix://"+e.resp, "thesession", fmt.Sprint(times)).CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			errs <- err
		}()
	}
	for range processes {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := run(t, "php", "php/increments.php", "unix://"+e.resp, "thesession", "1"); got != fmt.Sprint(processes*times+1) {
		t.Errorf("the session counted to %s, want %d", got, processes*times+1)
	}
	dial(t, e.resp).expect("dbsize → :1") // the session, and no lock
}

func TestRedisCLI(t *testing.T) {
	needs(t, "redis-cli")
	e := startEndpoint(t)
	for _, version := range []string{"-2", "-3"} {
		cli := func(args ...string) string {
			return run(t, "redis-cli", slices.Concat([]string{"-s", e.resp, version}, args)...)
		}
		for _, c := range []struct{ command, want string }{
			{"flushall", "OK"},
			{"set k v", "OK"},
			{"get k", "v"},
			{"get missing", ""},
			{"incr n", "1"},
			{"hset h f v g w", "2"},
			{"hmget h f x g", "v\n\nw"},
			{"foo", "ERR unknown command 'foo', with args beginning with:"},
			{"ttl k", "-1"},
			{"--scan --pattern k*", "k"},
			{"-n 3 set k three", "OK"},
			{"-n 3 get k", "three"},
			{"get k", "v"},
			{"config get save", "save"},
		} {
			if got := cli(strings.Fields(c.command)...); got != c.want {
				t.Errorf("%s %s: %q, want %q", version, c.command, got, c.want)
			}
		}
		if got := cli("info"); !strings.Contains(got, "redis_version:7.") || !strings.Contains(got, "db3:keys=1,expires=0") {
			t.Errorf("info: %s", got)
		}
	}
}

func TestRedisBenchmark(t *testing.T) {
	needs(t, "redis-benchmark")
	e := startEndpoint(t)
	for _, pipeline := range []string{"1", "16"} {
		out := run(t, "redis-benchmark", "-s", e.resp, "-c", "50", "-n", "2000", "-P", pipeline, "-r", "100", "-q",
			"-t", "ping_inline,ping_mbulk,set,get,incr,hset,mset")
		if strings.Contains(strings.ToLower(out), "err") || strings.Count(out, "requests per second") != 7 {
			t.Errorf("pipeline %s: %s", pipeline, out)
		}
	}
}

func TestGoRedis(t *testing.T) {
	e := startEndpoint(t, withUsers(t, "shop"))
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{
			Network: "unix", Addr: e.resp, Protocol: protocol, Username: "shop", Password: "secret", ClientName: "test", DB: 5,
		})
		t.Cleanup(func() { c.Close() })
		checkGoRedis(t, c)
	}
	wrong := redis.NewClient(&redis.Options{Network: "unix", Addr: e.resp, Username: "shop", Password: "wrong"})
	defer wrong.Close()
	if err := wrong.Ping(t.Context()).Err(); err == nil || !strings.HasPrefix(err.Error(), "WRONGPASS") {
		t.Errorf("with a wrong password: %v", err)
	}
}

func checkGoRedis(t *testing.T, c *redis.Client) {
	t.Helper()
	ctx := t.Context()
	check := func(what string, want, got any, err error) {
		t.Helper()
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	check("FlushDB", "OK", c.FlushDB(ctx).Val(), nil)
	ok, err := c.SetNX(ctx, "k", "v", 100*time.Second).Result()
	check("SetNX", true, ok, err)
	value, err := c.SetArgs(ctx, "k", "w", redis.SetArgs{Mode: "XX", Get: true, KeepTTL: true}).Result()
	check("SetArgs", "v", value, err)
	ttl, err := c.TTL(ctx, "k").Result()
	check("TTL", 100*time.Second, ttl, err)
	if _, err := c.Get(ctx, "missing").Result(); !errors.Is(err, redis.Nil) {
		t.Errorf("Get of nothing: %v", err)
	}
	n, err := c.HSet(ctx, "h", "f", "v", "g", "w").Result()
	check("HSet", 2, n, err)
	fields, err := c.HGetAll(ctx, "h").Result()
	check("HGetAll", map[string]string{"f": "v", "g": "w"}, fields, err)
	f, err := c.IncrByFloat(ctx, "f", 0.5).Result()
	check("IncrByFloat", 0.5, f, err)
	values, err := c.MGet(ctx, "k", "missing", "f").Result()
	check("MGet", []any{"w", nil, "0.5"}, values, err)
	release := redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)
	for _, s := range []struct {
		token string
		want  int
	}{{"other", 0}, {"w", 1}, {"w", 0}} { // EVALSHA, and EVAL when that is not known
		n, err := release.Run(ctx, c, []string{"k"}, s.token).Int()
		check("release with "+s.token, s.want, n, err)
	}
	results, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "a", 1, 0)
		p.Incr(ctx, "a")
		p.Get(ctx, "a")
		return nil
	})
	check("TxPipelined", 3, len(results), err)
	check("TxPipelined", "get a: 2", results[2], nil)
	var keys []string
	for i := c.Scan(ctx, 0, "*", 100).Iterator(); i.Next(ctx); {
		keys = append(keys, i.Val())
	}
	slices.Sort(keys)
	check("Scan", []string{"a", "f", "h"}, keys, nil)
	commands, err := c.Command(ctx).Result()
	check("Command", 1, int(commands["get"].FirstKeyPos), err)
}
