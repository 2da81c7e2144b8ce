package resp

import "testing"

// The scripts as their libraries send them.
var scriptsInUse = map[string]string{
	"phpredis' session handler": `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
	"Laravel's release": `if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end`,
	"Laravel's refresh": `if redis.call("get",KEYS[1]) == ARGV[1] then
    if tonumber(ARGV[2]) > 0 then
        return redis.call("expire",KEYS[1],ARGV[2])
    end

    redis.call("persist",KEYS[1])

    return 1
else
    return 0
end`,
	"Laravel's add":    `return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])`,
	"Redlock's extend": "\n  if redis.call('GET', KEYS[1]) == ARGV[1] then\n    return redis.call('PEXPIRE', KEYS[1], ARGV[2]);\n  end;\n  return 0;\n",
	"with comments": `-- only the owner
if redis.call("get", KEYS[1]) == ARGV[1] then -- it is
	return redis.call("del", KEYS[1])
else return 0 end -- done`,
	"turned round": `if ARGV[1] == redis.call("get",KEYS[1]) then return redis.call("unlink",KEYS[1]) end return 0`,
}

func TestScriptsInUseAreKnown(t *testing.T) {
	for name, text := range scriptsInUse {
		if normal, ok := normalLua([]byte(text)); !ok || knownScripts[normal] == nil {
			t.Errorf("%s: not known as %q", name, normal)
		}
	}
}

// TestScriptsThatOnlyLookLikeThem: what differs in more than its spacing is not taken for a known script.
func TestScriptsThatOnlyLookLikeThem(t *testing.T) {
	for _, text := range []string{
		"",
		`return 1`,
		`if redis.call("get",KEYS[1]) == ARGV[2] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[2]) else return 0 end`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 1 end`,
		`if redis.call("get",KEYS[1]) ~= ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get",KEYS[1]) = = ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get",keys[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get","KEYS[1]") == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get",KEYS[1]) == "ARGV[1]" then return redis.call("del",KEYS[1]) else return 0 end`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end return 1`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end --[[`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("d\101l",KEYS[1]) else return 0 end`,
		`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.pcall("del",KEYS[1]) else return 0 end`,
		`return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[1],ARGV[2])`,
		`return redis.call('exists',KEYS[1])<2 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])`,
		`r e turn redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])`,
	} {
		if normal, ok := normalLua([]byte(text)); ok && knownScripts[normal] != nil {
			t.Errorf("taken for a known script: %s", text)
		}
	}
}

func FuzzNormalLua(f *testing.F) {
	for _, text := range scriptsInUse {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		normal, ok := normalLua(text)
		if !ok || len(normal) > maxScript { // the blanks between its tokens may make it longer than what is looked at
			return
		}
		if again, ok := normalLua([]byte(normal)); !ok || again != normal {
			t.Errorf("the normal form of %q is %q, and of that %q (%v)", text, normal, again, ok)
		}
	})
}
