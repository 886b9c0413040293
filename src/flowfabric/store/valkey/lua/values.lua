-- Values

local function halves(text)
  if #text <= EXACT then
    local n = tonumber(text)
    local high = floor(n / LOW)
    return high + HIGH, n - high * LOW
  end
  local high, low, negative = 0, 0, false
  for i = 1, #text do
    local digit = byte(text, i) - 48
    if digit < 0 then
      negative = true
    else
      low = low * 10 + digit
      high = high * 10 + floor(low / LOW)
      low = low % LOW
    end
  end
  if negative then
    low, high = LOW - low, LOW - 1 - high
    if low == LOW then low, high = 0, (high + 1) % LOW end
  end
  return (high + HIGH) % LOW, low
end

local NOTHING = '\255\255\255\255\255\255\255\255' -- behind all numbers

local function int(text)
  if text == nil then return NOTHING end
  local known = ints[text]
  if not known then
    known = struct.pack('>I4I4', halves(text))
    ints[text] = known
  end
  return known
end

local function int_desc(text)
  if text == nil then return NOTHING end
  local high, low = halves(text)
  return struct.pack('>I4I4', LOW - 1 - high, LOW - 1 - low)
end

local function uuid(bytes) return bytes or NOTHING .. NOTHING end
local function word(text) return (text or '\255') .. '\0' end

local function less(a, b)
  if a == nil or b == nil then return false end
  if #a <= EXACT and #b <= EXACT then return tonumber(a) < tonumber(b) end
  local ah, al = halves(a)
  local bh, bl = halves(b)
  return ah < bh or (ah == bh and al < bl)
end

local function same(a, b) return a ~= nil and a == b end
local function differs(a, b) return a ~= nil and b ~= nil and a ~= b end
local function up_to(a, b) return same(a, b) or less(a, b) end
local function digits(n) return string.format('%.0f', n) end

-- Sums beyond the digits of a Lua number, in two halves, and back to decimal digits.

local function decimal(high, low)
  high = high - HIGH
  local negative = high < 0
  if negative then
    low, high = LOW - low, -high - 1
    if low == LOW then low, high = 0, high + 1 end
  end
  local groups = {}
  while high > 0 or low > 0 do
    local rest = high % 10000000
    high = floor(high / 10000000)
    local both = rest * LOW + low
    if both >= 9007199254740992 then -- in two steps, since the product is inexact
      local top = rest * 65536 + floor(low / 65536)
      local above = floor(top / 10000000)
      both = (top % 10000000) * 65536 + low % 65536
      low = above * 65536 + floor(both / 10000000)
    else
      low = floor(both / 10000000)
    end
    groups[#groups + 1] = both % 10000000
    if low >= LOW then high, low = high + floor(low / LOW), low % LOW end
  end
  local text = digits(groups[#groups] or 0)
  for at = #groups - 1, 1, -1 do text = text .. string.format('%07d', groups[at]) end
  return negative and '-' .. text or text
end

local function exact(a, b, sign)
  local ah, al = halves(a)
  local bh, bl = halves(b)
  ah, bh = ah - HIGH, bh - HIGH
  local low = al + sign * bl
  local carry = floor(low / LOW)
  return decimal(ah + sign * bh + carry + HIGH, low - carry * LOW)
end

local function plus(a, b)
  if a == nil or b == nil then return nil end
  if #a <= EXACT and #b <= EXACT then return digits(tonumber(a) + tonumber(b)) end
  return exact(a, b, 1)
end

local function minus(a, b)
  if a == nil or b == nil then return nil end
  if #a <= EXACT and #b <= EXACT then return digits(tonumber(a) - tonumber(b)) end
  return exact(a, b, -1)
end

local function until_(at)
  if at == nil then return nil end
  local left = minus(at, NOW)
  return less(left, '1') and '1' or left
end

local function either(holds, a, b)
  if holds then return a end
  return b
end

local function text(count, ...)
  local parts = { ... }
  for i = 1, count do
    if parts[i] == nil then return nil end
  end
  return table.concat(parts)
end

-- The server draws the same numbers in every call, so the caller sends a seed.
local function fresh()
  drawn = drawn + 1
  local hex = redis.sha1hex(seed .. drawn)
  local first, second = tonumber(sub(hex, 1, 8), 16), tonumber(sub(hex, 9, 16), 16)
  local third, fourth = tonumber(sub(hex, 17, 24), 16), tonumber(sub(hex, 25, 32), 16)
  second = second - second % 65536 + 16384 + second % 4096 -- version 4
  return struct.pack('>I4I4I4I4', first, second, third % 1073741824 + HIGH, fourth)
end

local function contains(list, value)
  if value == nil then return false end
  for i = 1, #list do
    if list[i] == value then return true end
  end
  return false
end

local function covered(list, by)
  for _, item in ipairs(cjson.decode(list)) do
    if not contains(by, item) then return false end
  end
  return true
end

local function required(value, column)
  if value == nil then error({ column .. ' is null' }) end
  return value
end

-- The first text behind all texts that begin with this one
local function behind(prefix)
  local at = #prefix
  while at > 0 and byte(prefix, at) == 255 do at = at - 1 end
  if at == 0 then return '+' end
  return '(' .. sub(prefix, 1, at - 1) .. char(byte(prefix, at) + 1)
end

local function from(prefix)
  local found = behind(prefix)
  if found == '+' then return '+' end
  return '[' .. sub(found, 2)
end

