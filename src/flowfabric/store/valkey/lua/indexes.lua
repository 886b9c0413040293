-- Indexes

local function add(ix, group, member)
  call('ZADD', P .. ix.code .. group, 0, member)
  if ix.grouped then call('ZADD', P .. 'D' .. ix.code, 0, group) end
end

local function remove(ix, group, member)
  local key = P .. ix.code .. group
  call('ZREM', key, member)
  if ix.grouped and call('EXISTS', key) == 0 then call('ZREM', P .. 'D' .. ix.code, group) end
end

local function reindex(ix, pk, old, new)
  local was, is = old and ix.test(old), new and ix.test(new)
  local old_group, old_member, group, member
  if was then old_group, old_member = ix.group(old), ix.order(old) .. pk end
  if is then group, member = ix.group(new), ix.order(new) .. pk end
  if was and is and old_group == group and old_member == member then return end
  if was then remove(ix, old_group, old_member) end
  if is then add(ix, group, member) end
end

local function send(command, key, items)
  local limit = 512
  for at = 1, #items, limit do
    call(command, key, unpack(items, at, math.min(at + limit - 1, #items)))
  end
end

local function write(t, pk, id, old, new)
  if not new then
    call('DEL', P .. id)
    if t.large then call('DEL', P .. 'L' .. id) end
    call('ZREM', P .. t.code, pk)
    for _, ix in ipairs(t.indexes) do reindex(ix, pk, old, nil) end
    return
  end
  local set, unset, large, no_large, changed = {}, {}, {}, {}, {}
  local defaults = t.default_values
  local function note(column)
    local before, after = old and old[column], new[column]
    if old and before == after then return end
    changed[column] = true
    local is_large = t.large and t.large[column]
    local into, out = is_large and large or set, is_large and no_large or unset
    if after == nil or (after == defaults[column] and not t.kept[column]) then
      if old then out[#out + 1] = t.codes[column] end
    else
      into[#into + 1] = t.codes[column]
      into[#into + 1] = after
    end
  end
  for column in pairs(new) do
    if byte(column) ~= 1 then note(column) end
  end
  if old then
    for column in pairs(old) do
      if rawget(new, column) == nil and byte(column) ~= 1 then
        if not (t.large and t.large[column] and not new['\1' .. column]) then note(column) end
      end
    end
  end
  if new then
    for column in pairs(t.large or {}) do
      if new['\1' .. column] and new[column] == nil then no_large[#no_large + 1] = t.codes[column] end
    end
  end
  if #set > 0 then send('HSET', P .. id, set) end
  if #unset > 0 then send('HDEL', P .. id, unset) end
  if #large > 0 then send('HSET', P .. 'L' .. id, large) end
  if #no_large > 0 then send('HDEL', P .. 'L' .. id, no_large) end
  if not old then call('ZADD', P .. t.code, 0, pk) end
  for _, ix in ipairs(t.indexes) do
    local touched = not old
    if old then
      for _, column in ipairs(ix.columns) do touched = touched or changed[column] end
    end
    if touched then reindex(ix, pk, old, new) end
  end
end

local function flush()
  for id, of in pairs(dirty) do
    local old, new = stored[id], rows[id]
    if old ~= new then
      write(of[1], of[2], id, old, new)
      stored[id] = new
    end
  end
  for code, last in pairs(numbers) do call('SET', P .. 'N' .. code, digits(last)) end
  dirty = {}
end

-- Walks. `visit` gets the key of a row and returns true to stop. An index that is served by the
-- keys of its table, or by the groups of another index, has no entries of its own.

local function walk_range(key, low, high, back, visit)
  local size = FIRST_PAGE
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

local function walk_group(ix, group, after, limit_of, back, visit)
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
  end)
end

local function walk(ix, group, after, limit_of, back, visit)
  if next(dirty) then flush() end
  if ix.back then back = not back end
  if group or not ix.grouped then
    return walk_group(ix, group or '', after, limit_of, back, visit)
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

-- Rows of the index, of which those outside its condition are left out
local function each_row(ix, group, after, limit_of, back, visit)
  return walk(ix, group, after, limit_of, back, function(pk)
    local row = fetch(ix.t, pk)
    if row and ix.test(row) then return visit(pk, row) end
  end)
end

local function each_of_table(t, prefix, visit)
  if next(dirty) then flush() end
  local low, high = '[' .. prefix, behind(prefix)
  if prefix == '' then low, high = '-', '+' end
  return walk_range(P .. t.code, low, high, false, function(pk)
    local row = fetch(t, pk)
    if row then return visit(pk, row) end
  end)
end

