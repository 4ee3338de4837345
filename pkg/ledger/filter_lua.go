package ledger

import "github.com/redis/go-redis/v9"

// filterScripts are the filter's compare-and-set steps, each on one key, so they run on a cluster as well.
type filterScripts struct{ release, takeOver, complete *redis.Script }

func newFilterScripts() filterScripts {
	return filterScripts{
		// release deletes a lease, if it is still the caller's.
		// KEYS[1] the marker's key; ARGV[1] the value that the claim wrote.
		// Result: 1 deleted, 0 someone else's or gone.
		release: redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0`),

		// takeOver replaces a marker that has no TTL, if it still has the value that was observed for a whole lease.
		// KEYS[1] the marker's key; ARGV[1] the value observed; ARGV[2] the new lease; ARGV[3] its TTL in ms.
		// Result: 1 taken, 0 it has changed, has a TTL now, or is gone.
		takeOver: redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`),

		// complete writes COMPLETED over nothing or over a marker; a value that is no marker is someone else's.
		// KEYS[1] the marker's key; ARGV[1] the COMPLETED marker; ARGV[2] its TTL in ms.
		// Result: 1 written, 0 left alone.
		complete: redis.NewScript(`
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' then
  if kind ~= 'string' then return 0 end
  local word = string.match(redis.call('GET', KEYS[1]), '^[^:]*')
  if word ~= 'PROCESSING' and word ~= 'COMPLETED' then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`),
	}
}
