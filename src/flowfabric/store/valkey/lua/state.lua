-- Rows, indexes and transactions of one cell. The declared tables, indexes and forms follow below.
-- A value is a string: a number in decimal digits, a uuid as 16 bytes, null as nil.

local call, floor, byte, char, sub -- known only while a function runs
local LOW, HIGH = 4294967296, 2147483648
local EXACT = 15 -- so many digits are exact in a Lua number
local FIRST_PAGE, LAST_PAGE = 16, 256

local T, I, F = {}, {}, {} -- tables, indexes and forms by code
local P, NOW -- the prefix of the keys of the cell, and the time of the call
local rows, stored, dirty, journal -- rows by id: as they are, and as the server has them
local numbers, warm -- the last numbers of outboxes, and rows whose large columns are loaded
local wakes, seed, drawn

