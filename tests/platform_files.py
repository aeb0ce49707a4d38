"""Names the files of the library whose types can differ between platforms: those that mypy checks for each of them.

Such a file asks for the platform itself, or uses a name that a module it imports has on some platforms only. The
stubs of the standard library, as mypy brings them, and the library's own modules say which names those are.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import mypy

SOURCE = Path(__file__).parents[1] / "src"
STUBS = Path(mypy.__file__).parent / "typeshed" / "stdlib"
ASKS = ("sys.platform", "os.name")
WORD = re.compile(r"\w+")


def main() -> None:
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    some_platforms = defaultdict[str, set[str]](set)
    for path in STUBS.rglob("*.pyi"):
        if asks(text := path.read_text()):
            # What `socket` has is in `_socket`, too.
            package = path.relative_to(STUBS).parts[0].removesuffix(".pyi").lstrip("_")
            some_platforms[package].update(on_some_platforms(ast.parse(text).body))
    for path, text in texts.items():
        if asks(text):
            some_platforms[module_of(path)].update(on_some_platforms(ast.parse(text).body))
    for path, text in texts.items():
        if asks(text) or (may_use(text, some_platforms) and uses(ast.parse(text), some_platforms)):
            print(path.relative_to(SOURCE.parent))


def may_use(text: str, some_platforms: Mapping[str, set[str]]) -> bool:
    """Whether the words of a file allow that it does. Its syntax, which takes much longer to read, says the rest."""
    words = set(WORD.findall(text))
    return any(
        words.issuperset(module.split(".")) and not words.isdisjoint(names) for module, names in some_platforms.items()
    )


def uses(tree: ast.Module, some_platforms: Mapping[str, set[str]]) -> bool:
    """Whether a file uses a name that a module it imports has on some platforms only."""
    used, imported = names_of(tree)
    return any(used & some_platforms.get(module, set()) for module in imported)


def asks(text: str) -> bool:
    return any(question in text for question in ASKS)


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def on_some_platforms(statements: Iterable[ast.stmt], *, conditional: bool = False) -> Iterator[str]:
    """The names that a module or a class has under a condition about the platform."""
    for statement in statements:
        match statement:
            case ast.If(test, body, orelse):
                asked = conditional or asks(ast.unparse(test))
                yield from on_some_platforms([*body, *orelse], conditional=asked)
            case ast.ClassDef(name=name, body=body):
                if conditional:
                    yield name
                else:
                    yield from on_some_platforms(body)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if conditional:
                yield name
            case ast.Assign(targets=targets) if conditional:
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)) if conditional:
                yield name
            case ast.Import(names=names) | ast.ImportFrom(names=names) if conditional:
                yield from (alias.asname or alias.name for alias in names)
            case _:
                pass


def names_of(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a file uses, and the modules that it imports: packages of the standard library as a whole."""
    used, imported = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                used.add(name)
            case ast.Import(names=names):
                for alias in names:
                    imported |= {alias.name, alias.name.partition(".")[0]}
                    used.update(alias.name.split("."))
            case ast.ImportFrom(module=str(module), names=names):
                imported |= {module, module.partition(".")[0], *(f"{module}.{alias.name}" for alias in names)}
                used.update(alias.name for alias in names)
            case _:
                pass
    return used, imported


if __name__ == "__main__":
    main()
