-- forgetOpened: removes the times of opened epochs (LN5).
-- KEYS  opened
-- ARGV  none
-- Returns 1
call("DEL", openedKey)
return 1
