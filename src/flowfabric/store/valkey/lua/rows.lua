-- Rows

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
  rows[id], stored[id] = row, row
  return row
end

-- Loads the large columns, which lie apart
local function whole(t, pk)
  local id = t.code .. pk
  local row = fetch(t, pk)
  if not row or warm[id] or not stored[id] then return row end
  warm[id] = true
  local flat = call('HGETALL', P .. 'L' .. id)
  for i = 1, #flat, 2 do
    local name = t.names[flat[i]]
    stored[id][name] = flat[i + 1]
    if row[name] == nil and row ~= stored[id] and not row['\1' .. name] then row[name] = flat[i + 1] end
  end
  return row
end

local function put(t, pk, row)
  local id = t.code .. pk
  journal[#journal + 1] = { id, rows[id], t, pk }
  rows[id] = row
  dirty[id] = { t, pk }
end

local function copy(row)
  local made = setmetatable({}, getmetatable(row))
  for column, value in pairs(row) do made[column] = value end
  return made
end

local function next_number(t)
  local last = numbers[t.code]
  if last == nil then last = tonumber(call('GET', P .. 'N' .. t.code) or '0') end
  journal[#journal + 1] = { t, last }
  numbers[t.code] = last + 1
  return digits(last + 1)
end

local function roll_back(mark)
  for at = #journal, mark + 1, -1 do
    local entry = journal[at]
    if type(entry[1]) == 'table' then
      numbers[entry[1].code] = entry[2]
    else
      rows[entry[1]] = entry[2]
      dirty[entry[1]] = { entry[3], entry[4] }
    end
    journal[at] = nil
  end
end

