"""The language of the report: the one door through which every fixed text goes, and the catalogues behind it.

The record and its JSON twin are in English whatever the campaign's language. A page is written inside of
`speaking(language)`; outside of it, as on the command line, everything speaks English. The catalogues are the `.po`
files in `locale/`: Babel reads them when they are first asked for, so there is nothing to compile.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from io import BytesIO

LANGUAGES = ("en", "es", "pt", "fr")
DOMAIN = "dossier"
RULES = "rules"
_rooms = [("testigo.dossier", DOMAIN)]

_spoken: ContextVar[str] = ContextVar("spoken", default="en")


def also_speaks(package: str, domain: str) -> None:
    """Another room's catalogues, `locale/` in its package; what they lack is sought in the report's."""
    if (package, domain) not in _rooms:
        _rooms.append((package, domain))
        _catalogue.cache_clear()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Everything written inside is in this language; one that has no catalogue is read as English."""
    before = _spoken.set(language if language in LANGUAGES else "en")
    try:
        yield
    finally:
        _spoken.reset(before)


def spoken() -> str:
    """The language of what is written now: a name of `LANGUAGES`."""
    return _spoken.get()


def _(message: str, /, **values: object) -> str:
    """The message in the reader's language, with its values filled in: `_("{n} rows", n=3)`."""
    text = _catalogue(spoken()).gettext(message)
    return text.format(**values) if values else text


def counted(one: str, many: str, n: int, /, **values: object) -> str:
    """The message in the form that the language has for `n` things; `n` itself is among the values."""
    return _catalogue(spoken()).ngettext(one, many, n).format(n=n, **values)


def later(message: str) -> str:
    """The message as it is, for the catalogues to have: it is kept in English and translated where it is shown."""
    return message


def plain(message: str) -> str:
    """The message without values, as templates ask for it."""
    return _catalogue(spoken()).gettext(message)


def plural(one: str, many: str, n: int) -> str:
    """The form for `n` things without values, as templates ask for it."""
    return _catalogue(spoken()).ngettext(one, many, n)


def from_rules(text: str) -> str | None:
    """What a rule says, in the language that is spoken; None where the catalogue of rules has no such text."""
    if spoken() == "en":
        return text
    told = _catalogue(spoken(), RULES).gettext(text)
    return told if told != text else None


@cache
def _catalogue(language: str, domain: str = DOMAIN) -> gettext.NullTranslations:
    if language == "en":
        return gettext.NullTranslations()
    rooms = _rooms if domain == DOMAIN else [("testigo.dossier", domain)]
    found = [_read(package, name, language) for package, name in rooms]
    for other in found[1:]:
        found[0].add_fallback(other)
    return found[0]


def _read(package: str, domain: str, language: str) -> gettext.GNUTranslations:
    from babel.messages.mofile import write_mo
    from babel.messages.pofile import read_po

    written = files(package) / "locale" / language / "LC_MESSAGES" / f"{domain}.po"
    compiled = BytesIO()
    write_mo(compiled, read_po(BytesIO(written.read_bytes()), locale=language))
    compiled.seek(0)
    return gettext.GNUTranslations(compiled)
