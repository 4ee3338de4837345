package reconcile

import "github.com/redis/go-redis/v9"

// What change does.
const (
	opDelete = "del"
	opExpire = "expire"
	opSet    = "set"
)

// What the scripts answer.
const (
	resultDone = 1
	resultGone = -1
	// any other: the key is not as it was seen
)

// changeScript repairs a marker that still is what was seen: the same string, and no later end. A lease that was taken anew
// may have the same words, but it ends later.
//
// KEYS[1] the marker's key; ARGV[1] the value seen; ARGV[2] the PTTL seen, -1 none; ARGV[3] del, expire or set; ARGV[4] the
// new TTL in ms, of expire and set; ARGV[5] the new value, of set.
// Result: 1 done, 0 it has changed, -1 it is gone.
func changeScript() *redis.Script {
	return redis.NewScript(`
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return -1 end
if kind ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local ttl, seen = redis.call('PTTL', KEYS[1]), tonumber(ARGV[2])
if (ttl == -1) ~= (seen == -1) or ttl > seen then return 0 end
if ARGV[3] == 'del' then
  redis.call('DEL', KEYS[1])
elseif ARGV[3] == 'expire' then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
elseif ARGV[3] == 'set' then
  redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[4])
end
return 1`)
}

// restoreScript puts a value back where a repair has left something, and nobody has changed it since.
//
// KEYS[1] the marker's key; ARGV[1] what the repair left, or nothing if ARGV[2] is 1: it had deleted the key; ARGV[3] and
// ARGV[4] the least and the greatest PTTL that it would have now; ARGV[5] the value from before; ARGV[6] its TTL in ms,
// -1 none.
// Result: 1 done, 0 it has changed, -1 what the repair left is gone.
func restoreScript() *redis.Script {
	return redis.NewScript(`
local kind = redis.call('TYPE', KEYS[1]).ok
if ARGV[2] == '1' then
  if kind ~= 'none' then return 0 end
else
  if kind == 'none' then return -1 end
  if kind ~= 'string' or redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  local ttl = redis.call('PTTL', KEYS[1])
  if ttl < tonumber(ARGV[3]) or ttl > tonumber(ARGV[4]) then return 0 end
end
if ARGV[6] == '-1' then
  redis.call('SET', KEYS[1], ARGV[5])
else
  redis.call('SET', KEYS[1], ARGV[5], 'PX', ARGV[6])
end
return 1`)
}
