-- readStop: the stop and the last resume (informer §11.9). The epoch is not compared.
-- KEYS  stop
-- ARGV  none
-- Returns { stop or nil, resumed or nil }
return call("HMGET", stopKey, "stop", "resumed")
