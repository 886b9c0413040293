"""From what a user typed (`app.py`, `package.module`, `module:name`) to the App in it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from msgspec import Struct

from flowfabric.errors import ConfigError
from flowfabric.sdk.app import App
from flowfabric.sync.app import App as BlockingApp

SHOWN_NAMES = 8
ACCEPTED = "a file like app.py, a module like package.module, or either with the App's name behind it, like app.py:app"


class Target(Struct, frozen=True):
    """What was typed: a file or a module, and the App's name if it was given."""

    where: str
    name: str | None = None
    path: Path | None = None


def parsed(text: str) -> Target:
    where, colon, name = text.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        where, name = text, ""
    if not where or (colon and where != text and not name.isidentifier()):
        raise ConfigError(f"app: {ACCEPTED}; got {text!r:.200}")
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    return Target(where, name or None, Path(where) if is_file else None)


def loaded(text: str) -> App:
    """The App behind it, with at least one task. Importing the user's code is the whole point, so it runs here."""
    target = parsed(text)
    app = chosen(vars(_imported(target)), target)
    if not app.tasks:
        raise ConfigError(f"{text}: its App has no tasks; put @app.task above a function")
    return app


def chosen(names: dict[str, object], target: Target) -> App:
    if target.name is not None:
        return _named(names, target.where, target.name)
    found = {
        id(app): name
        for name, value in reversed(names.items())
        if (app := as_app(value)) is not None
    }
    if not found:
        raise ConfigError(
            f"{target.where}: there is no App in it; {_seen(names)}. Make one: app = App('sqlite:///ff.db')"
        )
    if len(found) > 1:
        listed = ", ".join(sorted(found.values()))
        example = f"{target.where}:{min(found.values())}"
        raise ConfigError(
            f"{target.where}: there are {len(found)} Apps in it, {listed}; say which one, like {example}"
        )
    (name,) = found.values()
    return _named(names, target.where, name)


def as_app(value: object) -> App | None:
    """The blocking one only stands in front of the other."""
    if isinstance(value, BlockingApp):
        return value.inner
    return value if isinstance(value, App) else None


def _named(names: dict[str, object], where: str, name: str) -> App:
    if name not in names:
        raise ConfigError(f"{where}: nothing in it is called {name}; {_seen(names)}")
    app = as_app(names[name])
    if app is None:
        raise ConfigError(f"{where}: {name} is a {type(names[name]).__name__}, an App is needed")
    return app


def _seen(names: dict[str, object]) -> str:
    shown = [
        f"{name} ({type(value).__name__})" for name, value in names.items() if _is_own(name, value)
    ]
    more = f" and {len(shown) - SHOWN_NAMES} more" if len(shown) > SHOWN_NAMES else ""
    return f"found {', '.join(shown[:SHOWN_NAMES])}{more}" if shown else "nothing is defined there"


def _is_own(name: str, value: object) -> bool:
    return not name.startswith("_") and not isinstance(value, ModuleType)


def _imported(target: Target) -> ModuleType:
    if target.path is not None:
        return _from_file(target.path)
    _on_path(Path.cwd())
    try:
        return importlib.import_module(target.where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{target.where}.".startswith(f"{error.name}."):
            hint = (
                f"; did you mean {target.where}.py?" if Path(f"{target.where}.py").exists() else ""
            )
            raise ConfigError(f"{target.where}: there is no such module here{hint}") from None
        raise _told(error, target.where, Path.cwd()) from error
    except (Exception, SystemExit) as error:
        raise _told(error, target.where, Path.cwd()) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        kind = "a folder; name the file in it" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {kind}")
    resolved = path.resolve()
    root, name = _module_of(resolved)
    _on_path(root)
    try:
        if "." in name:
            return importlib.import_module(name)
        return _executed(resolved, name if name not in sys.modules else f"app_{name}")
    except (Exception, SystemExit) as error:
        raise _told(error, str(path), root) from error


def _module_of(path: Path) -> tuple[Path, str]:
    """The folder to import from, and the dotted name from there: a file of a package is imported as part of it."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _executed(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _on_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _told(error: BaseException, where: str, root: Path) -> ConfigError:
    """The error as the user's own line shows it, without the lines of whoever imported it."""
    lines = [f"{where}: it cannot be imported"]
    if not isinstance(error, SyntaxError):
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).is_relative_to(root)
        ]
        lines += [line.rstrip() for line in traceback.format_list(own[-1:])]
    lines += [line.rstrip() for line in traceback.format_exception_only(error)]
    return ConfigError("\n".join(lines))
