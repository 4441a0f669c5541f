"""Where rules come from: packages of ours, files of the user, installed entry points."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType

from testigo.errors import CampaignError
from testigo.rules.rule import Rule


def collect(*packages: str) -> tuple[Rule, ...]:
    """Every rule in the modules of these packages, sorted by code. A code used twice is a programming error."""
    modules: list[ModuleType] = []
    for name in packages:
        package = importlib.import_module(name)
        modules.append(package)
        modules += [importlib.import_module(info.name) for info in pkgutil.walk_packages(package.__path__, f"{name}.")]
    return _unique([value for module in modules for value in vars(module).values() if isinstance(value, Rule)])


def load_user_rules(files: tuple[Path, ...]) -> tuple[Rule, ...]:
    """The rules of the user's own files and of installed packages in the group `testigo.rules`.

    Raises
    ------
    CampaignError
        When a file is missing, does not import, or holds no rule.
    """
    rules: list[Rule] = []
    for path in files:
        try:
            spec = importlib.util.spec_from_file_location(f"testigo_user_rules_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except Exception as error:
            raise CampaignError(
                expected="a Python file with rules that imports",
                found=f"{type(error).__name__}: {error}",
                where=str(path),
                action="mend the file, or remove it from `rules:`",
            ) from error
        own = [value for value in vars(module).values() if isinstance(value, Rule)]
        if not own:
            raise CampaignError(
                expected="at least one function decorated with @testigo.rules.rule",
                found="none",
                where=str(path),
                action="decorate a function, or remove the file from `rules:`",
            )
        rules += own
    for entry in entry_points(group="testigo.rules"):
        rules += [value for value in vars(entry.load()).values() if isinstance(value, Rule)]
    return _unique(rules)


def _unique(rules: list[Rule]) -> tuple[Rule, ...]:
    by_code: dict[str, Rule] = {}
    for rule in rules:
        if by_code.setdefault(rule.code, rule) is not rule:
            raise ValueError(f"two rules have the code {rule.code}")
    return tuple(by_code[code] for code in sorted(by_code))
