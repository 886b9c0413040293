-- Indexes

local function add(ix, group, member)
  call('ZADD', P .. ix.code .. group, 0, member)
  if ix.grouped then
    local name = ix.code .. group
    if not listed[name] then
      call('ZADD', P .. 'D' .. ix.code, 0, group)
      listed[name] = true
    end
  end
end

local function remove(ix, group, member)
  local name = ix.code .. group
  call('ZREM', P .. name, member)
  if ix.grouped and call('EXISTS', P .. name) == 0 then
    call('ZREM', P .. 'D' .. ix.code, group)
    listed[name] = nil
  end
end

local function move(ix, old_group, old_member, group, member)
  if old_group == group and old_member == member then return end
  if old_member then remove(ix, old_group, old_member) end
  if member then add(ix, group, member) end
end

local function entry_of(ix, pk, row)
  if row and ix.test(row) then return ix.group(row), ix.order(row) .. pk end
end

-- An error that is undone may be that of a row whose entries cannot be computed
local function reindex(t, pk, old, new)
  for _, ix in ipairs(t.indexes) do
    local was, old_group, old_member = pcall(entry_of, ix, pk, old)
    local is, group, member = pcall(entry_of, ix, pk, new)
    move(ix, was and old_group or nil, was and old_member or nil,
      is and group or nil, is and member or nil)
  end
end

local function erase(t, pk)
  local row = fetch(t, pk)
  if not row then return end
  local id = t.code .. pk
  local entry = { ERASED, t, pk, row, key = P .. 'L' .. id }
  undo[#undo + 1] = entry
  for _, ix in ipairs(t.indexes) do
    if ix.test(row) then remove(ix, ix.group(row), ix.order(row) .. pk) end
  end
  call('DEL', P .. id)
  call('ZREM', P .. t.code, pk)
  if t.large then late[#late + 1] = entry end
  rows[id], warm[id] = false, nil
end

local function insert_again(t, pk, row, large)
  local id = t.code .. pk
  local set = fields_of(t, t.small, row)
  call('HSET', P .. id, unpack(set))
  if large and large[1] then call('HSET', P .. 'L' .. id, unpack(large)) end
  call('ZADD', P .. t.code, 0, pk)
  reindex(t, pk, nil, row)
  rows[id] = row
end

local function take_back(entry)
  local kind, t, pk = entry[1], entry[2], entry[3]
  if kind == NUMBER then
    numbers[t.code] = pk
    return
  end
  local id = t.code .. pk
  if kind == MADE then
    reindex(t, pk, fetch(t, pk), nil)
    call('DEL', P .. id)
    if t.large then call('DEL', P .. 'L' .. id) end
    call('ZREM', P .. t.code, pk)
    rows[id], warm[id] = false, nil
  elseif kind == CHANGED then
    local row, columns, before = entry[4], entry[5], entry[6]
    local old = setmetatable({}, t.defaults)
    for column, value in pairs(row) do old[column] = value end
    for _, column in ipairs(columns) do old[column] = before[column] end
    reindex(t, pk, row, old)
    change(t, pk, fields_of(t, columns, old))
    for _, column in ipairs(columns) do row[column] = before[column] end
    rows[id] = row
  else
    insert_again(t, pk, entry[4], entry.large)
  end
end

local function roll_back(mark)
  for at = #undo, mark + 1, -1 do
    if late[#late] == undo[at] then late[#late] = nil end
    take_back(undo[at])
    undo[at] = nil
  end
end

local function keep()
  if #undo == 0 then return end
  for at, entry in ipairs(late) do
    call('DEL', entry.key)
    late[at] = nil
  end
  undo = {}
end

-- Walks. `visit` gets the key of a row and returns true to stop. An index that is served by the
-- keys of its table, or by the groups of another index, has no entries of its own.

local function walk_range(key, low, high, back, visit, first)
  local size = first or FIRST_PAGE
  while true do
    local page
    if back then
      page = call('ZREVRANGEBYLEX', key, high, low, 'LIMIT', 0, size)
    else
      page = call('ZRANGEBYLEX', key, low, high, 'LIMIT', 0, size)
    end
    for _, member in ipairs(page) do
      if visit(member) then return true end
    end
    if #page < size then return false end
    size = math.min(size * 2, LAST_PAGE)
    if back then high = '(' .. page[#page] else low = '(' .. page[#page] end
  end
end

local function walk_group(ix, group, after, limit_of, back, visit, first)
  if ix.base then -- the groups of another index, in their order
    local low = '[' .. group
    if after then low = from(group .. after) end
    return walk_range(P .. 'D' .. ix.base.code, low, behind(group), back, function(each)
      return walk_range(P .. ix.base.code .. each, '-', '+', false, function(member)
        return visit(ix.base.key_of(member))
      end)
    end)
  end
  local key, prefix = P .. ix.code .. group, ''
  if ix.primary then key, prefix = P .. ix.t.code, group end
  local low, high = '[' .. prefix, behind(prefix)
  if prefix == '' then low, high = '-', '+' end
  if after and back then high = '(' .. prefix .. after
  elseif after then low = from(prefix .. after) end
  if limit_of then high = behind(prefix .. limit_of) end
  return walk_range(key, low, high, back, function(member)
    return visit(ix.key_of(member))
  end, first)
end

local function walk(ix, group, after, limit_of, back, visit, first)
  if ix.back then back = not back end
  if group or not ix.grouped then
    return walk_group(ix, group or '', after, limit_of, back, visit, first)
  end
  if ix.primary then return walk_group(ix, '', after, limit_of, back, visit) end
  local directory = ix.base or ix
  return walk_range(P .. 'D' .. directory.code, '-', '+', false, function(each)
    if ix.base then
      return walk_range(P .. ix.base.code .. each, '-', '+', false, function(member)
        return visit(ix.base.key_of(member))
      end)
    end
    return walk_group(ix, each, after, limit_of, back, visit)
  end)
end

-- Rows of the index, of which those outside its condition are left out. With `wanted`, so many
-- entries are looked at first.
local function each_row(ix, group, after, limit_of, back, visit, wanted)
  local first = wanted and math.max(FEWEST, math.min(wanted, LAST_PAGE))
  return walk(ix, group, after, limit_of, back, function(pk)
    local row = fetch(ix.t, pk)
    if row and ix.test(row) then return visit(pk, row) end
  end, first)
end

local function each_of_table(t, prefix, visit)
  local low, high = '[' .. prefix, behind(prefix)
  if prefix == '' then low, high = '-', '+' end
  return walk_range(P .. t.code, low, high, false, function(pk)
    local row = fetch(t, pk)
    if row then return visit(pk, row) end
  end)
end

