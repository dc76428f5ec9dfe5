-- readStop: all stops and resumes (informer §11.9). The epoch is not compared.
-- KEYS  stop
-- ARGV  none
-- Returns field, text, …
return call("HGETALL", stopKey)
