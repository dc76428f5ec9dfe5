-- forgetOpened: forgets when epochs were opened (LN5).
-- KEYS  opened
-- ARGV  none
-- Returns 1
call("DEL", openedKey)
return 1
