"""Loads the App named on the command line: `app.py`, `package.module` or `module:name`."""

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
ACCEPTED = (
    "a file such as app.py, a module such as package.module, "
    "or either with the name of the App, such as app.py:app"
)


class Target(Struct, frozen=True):
    """A file or a module, and optionally the name of the App."""

    where: str
    name: str | None = None
    path: Path | None = None


def parse_target(text: str) -> Target:
    where, colon, name = text.rpartition(":")
    if not colon or "/" in name or "\\" in name:
        where, name = text, ""
    if not where or (colon and where != text and not name.isidentifier()):
        raise ConfigError(f"app: expected {ACCEPTED}; got {text!r:.200}")
    is_file = where.endswith(".py") or "/" in where or "\\" in where
    return Target(where, name or None, Path(where) if is_file else None)


def load_app(text: str) -> App:
    """Import the user's code and return its App, which must have at least one task."""
    target = parse_target(text)
    app = select_app(vars(_import(target)), target)
    if not app.tasks:
        raise ConfigError(f"{text}: the App has no tasks; decorate a function with @app.task")
    return app


def select_app(names: dict[str, object], target: Target) -> App:
    if target.name is not None:
        return _by_name(names, target.where, target.name)
    apps = ((name, as_app(value)) for name, value in reversed(names.items()))
    found = {id(app): name for name, app in apps if app is not None}
    if not found:
        raise ConfigError(
            f"{target.where}: no App found; {_defined_names(names)}. "
            "Create one: app = App('sqlite:///ff.db')"
        )
    if len(found) > 1:
        listed = ", ".join(sorted(found.values()))
        example = f"{target.where}:{min(found.values())}"
        raise ConfigError(
            f"{target.where}: found {len(found)} Apps, {listed}; name one, such as {example}"
        )
    (name,) = found.values()
    return _by_name(names, target.where, name)


def as_app(value: object) -> App | None:
    """An App; a blocking App is unwrapped."""
    if isinstance(value, BlockingApp):
        return value.inner
    return value if isinstance(value, App) else None


def _by_name(names: dict[str, object], where: str, name: str) -> App:
    if name not in names:
        raise ConfigError(f"{where}: no name {name}; {_defined_names(names)}")
    app = as_app(names[name])
    if app is None:
        raise ConfigError(f"{where}: {name} is a {type(names[name]).__name__}, expected an App")
    return app


def _defined_names(names: dict[str, object]) -> str:
    shown = [
        f"{name} ({type(value).__name__})"
        for name, value in names.items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    more = f" and {len(shown) - SHOWN_NAMES} more" if len(shown) > SHOWN_NAMES else ""
    return f"found {', '.join(shown[:SHOWN_NAMES])}{more}" if shown else "nothing is defined there"


def _import(target: Target) -> ModuleType:
    if target.path is not None:
        return _from_file(target.path)
    _on_path(Path.cwd())
    try:
        return importlib.import_module(target.where)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{target.where}.".startswith(f"{error.name}."):
            file = f"{target.where}.py"
            hint = f"; did you mean {file}?" if Path(file).exists() else ""
            raise ConfigError(f"{target.where}: no such module in this folder{hint}") from None
        raise _import_error(error, target.where, Path.cwd()) from error
    except (Exception, SystemExit) as error:
        raise _import_error(error, target.where, Path.cwd()) from error


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        kind = "is a folder; name a file" if path.is_dir() else "no such file"
        raise ConfigError(f"{path}: {kind}")
    resolved = path.resolve()
    root, name = _module_of(resolved)
    _on_path(root)
    try:
        if "." in name:
            return importlib.import_module(name)
        return _execute(resolved, name if name not in sys.modules else f"app_{name}")
    except (Exception, SystemExit) as error:
        raise _import_error(error, str(path), root) from error


def _module_of(path: Path) -> tuple[Path, str]:
    """The import root and the dotted name: a file of a package is imported as part of it."""
    parts, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder != folder.parent:
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _execute(path: Path, name: str) -> ModuleType:
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


def _import_error(error: BaseException, where: str, root: Path) -> ConfigError:
    """An import error with the user's own line, without the lines of the importing code."""
    lines = [f"{where}: the import failed"]
    if not isinstance(error, SyntaxError):
        own = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if Path(frame.filename).is_relative_to(root)
        ]
        lines += [line.rstrip() for line in traceback.format_list(own[-1:])]
    lines += [line.rstrip() for line in traceback.format_exception_only(error)]
    return ConfigError("\n".join(lines))
