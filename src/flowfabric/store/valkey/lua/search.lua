-- Conditions of a search: alternatives of { column, operator, value, is a number }, or of
-- { column, 'listed', index, group, kind }

local PART = { uuid = uuid, int = int, word = word }

-- Whether the first column of the order has the value in a group of another index
local function is_listed(value, condition)
  if value == nil then return false end
  local ix, group = I[condition[3]], condition[4]
  local part = PART[condition[5]](value)
  local key, prefix = P .. ix.code .. group, part
  if ix.primary then key, prefix = P .. ix.t.code, group .. part end
  return #call('ZRANGEBYLEX', key, '[' .. prefix, behind(prefix), 'LIMIT', 0, 1) > 0
end

local function is_met(value, condition)
  local op, given = condition[2], condition[3]
  if value == nil then return false end
  if op == 'listed' then return is_listed(value, condition) end
  if op == 'in' then return contains(given, value) end
  if op == 'starts' then return sub(value, 1, #given) == given end
  if op == 'contains' then return string.find(value, given, 1, true) ~= nil end
  if op == '=' then return value == given end
  local below, above
  if condition[4] then
    below, above = less(value, given), less(given, value)
  else
    below, above = value < given, given < value
  end
  if op == '<' then return below end
  if op == '<=' then return not above end
  if op == '>' then return above end
  return not below
end

local function all_met(row, conditions)
  for _, alternatives in ipairs(conditions) do
    local holds = false
    for _, each in ipairs(alternatives) do
      holds = is_met(row[each[1]], each)
      if holds then break end
    end
    if not holds then return false end
  end
  return true
end

-- Visits at most `count` entries of a group, behind a position of its order or behind a member.
-- The last member where others may follow, and how many were visited.
local function visit_group(ix, group, after, member, back, count, visit)
  local key, prefix = P .. ix.code .. group, ''
  if ix.primary then key, prefix = P .. ix.t.code, group end
  local low, high = '[' .. prefix, behind(prefix)
  if prefix == '' then low, high = '-', '+' end
  if member and back then high = '(' .. member
  elseif member then low = '(' .. member
  elseif after and back then high = '(' .. prefix .. after
  elseif after then low = from(prefix .. after) end
  local page
  if back then
    page = call('ZREVRANGEBYLEX', key, high, low, 'LIMIT', 0, count)
  else
    page = call('ZRANGEBYLEX', key, low, high, 'LIMIT', 0, count)
  end
  for at, each in ipairs(page) do
    if visit(ix.key_of(each)) then return each, at end
  end
  return #page == count and page[count] or nil, #page
end

-- As `visit_group`, for one group or all of them. Where to go on: a group and a member, or nil.
local function visit_part(ix, group, after, cursor, back, count, visit)
  if ix.back then back = not back end
  local member = cursor and cursor[2]
  if group or not ix.grouped or ix.primary then
    local last = visit_group(ix, group or '', after, member, back, count, visit)
    return last and { '', last }
  end
  local each, done = cursor and cursor[1], nil
  while true do
    if not each then
      local low = done and '(' .. done or '-'
      each = call('ZRANGEBYLEX', P .. 'D' .. ix.code, low, '+', 'LIMIT', 0, 1)[1]
      if not each then return nil end
    end
    local last, visited = visit_group(ix, each, nil, member, back, count, visit)
    if last then return { each, last } end
    count, done, each, member = count - visited, each, nil, nil
  end
end

-- How many rows were examined, where to go on, the last row examined, and those that match
READS.find = function(read)
  local ix, group, after, back = I[read[2]], read[3], read[4], read[5]
  local conditions, columns, limit, examine = read[6], read[7], read[8], read[9]
  local entries, cursor = read[10], read[11]
  local found, examined, hits, last = {}, 0, 0, nil
  local goes_on = visit_part(ix, group, after, cursor, back, entries, function(pk)
    local row = fetch(ix.t, pk)
    if not row or not ix.test(row) then return false end
    examined, last = examined + 1, pk
    if all_met(row, conditions) then
      hits = hits + 1
      found[hits + 3] = shown(ix.t, pk, columns)
    end
    return hits == limit or examined == examine
  end)
  found[1] = { digits(examined) }
  found[2] = goes_on or false
  found[3] = last and shown(ix.t, last, columns) or false
  return found
end

-- Parts of a table, behind a key. A part has a bounded number of rows, and ends behind the row
-- that fills so many bytes.

local function part_of(t, after, limit)
  local low = after and ('(' .. after) or '-'
  return call('ZRANGEBYLEX', P .. t.code, low, '+', 'LIMIT', 0, limit)
end

READS.part = function(read)
  local t, columns, left, found = T[read[2]], read[5], read[6], {}
  for _, pk in ipairs(part_of(t, read[3], read[4])) do
    local values = shown(t, pk, columns)
    for _, value in ipairs(values) do left = left - #(value or '') end
    values[#values + 1] = pk
    found[#found + 1] = values
    if left <= 0 then break end
  end
  return found
end

-- The last key of the part, and the number of its rows by the values of some columns
READS.count = function(read)
  local t, columns, found, counts = T[read[2]], read[5], { false }, {}
  local codes, defaults, parts, width = {}, {}, {}, #columns
  for at, column in ipairs(columns) do
    codes[at], defaults[at] = t.codes[column], t.default_values[column] or false
  end
  local keys = part_of(t, read[3], read[4])
  for _, pk in ipairs(keys) do
    local values = call('HMGET', P .. t.code .. pk, unpack(codes))
    for at = 1, width do values[at] = values[at] or defaults[at] end
    for at = 1, width do parts[at] = values[at] and '=' .. values[at] or '-' end
    local name = table.concat(parts, '\0')
    if counts[name] then
      counts[name] = counts[name] + 1
    else
      counts[name], values.name, found[#found + 1] = 1, name, values
    end
  end
  for at = 2, #found do
    local values = found[at]
    values[width + 1] = digits(counts[values.name])
  end
  if #keys == read[4] then found[1] = keys[#keys] end
  return found
end
