"""What the server runs: the function library of a schema, and forms that are sent when needed."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from itertools import count

from msgspec import Struct

from flowfabric.plan import Arg, Delete, Form, InsertEach, walk
from flowfabric.store.schema import TABLES
from flowfabric.store.valkey.encoding import Decoder, decoders
from flowfabric.store.valkey.lua_forms import form_lua
from flowfabric.store.valkey.lua_schema import schema_lua

PARTS = ("state", "values", "rows", "indexes", "calls", "reads", "search")
"""Files of the folder `lua`, in the order in which they build on each other."""
_MARK = "DIGEST"
_numbers = count(1)
_HEAD = "#!lua name=ff_DIGEST\n"
_REGISTER = """
local function commit_at(keys, args)
  local place = redis.call('INFO', 'replication')
  return { place, commit(keys, args) }
end
local function load_at(keys, args)
  local found = load(keys, args)
  local place, T = redis.call('INFO', 'replication'), keys[1] .. ':T'
  redis.call('SET', T, redis.call('GET', T) or '0')
  return { place, found }
end
local function missing(keys) -- what the caller may not do; a commit could fail halfway
  local key, found = keys[1] .. ':', {}
  for _, command in ipairs({
    { 'GET', key }, { 'SET', key, '' }, { 'DEL', key }, { 'EXISTS', key }, { 'TIME' },
    { 'HGETALL', key }, { 'HGET', key, '' }, { 'HMGET', key, '' },
    { 'HSET', key, '', '' }, { 'HDEL', key, '' },
    { 'ZADD', key, '0', '' }, { 'ZREM', key, '' }, { 'ZRANGEBYLEX', key, '-', '+' },
    { 'ZREVRANGEBYLEX', key, '+', '-' }, { keys[2] and 'SPUBLISH' or 'PUBLISH', key .. 'W', '' },
  }) do
    if not server.acl_check_cmd(unpack(command)) then found[#found + 1] = command[1] end
  end
  return found
end
server.register_function('ff_commit_DIGEST', commit)
server.register_function('ff_commit_at_DIGEST', commit_at)
server.register_function{function_name='ff_free_DIGEST', callback=commit, flags={'allow-oom'}}
server.register_function{function_name='ff_free_at_DIGEST', callback=commit_at, flags={'allow-oom'}}
server.register_function('ff_load_at_DIGEST', load_at)
server.register_function{function_name='ff_missing_DIGEST', callback=missing, flags={'no-writes'}}
server.register_function{function_name='ff_load_DIGEST', callback=load, flags={'no-writes'}}
"""


class Library(Struct, frozen=True):
    """Its functions have the digest of its text in their names, so that releases coexist."""

    text: str
    commit: str
    load: str
    commit_at: str
    load_at: str
    """These two write, and answer as well where in the history of the server that was."""
    free: str
    free_at: str
    """Commits that a full server takes as well."""
    missing: str
    """Rights that the user does not have."""


class ServerForm(Struct, frozen=True):
    """A form under the digest of its source, and its number in the requests of this process.

    `frees`: it deletes and does nothing else. `returning` decodes the columns of an answer.
    `lists` are the arguments that are stored as the list of a column, and `items` those whose items
    have such lists at these places.
    """

    name: str
    number: int
    source: str
    frees: bool
    returning: tuple[Decoder, ...]
    lists: frozenset[int]
    items: dict[int, frozenset[int]]


def lua_text(*parts: str) -> str:
    folder = files(__package__).joinpath("lua")
    return "".join(folder.joinpath(f"{part}.lua").read_text("utf-8") for part in parts)


@cache
def library() -> Library:
    text = f"{_HEAD}{lua_text(*PARTS)}{schema_lua()}{_REGISTER}"
    digest = _digest(text)
    names = (f"ff_{each}_{digest}" for each in Library.__struct_fields__[1:])
    return Library(text.replace(_MARK, digest), *names)


@cache
def server_form(form: Form) -> ServerForm:
    source = form_lua(form)
    lists, items = set(), {}
    for step in form.steps:
        kinds = TABLES[step.table].kinds
        if isinstance(step, InsertEach):
            named = {v.name: kinds[c] for c, v in step.row.items() if hasattr(v, "name")}
            places = [at for at, name in enumerate(step.items) if named.get(name) == "list"]
            items[form.args.index(step.of.name)] = frozenset(places)
        for part in ("row", "set"):
            for column, value in getattr(step, part, {}).items():
                if kinds[column] == "list":
                    lists |= {form.args.index(v.name) for v in walk(value) if isinstance(v, Arg)}
    table = TABLES[form.steps[0].table]
    returned = [each if isinstance(each, str) else each.column for each in form.returning]
    return ServerForm(
        f"{form.name}:{_digest(source)}",
        next(_numbers),
        source,
        all(isinstance(step, Delete) for step in form.steps),
        tuple(decoders(table, returned)),
        frozenset(lists),
        items,
    )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
