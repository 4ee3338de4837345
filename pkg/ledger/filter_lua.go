package ledger

import "github.com/redis/go-redis/v9"

// filterScripts are the filter's compare-and-set steps. Those over many keys are given one key at a time on a cluster.
type filterScripts struct{ claim, release, takeOver, complete *redis.Script }

// completeArgs is how many arguments complete takes for each key.
const completeArgs = 3

func newFilterScripts() filterScripts {
	return filterScripts{
		// claim writes a lease on each key that is not there.
		// KEYS the markers' keys; ARGV[1] the lease; ARGV[2] its TTL in ms.
		// Result: for each key 1 acquired, or the value found, or 0 for a key of another type.
		claim: redis.NewScript(`
local out = {}
for i, key in ipairs(KEYS) do
  if redis.call('SET', key, ARGV[1], 'NX', 'PX', ARGV[2]) then
    out[i] = 1
  else
    local value = redis.pcall('GET', key)
    if type(value) == 'table' then value = 0 end
    out[i] = value
  end
end
return out`),

		// release deletes leases that are still the caller's.
		// KEYS the markers' keys; ARGV[i] the value that the claim wrote to KEYS[i].
		// Result: how many were deleted; the others are someone else's or gone.
		release: redis.NewScript(`
local deleted = 0
for i, key in ipairs(KEYS) do
  if redis.call('TYPE', key).ok == 'string' and redis.call('GET', key) == ARGV[i] then
    deleted = deleted + redis.call('DEL', key)
  end
end
return deleted`),

		// takeOver replaces a marker that has no TTL, if it still has the value that was observed for a whole lease.
		// KEYS[1] the marker's key; ARGV[1] the value observed; ARGV[2] the new lease; ARGV[3] its TTL in ms.
		// Result: 1 taken, 0 it has changed, has a TTL now, or is gone.
		takeOver: redis.NewScript(`
if redis.call('TYPE', KEYS[1]).ok == 'string' and redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PTTL', KEYS[1]) == -1 then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
  return 1
end
return 0`),

		// complete writes COMPLETED over the caller's lease, over nothing, or over a marker; a value that is no marker is
		// someone else's.
		// KEYS the markers' keys; for KEYS[i] ARGV[3i-2] the COMPLETED marker, ARGV[3i-1] its TTL in ms, ARGV[3i] 1 if the caller
		// holds the lease, so that what is there need not be looked at.
		// Result: how many were written.
		complete: redis.NewScript(`
local written = 0
for i, key in ipairs(KEYS) do
  local value, ttl = ARGV[3 * i - 2], ARGV[3 * i - 1]
  if ARGV[3 * i] == '1' then
    redis.call('SET', key, value, 'PX', ttl)
    written = written + 1
  elseif redis.call('SET', key, value, 'NX', 'PX', ttl) then
    written = written + 1
  elseif redis.call('TYPE', key).ok == 'string' then
    local word = string.match(redis.call('GET', key), '^[^:]*')
    if word == 'PROCESSING' or word == 'COMPLETED' then
      redis.call('SET', key, value, 'PX', ttl)
      written = written + 1
    end
  end
end
return written`),
	}
}
