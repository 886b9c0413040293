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
  end, limit)
end

local READS = {
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
