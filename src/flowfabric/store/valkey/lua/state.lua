-- Rows, indexes and transactions of one cell. The declared tables, indexes and forms follow below.
-- A value is a string: a number in decimal digits, a uuid as 16 bytes, null as nil.

local call, floor, byte, char, sub -- known only while a function runs
local LOW, HIGH = 4294967296, 2147483648
local EXACT = 15 -- so many digits are exact in a Lua number
local FEWEST, FIRST_PAGE, LAST_PAGE = 4, 16, 256

local T, I, F = {}, {}, {} -- tables, indexes and forms by code
local P, NOW -- the prefix of the keys of the cell, and the time of the call
local rows, warm -- rows by id as the server has them, and those whose large columns are loaded
local undo, late -- what a refusal takes back, and large columns of deleted rows that still lie there
local numbers, stored_numbers -- the last numbers of outboxes, now and on the server
local ints -- encoded numbers
local listed -- groups that are in the directory of their index
local told, rung -- wake-ups in their order, and by name
local seed, drawn
