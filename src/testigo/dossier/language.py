"""The one door through which every fixed text of the report goes, so that translations can be put behind it."""

from __future__ import annotations

import gettext

_translations: gettext.NullTranslations = gettext.NullTranslations()


def _(message: str, /, **values: object) -> str:
    """The message in the reader's language, with its values filled in: `_("{n} rows", n=3)`."""
    text = _translations.gettext(message)
    return text.format(**values) if values else text


def translations() -> gettext.NullTranslations:
    """The translations in use; null ones leave English."""
    return _translations
