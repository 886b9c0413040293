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

