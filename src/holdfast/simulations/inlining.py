"""All simulations in one HTML page that opens without a server.

A browser loads no module from `file://`, so the modules are put into one script: each becomes a function that returns
what it exports. This needs modules that keep to a simple form, which `_module` checks: named imports and exports only.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from pathlib import Path

from ..model.rules import source

STATIC = Path(__file__).with_name("static")
ENTRY = "mount.js"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([\w/]+\.js)";\n', re.M)
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |class )", re.M)
_EXPORTED = re.compile(r"^export (?:async )?(?:function|const|class) (\w+)", re.M)


def rules_module() -> str:
    """The text of `static/rules_data.js`: the rules as a module, because not every browser can import JSON."""
    told = json.dumps(json.loads(source()), indent=1)
    return f"// Made from model/rules.json. Do not edit it.\nexport const told = {told};\n"


def page(entry: str = ENTRY) -> str:
    """The whole page. Its policy allows this one script and this one style sheet, and no request at all."""
    script = f'"use strict";\n{bundle(entry)}\nmount(document.getElementById("simulations"), {{ hash: true }});\n'
    style = (STATIC / "simulations.css").read_text(encoding="utf-8")
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "require-trusted-types-for 'script'; trusted-types 'none'; base-uri 'none'; form-action 'none'"
    )
    template = (STATIC / "page.html").read_text(encoding="utf-8")
    for name, text in (("policy", policy), ("style", style), ("script", script)):
        template = template.replace(f"<!-- {name} -->", text)
    return template


def bundle(entry: str) -> str:
    """One script with the exports of `entry` as its names."""
    made: dict[str, str] = {}
    _add(entry, made, ())
    names = ", ".join(_EXPORTED.findall((STATIC / entry).read_text(encoding="utf-8")))
    return "\n".join([*made.values(), f"const {{ {names} }} = {_variable(entry)};"])


def _add(file: str, made: dict[str, str], path: tuple[str, ...]) -> None:
    if file in path:
        raise ValueError(f"modules import each other in a circle: {' → '.join([*path, file])}")
    if file in made:
        return
    text = (STATIC / file).read_text(encoding="utf-8")
    for _, imported in _IMPORT.findall(text):
        _add(imported, made, (*path, file))
    made[file] = _module(file, text)


def _module(file: str, text: str) -> str:
    names = ", ".join(_EXPORTED.findall(text))
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = {_variable(found[2])};\n", text)
    body = _EXPORT.sub("", body)
    if left := re.search(r"^(?:import|export)\b.*", body, re.M):
        raise ValueError(f"{file}: a form of import or export that the page cannot have: {left[0]}")
    if "</script" in body or "<!--" in body:
        raise ValueError(f"{file}: text that would end the script of the page")
    return f"const {_variable(file)} = (() => {{\n{body}return {{ {names} }};\n}})();"


def _variable(file: str) -> str:
    return "module_" + file.removesuffix(".js").replace("/", "_")


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
