"""What somebody with the token may do: each action is a command of Testigo, with what the form says as its words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from testigo.errors import TestigoError
from testigo.page.jobs import Answer
from testigo.page.site import Site

MOST_CHARACTERS = 2000
_CODE = re.compile(r"[A-Za-z]\d{3}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_PLACE = re.compile(r"/(?!/)[\w/.~%?=&+-]*")
Form = Mapping[str, str]


@dataclass(frozen=True)
class Action:
    """The arguments of a command, from a form; where it takes long, it goes on in the background under its name."""

    arguments: Callable[[Site, Form], list[str]]
    in_background: bool = False


def act(site: Site, name: str, form: Form) -> Answer | None:
    """Do it; None when it goes on in the background.

    Raises
    ------
    TestigoError
        When the form lacks what the command needs.
    """
    action = ACTIONS[name]
    arguments = action.arguments(site, form)
    if not action.in_background:
        return site.jobs.run(arguments)
    # Asked for again, it is done again: the key is what the workspace was.
    site.jobs.start(name, f"{site.jobs.state} {arguments}", arguments)
    return None


def back_to(form: Form) -> str:
    """The page from which the form was sent: a path of this server, nothing else."""
    place = form.get("back", "")
    return place if _PLACE.fullmatch(place) else "/"


def _stop(site: Site, form: Form) -> list[str]:
    run = form.get("run", "")
    if site.run(run) is None:
        raise _lacking("a run of this campaign", run)
    return ["stop", _root(site), run, f"--because={_text(form, 'reason')}", f"--by={_text(form, 'by') or 'page'}"]


def _confirm(site: Site, form: Form) -> list[str]:
    name = _text(form, "by")
    if not name:
        raise _lacking("the name of who looked at the samples", name)
    return ["show", _root(site), f"--confirm={name}"]


def _waive(site: Site, form: Form) -> list[str]:
    code = form.get("code", "")
    if not _CODE.fullmatch(code):
        raise _lacking("the code of a rule, such as E107", code)
    return ["waive", _root(site), code, f"--because={_text(form, 'reason')}"]


def _amend(site: Site, form: Form) -> list[str]:
    return ["amend", _root(site), f"--because={_text(form, 'reason')}"]


def _look(site: Site, _form: Form) -> list[str]:
    page = site.file("inspection", "page.html")
    page.parent.mkdir(exist_ok=True)
    return ["show", _root(site), f"--html={page}"]


def _size(site: Site, form: Form) -> list[str]:
    gpu = _text(form, "gpu")
    return ["size", _root(site), *([f"--gpu={gpu}"] if gpu else [])]


ACTIONS: dict[str, Action] = {
    "stop": Action(_stop),
    "confirm": Action(_confirm),
    "waive": Action(_waive),
    "amend": Action(_amend),
    "look": Action(_look, in_background=True),
    "size": Action(_size, in_background=True),
}


def _root(site: Site) -> str:
    return str(site.workspace.root.resolve())


def _text(form: Form, name: str) -> str:
    """What somebody wrote, without control signs; an argument of a command is never read as an option."""
    return _CONTROL.sub(" ", form.get(name, ""))[:MOST_CHARACTERS].strip()


def _lacking(expected: str, found: str) -> TestigoError:
    return TestigoError(
        expected=expected, found=found or "none", where="the form", action="fill it in and send it again"
    )
