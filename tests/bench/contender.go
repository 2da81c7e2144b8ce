package main

import "fmt"

// The contenders' names.
const (
	coatcheck     = "coatcheck"
	redisLocked   = "phpredis, lock"
	redisUnlocked = "phpredis, no lock"
	memcached     = "memcached, lock"
	files         = "files"
	noSession     = "no session"
	redis         = "redis" // asked by other clients than PHP
)

// contender is a way to keep sessions.
type contender struct {
	Name     string   `json:"name"`
	Settings []string `json:"settings"` // of PHP: name=value
	pool     string   // of php-fpm
	locks    bool
	plain    bool // keeps none: the floor
}

// contenders returns those that keep sessions, with their servers in dir.
//
// The peers keep their connections, as coatcheck does. They wait for a lock for as long as it takes and ask
// for it every 2 ms: with their defaults they give up early, and phpredis then goes on without the lock.
func contenders(dir string) []contender {
	phpredis := []string{
		"session.save_handler=redis",
		fmt.Sprintf(`session.save_path="unix://%s/redis.sock?persistent=1"`, dir),
	}
	return []contender{
		{Name: coatcheck, pool: "coatcheck", locks: true, Settings: []string{
			"session.save_handler=coatcheck",
			fmt.Sprintf(`session.save_path="unix://%s/coatcheck.sock"`, dir),
		}},
		{Name: redisLocked, pool: "redis-lock", locks: true, Settings: append([]string{
			"redis.session.locking_enabled=1",
			"redis.session.lock_retries=-1",
			"redis.session.lock_wait_time=2000",
			"redis.session.lock_expire=60",
		}, phpredis...)},
		{Name: redisUnlocked, pool: "redis", Settings: append([]string{
			"redis.session.locking_enabled=0",
		}, phpredis...)},
		{Name: memcached, pool: "memcached", locks: true, Settings: []string{
			"session.save_handler=memcached",
			fmt.Sprintf("session.save_path=%s/memcached.sock:0", dir),
			"memcached.sess_persistent=1",
			"memcached.sess_locking=1",
			"memcached.sess_lock_wait_min=2",
			"memcached.sess_lock_wait_max=2",
			"memcached.sess_lock_retries=30000",
			"memcached.sess_lock_expire=60",
		}},
		{Name: files, pool: "files", locks: true, Settings: []string{
			"session.save_handler=files",
			fmt.Sprintf("session.save_path=%s/files", dir),
		}},
	}
}

// locking returns those that lock.
func locking(among []contender) []contender {
	var locking []contender
	for _, c := range among {
		if c.locks {
			locking = append(locking, c)
		}
	}
	return locking
}
