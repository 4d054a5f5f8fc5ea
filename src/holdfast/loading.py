"""Find an application by its import path, `module:attribute`, what it serves, and a fast event loop if there is one."""

from __future__ import annotations

import asyncio
import importlib
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .definitions import Runs
from .errors import ConfigurationError
from .worker.exit_codes import is_shortage
from .worker.served import Served

if TYPE_CHECKING:
    from .app import Holdfast


def load_app(import_path: str, imports: Iterable[str] = ()) -> Holdfast:
    """Import the module, from the current folder too, and return its Holdfast, with all its tasks: the modules that it
    names in its `imports`, and these, are imported after it.
    """
    from .app import Holdfast

    module_name, colon, attribute = import_path.rpartition(":")
    if not colon or not module_name or not attribute:
        raise ConfigurationError(f"app: expected module:attribute, such as shop.jobs:hf, got {import_path!r}")
    if not all(part.isidentifier() for part in module_name.split(".")) or module_name.endswith(".py"):
        raise ConfigurationError(
            f"app: expected a module, such as {_as_module(module_name)}:{attribute}, not a file; got {import_path!r}"
        )
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    module = import_module(module_name)
    app = getattr(module, attribute, None)
    if isinstance(app, Holdfast):
        import_tasks(app, imports)
        return app
    got = f"got a {type(app).__name__}" if hasattr(module, attribute) else f"but {module_name} has no {attribute!r}"
    there = [f"{module_name}:{name}" for name, value in vars(module).items() if isinstance(value, Holdfast)]
    hint = f"It has {', '.join(there)}" if there else f"There is none in {module_name}; make one: hf = Holdfast()"
    raise ConfigurationError(f"app: expected {import_path} to be a Holdfast, {got}. {hint}")


def _as_module(path: str) -> str:
    """The name under which the file that was probably meant can be imported."""
    parts = [part for part in path.removesuffix(".py").replace("/", ".").split(".") if part.isidentifier()]
    return ".".join(parts) or "shop.jobs"


def import_tasks(app: Holdfast, imports: Iterable[str] = ()) -> None:
    """Import the modules with the tasks of this application: those that it names, and these. Each runs only once."""
    try:
        app._prepare()
    except Exception as error:
        if isinstance(error, ConfigurationError) or is_shortage(error):
            raise
        raise ConfigurationError(f"app: could not be prepared:\n{_their_part(error)}") from None
    for name in (*app._imports, *imports):
        import_module(name, "imports")


def import_module(name: str, field: str = "app") -> ModuleType:
    """Import it; errors say what is wrong, and name the option that asked for it."""
    try:
        return importlib.import_module(name)
    except Exception as error:
        if is_shortage(error):
            raise
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and (name == missing or name.startswith(f"{missing}.")):
            here = str(Path.cwd())
            where = f"in {here} or on the path" if here in sys.path else "on the path"
            raise ConfigurationError(f"{field}: there is no module {missing!r} {where}") from None
        raise ConfigurationError(f"{field}: {name} could not be imported:\n{_their_part(error)}") from None


def _their_part(error: Exception) -> str:
    """The traceback without the frames of importlib and of Holdfast."""
    ours = str(Path(__file__).parents[1])
    shown = traceback.TracebackException.from_exception(error)
    kept = [
        frame for frame in shown.stack if not frame.filename.startswith(("<frozen importlib", ours, importlib.__file__))
    ]
    shown.stack = traceback.StackSummary.from_list(kept)
    return "".join(shown.format()).rstrip()


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop if it is installed (the extra `speed`), otherwise asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def served(app: Holdfast, queues: Sequence[str] = (), import_path: str | None = None) -> Served:
    """What a worker of this application serves: these queues, or by default those of its tasks."""
    definitions = app._surrounded()
    if import_path is None and any(definition.runs is Runs.IN_PROCESS for definition in definitions.values()):
        import_path = import_path_of(app)
    own = {definition.queue for definition in definitions.values()} | app._queues_of_sources()
    routes = [route for route in app._routes.values() if not queues or route.queue in queues]
    of_routes = {queue for route in routes for queue in route.queues}
    chosen = [queue for queue in list(queues) or sorted(own) if queue not in of_routes]
    consumers = [each for each in app._consumers if each.queue in chosen]
    lifespan = partial(app._lifespan, app) if app._lifespan is not None else None
    schedules = list(app._schedules.values())
    return Served(app._database, definitions, chosen, import_path, schedules, lifespan, routes, consumers, app._tracing)


def import_path_of(app: Holdfast) -> str:
    """Where a new process finds this application: a module that holds it under a name."""
    definitions = [task._definition for task in app.tasks.values()]
    apart = [definition.function for definition in definitions if definition.runs is Runs.IN_PROCESS]
    needed = {getattr(function, "__module__", None) for function in apart}
    found: list[tuple[bool, bool, str]] = []
    for name, module in list(sys.modules.items()):
        attribute = next((key for key, value in list(getattr(module, "__dict__", {}).items()) if value is app), None)
        spec = getattr(module, "__spec__", None)  # a script has none, and cannot be imported
        if attribute is not None and spec is not None:
            # First choice: a module that it needs anyway. Last: the main program, because importing it may run it.
            found.append((name == "__main__", name not in needed, f"{spec.name}:{attribute}"))
    if found:
        return min(found)[-1]
    raise ConfigurationError(
        "process=True: its processes import the application, and no imported module holds this Holdfast; make it a "
        "global of a module other than the script that is run"
    )
