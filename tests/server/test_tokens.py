"""Tokens: callers, roles, and invalid files."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowfabric.errors import ConfigError
from flowfabric.server.auth import MAX_TOKENS, Token, load_tokens
from flowfabric.wire.operations import Role

GOOD = '[[token]]\nname = "a"\ntoken = "0123456789abcdef"\nroles = ["read"]\n'


def _file(folder: Path, text: str) -> str:
    path = folder / "tokens.toml"
    path.write_text(text)
    return str(path)


def test_without_tokens_callers_are_anonymous() -> None:
    assert not load_tokens(None, None)
    assert load_tokens(None, None).caller("Bearer x") is None


def test_the_single_token_has_every_role() -> None:
    caller = load_tokens("s3cret", None).caller("Bearer s3cret")
    assert caller is not None
    assert (caller.roles, caller.namespace, caller.lanes) == (frozenset(Role), None, None)


def test_a_token_is_not_printed() -> None:
    token = Token("web", "hunter2" * 3, [Role.SUBMIT], "acme", ["mail"])
    assert (
        repr(token)
        == str(token)
        == "Token('web', <REDACTED>, roles=['submit'], namespace='acme', lanes=['mail'])"
    )


@pytest.mark.parametrize(
    ("roles", "may"),
    [
        (["read"], {"read"}),
        (["submit"], {"read", "submit"}),
        (["work"], {"read", "work"}),
        (["operate"], {"read", "submit", "operate"}),
        (["submit", "work"], {"read", "submit", "work"}),
        (["admin"], {"read", "submit", "work", "operate", "admin"}),
        ([], set()),
    ],
)
def test_implied_roles(tmp_path: Path, roles: list[str], may: set[str]) -> None:
    text = (
        GOOD.replace('["read"]', str(roles).replace("'", '"')) + 'namespace = "n"\nlanes = ["l"]\n'
    )
    caller = load_tokens("single", _file(tmp_path, text)).caller("Bearer 0123456789abcdef")
    assert caller is not None
    assert {role.value for role in Role if caller.may(role)} == may
    assert (caller.name, caller.namespace, caller.lanes) == ("a", "n", frozenset({"l"}))


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '[[token]]\nname = "a"\n',
        GOOD.replace("read", "write"),
        GOOD + "color = 1\n",
        GOOD.replace("0123456789abcdef", "0123456789abcde"),
        GOOD + GOOD.replace("abcdef", "abcdef0"),
        GOOD.replace("read", "admin") + 'namespace = "n"\nlanes = "l"\n',
        "".join(
            GOOD.replace('"a"', f'"a{n}"').replace("abcdef", f"abcdef{n}")
            for n in range(MAX_TOKENS + 1)
        ),
        'token = "x"\n',
    ],
)
def test_errors_of_a_token_file_do_not_show_tokens(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match=r"^invalid value for FF_API_TOKENS_FILE: ") as caught:
        load_tokens(None, _file(tmp_path, text))
    assert "0123456789abcde" not in str(caught.value)


def test_a_missing_token_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^invalid value for FF_API_TOKENS_FILE: "):
        load_tokens(None, str(tmp_path / "missing.toml"))


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    """Else an empty file would open the server to all."""
    with pytest.raises(ConfigError, match="FF_API_TOKENS_FILE"):
        load_tokens(None, _file(tmp_path, ""))
    with pytest.raises(ConfigError, match="FF_API_TOKENS_FILE"):
        load_tokens(None, _file(tmp_path, GOOD.replace("[[token]]", "[[tokens]]")))


def test_the_same_token_twice_is_refused(tmp_path: Path) -> None:
    """The last of them would win, whatever the first may."""
    with pytest.raises(ConfigError, match="FF_API_TOKENS_FILE"):
        load_tokens(
            None, _file(tmp_path, GOOD + GOOD.replace('"a"', '"b"').replace("read", "admin"))
        )
