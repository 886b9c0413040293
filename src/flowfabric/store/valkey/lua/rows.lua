-- Rows. Every change is written at once, so that indexes can be walked at any time, and noted in
-- `undo` before.

local NUMBER, MADE, CHANGED, ERASED = 1, 2, 3, 4

local function fetch(t, pk)
  local id = t.code .. pk
  local row = rows[id]
  if row ~= nil then return row end
  local flat = call('HGETALL', P .. id)
  if #flat == 0 then
    row = false
  else
    row = setmetatable({}, t.defaults)
    local names = t.names
    for i = 1, #flat, 2 do row[names[flat[i]]] = flat[i + 1] end
  end
  rows[id] = row
  return row
end

-- Loads the large columns, which lie apart
local function whole(t, pk)
  local id = t.code .. pk
  local row = fetch(t, pk)
  if not row or warm[id] then return row end
  warm[id] = true
  local flat = call('HGETALL', P .. 'L' .. id)
  for i = 1, #flat, 2 do row[t.names[flat[i]]] = flat[i + 1] end
  return row
end

local function exists(t, pk)
  local id = t.code .. pk
  local row = rows[id]
  if row ~= nil then return row end
  return call('EXISTS', P .. id) == 1
end

-- A row whose id is used again in the same call must not inherit large columns
local function drop_late()
  for at, entry in ipairs(late) do
    entry.large = call('HGETALL', entry.key)
    call('DEL', entry.key)
    late[at] = nil
  end
end

-- Writes a new row with these fields and large fields. Its index entries follow.
local function make(t, pk, fields, large)
  local id = t.code .. pk
  if t.large and #late > 0 then drop_late() end
  undo[#undo + 1] = { MADE, t, pk }
  rows[id], warm[id] = nil, nil
  call('HSET', P .. id, unpack(fields))
  if large and large[1] then call('HSET', P .. 'L' .. id, unpack(large)) end
  call('ZADD', P .. t.code, 0, pk)
end

local function large_value(t, pk, column)
  return call('HGET', P .. 'L' .. t.code .. pk, t.codes[column]) or nil
end

local function note_change(t, pk, row, columns, before)
  undo[#undo + 1] = { CHANGED, t, pk, row, columns, before }
end

local function change(t, pk, set, unset, large, no_large)
  local id = t.code .. pk
  if set[1] then call('HSET', P .. id, unpack(set)) end
  if unset[1] then call('HDEL', P .. id, unpack(unset)) end
  if large and large[1] then call('HSET', P .. 'L' .. id, unpack(large)) end
  if no_large and no_large[1] then call('HDEL', P .. 'L' .. id, unpack(no_large)) end
end

local function next_number(t)
  local last = numbers[t.code]
  if last == nil then
    last = tonumber(call('GET', P .. 'N' .. t.code) or '0')
    stored_numbers[t.code] = last
  end
  undo[#undo + 1] = { NUMBER, t, last }
  numbers[t.code] = last + 1
  return digits(last + 1)
end

-- Fields of the columns, apart where they are large, and those that hold nothing or a default
local function fields_of(t, columns, row)
  local set, unset, large, no_large = {}, {}, {}, {}
  for _, column in ipairs(columns) do
    local value, is_large = row[column], t.large and t.large[column]
    local into, out = is_large and large or set, is_large and no_large or unset
    if value == nil or (value == t.default_values[column] and not t.kept[column]) then
      out[#out + 1] = t.codes[column]
    else
      into[#into + 1] = t.codes[column]
      into[#into + 1] = value
    end
  end
  return set, unset, large, no_large
end
