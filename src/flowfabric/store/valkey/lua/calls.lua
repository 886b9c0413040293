-- Steps

local function refuse(step) error({ step = step }) end

local function wake(topic, kind, key, at)
  if at == nil then return end
  if key == nil then kind, key = '', '' end
  local name = topic .. '\0' .. kind .. key .. '\0' .. at
  if rung[name] then return end
  rung[name] = true
  told[#told + 1] = { topic, kind, key, at, name }
end

local TRIMMED = { 'event_id' }

local function trim(channel, number)
  local t = T.ff_outbox_trim
  local pk = channel .. '\0'
  local row = fetch(t, pk)
  if row and not less(row.event_id, number) then return end
  if row then
    note_change(t, pk, row, TRIMMED, { event_id = row.event_id })
    row.event_id = number
    change(t, pk, fields_of(t, TRIMMED, row))
  else
    make(t, pk, { t.codes.channel, channel, t.codes.event_id, number })
  end
end

-- Calls

local function begin(prefix, now)
  call, floor, byte, char, sub = redis.call, math.floor, string.byte, string.char, string.sub
  P = prefix .. ':'
  rows, warm, undo, late, ints, listed = {}, {}, {}, {}, {}, {}
  numbers, stored_numbers = {}, {}
  told, rung, drawn = {}, {}, 0
  if now then
    NOW = now
  else
    local time = call('TIME')
    NOW = digits(tonumber(time[1]) * 1000 + floor(tonumber(time[2]) / 1000))
    local latest = call('GET', P .. 'T')
    if latest and less(NOW, latest) then NOW = latest end
  end
end

local function silence(mark)
  for at = #told, mark + 1, -1 do
    rung[told[at][5]] = nil
    told[at] = nil
  end
end

local function failure(answer)
  if type(answer) == 'table' and answer.step then return { 0, answer.step } end
  if type(answer) == 'table' then answer = answer[1] or answer.err end
  return { 2, tostring(answer) }
end

-- The answer of a function, or what refused it, when nothing of it is left
local function attempt(run, a, b)
  local heard = #told
  local done, answer = pcall(run, a, b)
  if done then
    keep()
    return answer
  end
  roll_back(0)
  silence(heard)
  return failure(answer)
end

-- Forms arrive as source with the first plan that needs them, and stay until the server forgets
-- its functions.

local HEADER = 'local T, I, now, fetch, whole, exists, make, large_value, note_change, change, '
  .. 'erase, add, remove, move, refuse, next_number, trim, wake, required, same, differs, less, '
  .. 'up_to, plus, minus, until_, either, text, fresh, contains, covered, int, int_desc, uuid, '
  .. 'word, each_row, each_of_table = ...\n'

local function now() return NOW end

local function compile(name, source)
  local chunk, problem = loadstring(HEADER .. source, name)
  if not chunk then error(problem) end
  F[name] = chunk(T, I, now, fetch, whole, exists, make, large_value, note_change, change,
    erase, add, remove, move, refuse, next_number, trim, wake, required, same, differs, less,
    up_to, plus, minus, until_, either, text, fresh, contains, covered, int, int_desc, uuid,
    word, each_row, each_of_table)
end

-- The forms of a call by their numbers in it; nothing when one of them is not known
local function forms_of(names, sources)
  for name, source in pairs(sources or {}) do
    if not F[name] then compile(name, source) end
  end
  local found = {}
  for number, name in pairs(names) do
    found[number] = F[name]
    if not found[number] then return nil end
  end
  return found
end

-- All plans and sweeps of a unit, or none
local function together(forms, unit)
  local refused
  local swept = {}
  local function run_all()
    local answer
    for at, plan in ipairs(unit[2]) do
      refused = at - 1
      answer = forms[plan[1]].run(plan)
    end
    refused = nil
    for at, wanted in ipairs(unit[3]) do
      swept[at] = forms[wanted[1][1]].sweep(wanted[1], wanted[2])
    end
    return answer or { 1 }
  end
  local answer = attempt(run_all)
  if refused and answer[1] == 0 then answer[3] = refused end
  return { { answer }, swept }
end

local function each_alone(forms, unit)
  local answers, swept = {}, {}
  for at, plan in ipairs(unit[2]) do answers[at] = attempt(forms[plan[1]].run, plan) end
  for at, wanted in ipairs(unit[3]) do
    swept[at] = attempt(forms[wanted[1][1]].sweep, wanted[1], wanted[2])
  end
  return { answers, swept }
end

local function commit(keys, args)
  local request = cmsgpack.unpack(args[1])
  local token = request[3]
  local forms = forms_of(request[4], request[6])
  if not forms then return 'NOFORM' end
  begin(keys[1], request[1])
  seed = request[2]
  local found = {}
  for at, unit in ipairs(request[5]) do
    found[at] = (unit[1] == 'each' and each_alone or together)(forms, unit)
  end
  for code, last in pairs(numbers) do
    if last ~= stored_numbers[code] then call('SET', P .. 'N' .. code, digits(last)) end
  end
  call('SET', P .. 'T', NOW)
  for _, each in ipairs(told) do each[5] = nil end
  if #told > 0 then -- a caller of a cluster names a second key, and hears the slot of the cell
    call(keys[2] and 'SPUBLISH' or 'PUBLISH', P .. 'W', cmsgpack.pack({ token, told }))
  end
  return { NOW, found, told }
end

