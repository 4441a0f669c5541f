"""Passwords and tokens: known by their form or by the environment, and never repeated in what is written or printed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

HIDDEN = "***"
# One slash too: a URL that was taken for a path has lost the other.
_IN_A_URL = re.compile(r"(?P<scheme>[a-zA-Z][\w+.-]*:/{1,2})(?P<user>[^\s/?#:@'\"]*):(?P<password>[^\s/?#'\"]+)(?=@)")
_FORMS = {
    "a token of Hugging Face": r"\bhf_[A-Za-z0-9]{20,}\b",
    "an access key of AWS": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a token of GitHub": r"\b(?:gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,})\b",
    "a token of GitLab": r"\bglpat-[\w-]{20,}\b",
    "an API key": r"\bsk-[A-Za-z0-9_-]{20,}\b",
    "a token of Slack": r"\bxox[abprs]-[A-Za-z0-9-]{10,}\b",
}
"""Forms that their makers made to be recognised: GitHub's and Hugging Face's secret scanning look for the same."""
_TOKENS = {kind: re.compile(form) for kind, form in _FORMS.items()}
_SECRET_NAME = re.compile(
    r"(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)", re.I
)
_SHORTEST = 8
"""Shorter values of the environment are words such as `true`, and would blacken what is no secret [characters]."""


def without_secrets(text: str, environment: Mapping[str, str] | None = None) -> str:
    """A text as it may be written down: passwords of URLs, tokens, and what secret variables hold become `***`.

    Parameters
    ----------
    environment
        Where secrets are looked up by the names of their variables; the process's own when it is left out.
    """
    for value in _values(os.environ if environment is None else environment):
        text = text.replace(value, HIDDEN)
    text = _IN_A_URL.sub(rf"\g<scheme>\g<user>:{HIDDEN}", text)
    for form in _TOKENS.values():
        text = form.sub(HIDDEN, text)
    return text


def secret_in(text: str) -> str | None:
    """What kind of secret a text holds, by its form; None when it holds none."""
    if _IN_A_URL.search(text):
        return "a password in a URL"
    return next((kind for kind, form in _TOKENS.items() if form.search(text)), None)


def _values(environment: Mapping[str, str]) -> Iterator[str]:
    """The longest first: one may be part of another. A path is no secret: it names the file that holds one."""
    values = {value.strip() for name, value in environment.items() if _SECRET_NAME.search(name)}
    values = {value for value in values if len(value) >= _SHORTEST and not value.startswith(("/", "~"))}
    return iter(sorted(values, key=lambda value: (-len(value), value)))
