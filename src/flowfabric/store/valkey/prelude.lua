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
  return struct.pack('>I4I4', halves(text))
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

local function once(own, value)
  if own == nil then return value end
  return own
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
  local bytes = { string.gsub(sub(hex, 1, 32), '%x%x', function(pair) return char(tonumber(pair, 16)) end) }
  local id = bytes[1]
  local seventh, ninth = byte(id, 7) % 16 + 64, byte(id, 9) % 64 + 128
  return sub(id, 1, 6) .. char(seventh) .. sub(id, 8, 8) .. char(ninth) .. sub(id, 10)
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

-- Steps

local function refuse(step) error({ step = step }) end

local function insert(t, pk, row, step)
  if fetch(t, pk) then refuse(step) end
  put(t, pk, setmetatable(row, t.defaults))
  return row
end

local function wake(topic, kind, key, at)
  if at == '' or (kind == '' or key ~= nil) then
    wakes[table.concat({ topic, kind or '', key or '', at or '' }, '\0')] =
      { topic, kind or '', key or '', at or '' }
  end
end

local function trim(channel, number)
  local t = T.ff_outbox_trim
  local pk = channel .. '\0'
  local row = fetch(t, pk)
  if row and not less(row.event_id, number) then return end
  put(t, pk, setmetatable({ channel = channel, event_id = number }, t.defaults))
end

-- Calls

local function begin(prefix, now)
  call, floor, byte, char, sub = redis.call, math.floor, string.byte, string.char, string.sub
  P = prefix .. ':'
  rows, stored, dirty, journal, numbers, warm, wakes, drawn = {}, {}, {}, {}, {}, {}, {}, 0
  if now then
    NOW = now
  else
    local time = call('TIME')
    NOW = digits(tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000))
    local latest = call('GET', P .. 'T')
    if latest and less(NOW, latest) then NOW = latest end
  end
end

local function attempt(run)
  local mark = #journal
  local kept = wakes
  wakes = setmetatable({}, { __index = kept })
  local done, answer = pcall(run)
  if done then
    for name, each in pairs(wakes) do kept[name] = each end
    wakes = kept
    return answer
  end
  wakes = kept
  roll_back(mark)
  if type(answer) == 'table' and answer.step then return { 0, answer.step } end
  if type(answer) == 'table' then answer = answer[1] or answer.err end
  return { 2, tostring(answer) }
end

local function row_answer(count, values)
  local answer = { 1 }
  for i = 1, count do
    local value = values[i]
    if value == nil then value = false end
    answer[i + 1] = value
  end
  return answer
end

-- Forms arrive as source with the first plan that needs them, and stay until the server forgets
-- its functions.

local HEADER = 'local T, I, now, fetch, whole, put, copy, insert, refuse, next_number, trim, wake, '
  .. 'row_answer, required, same, differs, less, up_to, plus, minus, until_, either, once, text, '
  .. 'fresh, contains, covered, int, int_desc, uuid, word, each_row, each_of_table = ...\n'

local function now() return NOW end

local function compile(name, source)
  local chunk, problem = loadstring(HEADER .. source, name)
  if not chunk then error(problem) end
  F[name] = chunk(T, I, now, fetch, whole, put, copy, insert, refuse, next_number, trim, wake,
    row_answer, required, same, differs, less, up_to, plus, minus, until_, either, once, text,
    fresh, contains, covered, int, int_desc, uuid, word, each_row, each_of_table)
end

local function is_unknown(request)
  for name, source in pairs(request[7] or {}) do
    if not F[name] then compile(name, source) end
  end
  for _, plan in ipairs(request[4]) do
    if not F[plan[1]] then return true end
  end
  for _, wanted in ipairs(request[5]) do
    if not F[wanted[1]] then return true end
  end
  return false
end

local function commit(keys, args)
  local request = cmsgpack.unpack(args[1])
  if is_unknown(request) then return 'NOFORM' end
  local mode, plans, sweeps, token = request[1], request[4], request[5], request[6]
  begin(keys[1], request[2])
  seed = request[3]
  local answers, swept = {}, {}
  local function run(plan)
    return F[plan[1]].run(plan)
  end
  if mode == 'each' then
    for at, plan in ipairs(plans) do
      answers[at] = attempt(function() return run(plan) end)
    end
    for at, wanted in ipairs(sweeps) do
      swept[at] = attempt(function() return F[wanted[1]].sweep(wanted[2], wanted[3]) end)
    end
  else
    local refused
    local whole_answer = attempt(function()
      local answer
      for at, plan in ipairs(plans) do
        local mark = at
        local done, found = pcall(run, plan)
        if not done then
          if type(found) == 'table' and found.step then refused = mark end
          error(found)
        end
        answer = found
      end
      for at, wanted in ipairs(sweeps) do
        swept[at] = F[wanted[1]].sweep(wanted[2], wanted[3])
      end
      return answer or { 1 }
    end)
    if refused and whole_answer[1] == 0 then whole_answer[3] = refused - 1 end
    answers[1] = whole_answer
  end
  flush()
  call('SET', P .. 'T', NOW)
  local told = {}
  for _, each in pairs(wakes) do told[#told + 1] = each end
  if #told > 0 then call('PUBLISH', P .. 'W', cmsgpack.pack({ token, told })) end
  return { NOW, answers, swept, told }
end

-- Reads

local function shown(t, pk, columns)
  local id = t.code .. pk
  local needs_large = false
  for _, column in ipairs(columns) do
    if t.large and t.large[column] then needs_large = true end
  end
  local row = fetch(t, pk)
  if not row then return nil end
  if needs_large then row = whole(t, pk) end
  local values = {}
  for at, column in ipairs(columns) do
    local value = row[column]
    if value == nil then value = false end
    values[at] = value
  end
  return values
end

local function scan(read, found)
  local ix, group, after, limit_of, limit, columns, back = I[read[2]], read[3], read[4], read[5], read[6], read[7], read[8]
  local count = 0
  if limit <= 0 then return end
  each_row(ix, group, after or nil, limit_of or nil, back, function(pk)
    found[#found + 1] = shown(ix.t, pk, columns)
    count = count + 1
    return count >= limit
  end)
end

-- Conditions of a search: alternatives of { column, operator, value, is a number }

local function is_met(value, condition)
  local op, given = condition[2], condition[3]
  if value == nil then return false end
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
      if each[2] == 'listed' then
        holds = row[each[1]] ~= nil and each.values[row[each[1]]] == true
      else
        holds = is_met(row[each[1]], each)
      end
      if holds then break end
    end
    if not holds then return false end
  end
  return true
end

local function with_lists(conditions)
  for _, alternatives in ipairs(conditions) do
    for _, each in ipairs(alternatives) do
      if each[2] == 'listed' then
        local values, ix = {}, I[each[3]]
        each_row(ix, each[4], nil, nil, false, function(_, row)
          if row[each[1]] ~= nil then values[row[each[1]]] = true end
        end)
        each.values = values
      end
    end
  end
  return conditions
end

local READS = {
  -- The number of examined rows, the last of them, and those that match
  find = function(read)
    local ix, group, after, back = I[read[2]], read[3], read[4], read[5]
    local conditions, columns = with_lists(read[6]), read[7]
    local limit, examine = read[8], read[9]
    local found, examined, last = { false, false }, 0, nil
    each_row(ix, group or nil, after or nil, nil, back, function(pk, row)
      examined, last = examined + 1, pk
      if all_met(row, conditions) then found[#found + 1] = shown(ix.t, pk, columns) end
      return (limit and #found - 2 >= limit) or (examine and examined >= examine)
    end)
    found[1] = { digits(examined) }
    if last then found[2] = shown(ix.t, last, columns) end
    return found
  end,
  get = function(read)
    local t, found = T[read[2]], {}
    for _, pk in ipairs(read[3]) do
      found[#found + 1] = shown(t, pk, read[4])
    end
    return found
  end,
  scan = function(read)
    local found = {}
    scan(read, found)
    return found
  end,
  scans = function(read)
    local found = {}
    for _, group in ipairs(read[3]) do
      scan({ 'scan', read[2], group, false, false, read[4], read[5], false }, found)
    end
    return found
  end,
  tally = function(read)
    local ix, group, limit, columns = I[read[2]], read[3], read[4], read[5]
    local counts, order, seen = {}, {}, 0
    if limit > 0 then
      each_row(ix, group or nil, nil, nil, false, function(pk)
        local values = shown(ix.t, pk, columns)
        local parts = {}
        for at, value in ipairs(values) do parts[at] = value and ('=' .. value) or '-' end
        local name = table.concat(parts, '\0')
        if counts[name] == nil then
          counts[name] = { values, 0 }
          order[#order + 1] = name
        end
        counts[name][2] = counts[name][2] + 1
        seen = seen + 1
        return seen >= limit
      end)
    end
    local found = {}
    for at, name in ipairs(order) do
      local values = counts[name][1]
      values[#values + 1] = digits(counts[name][2])
      found[at] = values
    end
    return found
  end,
  page = function(read) -- rows of a table behind a key
    local t, after, limit, columns, found = T[read[2]], read[3], read[4], read[5], {}
    local low = after and ('(' .. after) or '-'
    for _, pk in ipairs(call('ZRANGEBYLEX', P .. t.code, low, '+', 'LIMIT', 0, limit)) do
      local values = shown(t, pk, columns)
      values[#values + 1] = pk
      found[#found + 1] = values
    end
    return found
  end,
  last = function(read)
    return { { call('GET', P .. 'N' .. T[read[2]].code) or '0' } }
  end,
  first = function(read) -- the lowest value of the first column of an index
    local ix, column, lowest = I[read[2]], read[3], nil
    local function visit(pk)
      local row = fetch(ix.t, pk)
      if row and ix.test(row) then
        if lowest == nil or less(row[column], lowest) then lowest = row[column] end
        return true
      end
    end
    if ix.grouped and not ix.primary then
      walk_range(P .. 'D' .. ix.code, '-', '+', false, function(group)
        walk_group(ix, group, nil, nil, false, visit)
      end)
    else
      walk_group(ix, '', nil, nil, false, visit)
    end
    return lowest and { { lowest } } or {}
  end,
}

local function load(keys, args)
  local request = cmsgpack.unpack(args[1])
  begin(keys[1], request[1])
  local found = {}
  for at, read in ipairs(request[2]) do found[at] = READS[read[1]](read) end
  return { NOW, found }
end
