"""The name of a ledger on a database server: which server, and which schema of it is the campaign's."""

from __future__ import annotations

import re
from typing import Final

import sqlalchemy as sa

from testigo.errors import LedgerError

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


def server_and_schema(url: str) -> tuple[sa.URL, str]:
    """The server, and the schema that the query `?schema=NAME` names.

    Raises
    ------
    LedgerError
        When the URL is not `postgresql://USER@HOST:PORT/DATABASE`, with or without a schema.
    """
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        parsed = sa.URL.create("unknown")
    schema = parsed.query.get("schema", "testigo")
    if (
        parsed.drivername not in ("postgresql", "postgres")
        or not isinstance(schema, str)
        or not _SCHEMA.fullmatch(schema)
    ):
        raise LedgerError(
            expected="postgresql://USER@HOST:PORT/DATABASE, with ?schema=NAME of small letters, digits and _",
            found=f"{url.partition('://')[0]}://…" if "://" in url else "no URL",
            where="the ledger's place",
            action="correct the URL, or leave it out: the ledger is then a file in the workspace",
        )
    return parsed.difference_update_query(["schema"]).set(drivername="postgresql+psycopg"), schema


def without_password(url: str) -> str:
    """The URL as it may be written down, its schema with it."""
    server, schema = server_and_schema(url)
    plain = server._replace(drivername="postgresql", password=None).update_query_dict({"schema": schema})
    return plain.render_as_string()


def with_schema(url: str, campaign: str) -> str:
    """The URL with a schema: the one that it names, or one of the campaign's own."""
    server, _ = server_and_schema(url)
    if "schema" in sa.make_url(url).query:
        return url
    schema = "testigo_" + re.sub(r"[^a-z0-9_]", "_", campaign.lower())
    plain = server.set(drivername="postgresql").update_query_dict({"schema": schema[:63]})
    return plain.render_as_string(hide_password=False)
